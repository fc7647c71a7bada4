package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binaries is where the programs under test lie, built as they are shipped.
var binaries string

func TestMain(m *testing.M) { os.Exit(withBinaries(m)) }

func withBinaries(m *testing.M) int {
	dir, err := os.MkdirTemp("", "waybill-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // another user runs one of them too
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for name, pkg := range map[string]string{"waybill": "waybill", "waybill-api": "api", "waybill-dispatcher": "dispatcher", "waybill-gateway": "gateway"} {
		build := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-buildvcs=false",
			"-ldflags", "-s -w -X main.version=v0.0.0-test", "-o", filepath.Join(dir, name), "waybill.dev/cmd/"+pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build %s: %v\n%s", name, err, out)
			return 1
		}
	}
	binaries = dir
	return m.Run()
}

// command is one of the programs, ready to run in a folder of its own.
type command struct {
	*exec.Cmd

	out, err buffer
}

// buffer may be read while a process writes.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// prepare makes a command without settings of the surroundings; env is NAME=value.
func prepare(t *testing.T, dir string, env []string, program string, args ...string) *command {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	t.Cleanup(cancel)
	c := &command{Cmd: exec.CommandContext(ctx, filepath.Join(binaries, program), args...)}
	c.Dir = dir
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "WAYBILL_") && !strings.HasPrefix(variable, "OTEL_") {
			c.Env = append(c.Env, variable)
		}
	}
	c.Env = append(c.Env, env...)
	c.Stdout, c.Stderr = &c.out, &c.err
	return c
}

// finish runs the command to its end and returns the exit code.
func (c *command) finish(t *testing.T) int {
	t.Helper()
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("run %v: %v", c.Args, err)
	}
	return c.ProcessState.ExitCode()
}

// waybill runs waybill to its end in dir.
func waybill(t *testing.T, dir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	c := prepare(t, dir, nil, "waybill", args...)
	code = c.finish(t)
	return code, c.out.String(), c.err.String()
}

// must is waybill for a command that is expected to succeed.
func must(t *testing.T, dir string, args ...string) string {
	t.Helper()
	code, stdout, stderr := waybill(t, dir, args...)
	if code != 0 {
		t.Fatalf("waybill %v exits with %d:\n%s%s", args, code, stdout, stderr)
	}
	return stdout
}

// installation is a running `waybill dev`.
type installation struct {
	*command

	dir       string
	addresses struct{ API, NATS, Ops, Receiver string }
}

// dev starts `waybill dev` on free ports in a folder of its own, where commands find it.
func dev(t *testing.T, env ...string) *installation {
	t.Helper()
	dir := t.TempDir()
	i := &installation{dir: dir, command: prepare(t, dir, env, "waybill", "dev",
		"--http", "127.0.0.1:0", "--ops", "127.0.0.1:0", "--nats", "127.0.0.1:0", "--receiver", "127.0.0.1:0")}
	if err := i.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if i.ProcessState == nil {
			i.stop(t, syscall.SIGTERM)
		}
	})
	eventually(t, func() error {
		text, err := os.ReadFile(filepath.Join(dir, ".waybill", "addresses.json"))
		if err != nil {
			return fmt.Errorf("waybill dev does not start: %w\n%s%s", err, &i.out, &i.err)
		}
		return json.Unmarshal(text, &i.addresses)
	})
	eventually(t, func() error {
		if code, _, stderr := waybill(t, dir, "health", i.addresses.API); code != 0 {
			return errors.New(stderr)
		}
		return nil
	})
	return i
}

// stop ends the process by a signal and checks that it exits with 0.
func (c *command) stop(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := c.Process.Signal(sig); err != nil {
		t.Fatalf("signal %v: %v", c.Args, err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("%v ended with %v:\n%s%s", c.Args, err, &c.out, &c.err)
	}
}

func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-ticker.C
	}
}
