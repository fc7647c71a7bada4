package stack

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Metric returns the sum of a metric of a process over all its labels; 0: it has none.
func (s *Stack) Metric(ctx context.Context, process, name string) (float64, error) {
	text, err := s.Metrics(ctx, process)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		metric, value, ok := strings.Cut(lines.Text(), " ")
		if base, _, _ := strings.Cut(metric, "{"); !ok || base != name {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("read metric %s: %w", name, err)
		}
		sum += n
	}
	return sum, lines.Err()
}

// Metrics returns all that a process shows at /metrics.
func (s *Stack) Metrics(ctx context.Context, process string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Ops[process]+"/metrics", http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask %s for metrics: %w", process, err)
	}
	response, err := s.site.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask %s for metrics: %w", process, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read metrics of %s: %w", process, err)
	}
	return text, nil
}

// AwaitDispatchers waits until a metric has the value in every process that dispatches.
func (s *Stack) AwaitDispatchers(ctx context.Context, name string, value float64) error {
	processes := s.Dispatchers
	if s.Waybill != nil {
		processes = []*Process{s.Waybill}
	}
	for _, p := range processes {
		var last float64
		err := Await(ctx, func() (bool, error) {
			var err error
			last, err = s.Metric(ctx, p.Name, name)
			return err == nil && last == value, nil
		})
		if err != nil {
			return fmt.Errorf("%s of %s is %g, want %g: %w", name, p.Name, last, value, err)
		}
	}
	return nil
}
