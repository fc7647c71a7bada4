package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"waybill.dev/shared/egress/hostile"
)

// As the only argument these make this program receivers: the hostile ones, as many that
// answer at once, or sick ones, of which one half hangs and the other answers 500.
const (
	hostileArg = "hostile-receivers"
	politeArg  = "polite-receivers"
	sickArg    = "sick-receivers"
)

// sickOfEach is how many sick receivers hang, and how many answer 500.
const sickOfEach = 4

// siege is receivers in a process of their own: what floods, hangs and resets must not
// take the time of who publishes and measures. They are nicer than the others, for in
// life they are on other machines.
type siege struct {
	command *exec.Cmd
	stdin   io.Closer
	sinks   []besieger
}

type besieger struct{ Name, URL string }

func startSiege(ctx context.Context, kind string) (*siege, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, "nice", "-n", "10", self, kind)
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = 5 * time.Second
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start receivers: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start receivers: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start receivers: %w", err)
	}
	s := &siege{command: cmd, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &s.sinks)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start receivers: %w", err), s.close())
	}
	return s, nil
}

func (s *siege) close() error {
	_ = s.stdin.Close()
	if err := s.command.Wait(); err != nil {
		return fmt.Errorf("stop receivers: %w", err)
	}
	return nil
}

// beSiege is the receivers: it writes their addresses, and goes on until in ends.
func beSiege(kind string, in io.Reader, out io.Writer) error {
	h := &host{}
	defer h.close()
	var list []besieger
	serve := func(name string, answer http.HandlerFunc) {
		server := httptest.NewServer(answer)
		h.Cleanup(server.Close)
		list = append(list, besieger{Name: name, URL: server.URL})
	}
	switch kind {
	case sickArg:
		for range sickOfEach {
			serve("hangs", func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
			})
			serve("answers 500", func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.WriteHeader(http.StatusInternalServerError)
			})
		}
	default:
		for _, s := range hostile.Sinks() {
			if kind == hostileArg {
				list = append(list, besieger{Name: s.Name, URL: s.Start(h)})
				continue
			}
			serve("polite", func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.WriteHeader(http.StatusNoContent)
			})
		}
	}
	if err := json.NewEncoder(out).Encode(list); err != nil {
		return fmt.Errorf("tell the addresses: %w", err)
	}
	_, _ = io.Copy(io.Discard, in)
	return nil
}

// host stands in for the test that hostile receivers are made for.
type host struct {
	testing.TB
	cleanups []func()
}

// Helper implements testing.TB.
func (*host) Helper() {}

// Cleanup implements testing.TB.
func (h *host) Cleanup(f func()) { h.cleanups = append(h.cleanups, f) }

// Fatal implements testing.TB.
func (*host) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

func (h *host) close() {
	for _, f := range slices.Backward(h.cleanups) {
		f()
	}
}
