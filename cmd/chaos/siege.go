package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"waybill.dev/shared/egress/hostile"
)

// besiegerArg as the only argument makes this program the hostile receivers.
const besiegerArg = "hostile-receivers"

// siege is the hostile receivers, in a process of their own: what floods, hangs and
// resets must not take the time of who publishes and measures. They are nicer than the
// others, for in life they are on other machines.
type siege struct {
	command *exec.Cmd
	stdin   io.Closer
	sinks   []besieger
}

type besieger struct{ Name, URL string }

func startSiege(ctx context.Context) (*siege, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, "nice", "-n", "10", self, besiegerArg)
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = 5 * time.Second
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start hostile receivers: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start hostile receivers: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start hostile receivers: %w", err)
	}
	s := &siege{command: cmd, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &s.sinks)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start hostile receivers: %w", err), s.close())
	}
	return s, nil
}

func (s *siege) close() error {
	_ = s.stdin.Close()
	if err := s.command.Wait(); err != nil {
		return fmt.Errorf("stop hostile receivers: %w", err)
	}
	return nil
}

// beSiege is the hostile receivers: it writes their addresses, and goes on until in ends.
func beSiege(in io.Reader, out io.Writer) error {
	h := &host{}
	defer h.close()
	var list []besieger
	for _, s := range hostile.Sinks() {
		list = append(list, besieger{Name: s.Name, URL: s.Start(h)})
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
