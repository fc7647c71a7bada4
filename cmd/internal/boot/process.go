// Package boot assembles a process: it opens each handle once and makes the list of parts for the
// wanted roles. The all-in-one process and the services differ only in their roles and options.
package boot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// stopTime is how long a process may take to stop.
const stopTime = 30 * time.Second

// part is one part of a process. Its Run works until ctx is done, then finishes its work. If ctx is
// already done when Run is called, it only closes its resources.
type part struct {
	name string
	run  func(context.Context) error
}

// Process is a list of parts. They start in the order in which they were added and stop in
// the reverse order, one after the other.
type Process struct {
	log   *slog.Logger
	parts []part
}

// NewProcess returns a process without parts.
func NewProcess(log *slog.Logger) *Process { return &Process{log: log} }

// Add appends a part.
func (p *Process) Add(name string, run func(context.Context) error) {
	p.parts = append(p.parts, part{name, run})
}

// AddCloser appends a part that only has to be closed at the end.
func (p *Process) AddCloser(name string, end func() error) {
	p.Add(name, func(ctx context.Context) error {
		<-ctx.Done()
		return end()
	})
}

// Abandon closes the resources of the parts, if the process can't start. It returns cause, joined
// with the errors of closing.
func (p *Process) Abandon(cause error) error {
	done, cancel := context.WithCancel(context.Background())
	cancel()
	errs := []error{cause}
	for _, part := range slices.Backward(p.parts) {
		if err := part.run(done); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", part.name, err))
		}
	}
	return errors.Join(errs...)
}

type ending struct {
	index int
	err   error
}

// Run starts every part and waits until ctx is done, or a part ends by itself: then all are
// stopped, within 30 seconds. The returned error joins those of the parts; a part that ends without
// being asked to is an error.
func (p *Process) Run(ctx context.Context) error {
	endings := make(chan ending, len(p.parts))
	stops := make([]context.CancelFunc, len(p.parts))
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	for i, part := range p.parts {
		var partCtx context.Context
		partCtx, stops[i] = context.WithCancel(context.WithoutCancel(ctx))
		p.log.Debug("a part of the process starts", "part", part.name)
		go func() { endings <- ending{i, part.run(partCtx)} }()
	}
	var errs []error
	ended := make([]bool, len(p.parts))
	note := func(e ending, asked bool) {
		ended[e.index] = true
		name := p.parts[e.index].name
		switch {
		case e.err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", name, e.err))
		case !asked:
			errs = append(errs, fmt.Errorf("%s ended by itself", name))
		}
	}
	select {
	case <-ctx.Done():
	case e := <-endings:
		note(e, false)
		p.log.Error("a part failed; the process ends", "part", p.parts[e.index].name, "error", e.err)
	}
	deadline := time.NewTimer(stopTime)
	defer deadline.Stop()
	for i, part := range slices.Backward(p.parts) {
		p.log.Debug("a part of the process stops", "part", part.name)
		stops[i]()
		for !ended[i] {
			select {
			case e := <-endings:
				note(e, e.index >= i)
			case <-deadline.C:
				return errors.Join(append(errs, fmt.Errorf("not stopped within %s: %s", stopTime, p.missing(ended)))...)
			}
		}
	}
	return errors.Join(errs...)
}

func (p *Process) missing(ended []bool) string {
	var names []string
	for i, part := range p.parts {
		if !ended[i] {
			names = append(names, part.name)
		}
	}
	return strings.Join(names, ", ")
}
