package watchtest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"waybill.dev/cmd/lab/internal/stack"
)

// scrape starts a Prometheus with the shipped rules. The jobs have the names of the shipped
// configuration. The one process of the all-in-one form has a name that begins the same.
func scrape(t *testing.T, program string, running *stack.Stack) *server {
	t.Helper()
	rules, err := filepath.Abs(filepath.Join(root, "deploy", "prometheus", "rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var config strings.Builder
	fmt.Fprintf(&config, "global: { scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }\nrule_files: [%s]\nscrape_configs:\n", rules)
	for process, address := range running.Ops {
		fmt.Fprintf(&config, "  - { job_name: %s, static_configs: [{ targets: ['%s'] }] }\n", process, address)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	command := exec.CommandContext(t.Context(), program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--log.level=warn")
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 10 * time.Second
	var log strings.Builder
	command.Stderr = &log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	s := &server{T: t, url: "http://" + address}
	s.await("scrape every process", func() error {
		var out struct{ Result []struct{ Value [2]any } }
		if err := s.get("/api/v1/query?"+values("query", "count(up == 1)"), &out); err != nil {
			return err
		}
		if want := strconv.Itoa(len(running.Ops)); len(out.Result) != 1 || out.Result[0].Value[1] != want {
			return fmt.Errorf("%v processes are scraped, want %s", out.Result, want)
		}
		return nil
	})
	return s
}

// freeAddress returns an address that nothing listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func values(name, value string) string { return url.Values{name: {value}}.Encode() }

// get asks Prometheus, and decodes the data of its answer.
func (s *server) get(path string, data any) error {
	request, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.url+path, http.NoBody)
	if err != nil {
		return fmt.Errorf("ask Prometheus: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask Prometheus: %w", err)
	}
	defer response.Body.Close()
	out := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&out); err != nil {
		return fmt.Errorf("read what Prometheus answers: %w", err)
	}
	if out.Status != "success" {
		return fmt.Errorf("Prometheus answers %s: %s", out.Status, out.Error)
	}
	return nil
}

// await tries until there is no error, and reports the last one at the deadline.
func (s *server) await(what string, try func() error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	var last error
	if err := stack.Await(ctx, func() (bool, error) {
		last = try()
		return last == nil, nil
	}); err != nil {
		s.Errorf("%s: %v", what, last)
	}
}
