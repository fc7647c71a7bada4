package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	readyTimeout = 60 * time.Second
	pollEvery    = 10 * time.Millisecond
	// tailBytes of a process' log are shown when something failed.
	tailBytes = 6 << 10
)

// Process is one program with its arguments, which may run, end and run again.
type Process struct {
	Name string
	path string
	args []string
	env  []string
	log  string // file that its output is appended to
	// ready is asked until it returns nil.
	ready func(context.Context) error

	mu      sync.Mutex
	running *run // nil: not started, or its end was asked for
}

// run is one life of a process.
type run struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// From makes the process start its program from another folder, from the next time on.
func (p *Process) From(programs string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.path = filepath.Join(programs, filepath.Base(p.path))
}

// Start starts the process and waits until it is ready.
func (p *Process) Start(ctx context.Context) error {
	if err := p.Launch(); err != nil {
		return err
	}
	return p.AwaitReady(ctx)
}

// Launch starts the process and does not wait for it.
func (p *Process) Launch() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil {
		return fmt.Errorf("start %s: it runs already", p.Name)
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log of %s: %w", p.Name, err)
	}
	defer log.Close()
	// It ends by Kill and Stop, not with a context.
	cmd := exec.CommandContext(context.Background(), p.path, p.args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = p.env, log, log
	cmd.Dir = filepath.Dir(p.log) // not where whoever starts it is: there may be a folder config, with routes
	cmd.SysProcAttr = attributes()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	r := &run{cmd: cmd, done: make(chan struct{})}
	p.running = r
	go func() {
		_ = cmd.Wait()
		close(r.done)
	}()
	return nil
}

// AwaitReady waits until the process says that it is ready. It fails when the process
// ends instead, or after a minute.
func (p *Process) AwaitReady(ctx context.Context) error {
	r := p.current()
	if r == nil {
		return fmt.Errorf("%s does not run", p.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		err := p.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-r.done:
			return fmt.Errorf("%s ended while it started (%s):\n%s", p.Name, r.cmd.ProcessState, p.Tail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w:\n%s", p.Name, err, p.Tail())
		case <-ticker.C:
		}
	}
}

// Kill ends the process with SIGKILL and waits for its end.
func (p *Process) Kill() error {
	r := p.take()
	if r == nil {
		return fmt.Errorf("kill %s: it does not run", p.Name)
	}
	if err := r.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill %s, which had ended by itself (%s): %w:\n%s", p.Name, r.cmd.ProcessState, err, p.Tail())
	}
	<-r.done
	return nil
}

// Stop asks the process to end with SIGTERM and returns its exit code. When ctx is done
// first, the process is killed.
func (p *Process) Stop(ctx context.Context) (code int, err error) {
	r := p.take()
	if r == nil {
		return 0, fmt.Errorf("stop %s: it does not run", p.Name)
	}
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return 0, fmt.Errorf("stop %s: %w", p.Name, err)
	}
	select {
	case <-r.done:
		return r.cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		_ = r.cmd.Process.Kill()
		<-r.done
		return r.cmd.ProcessState.ExitCode(), fmt.Errorf("stop %s: %w:\n%s", p.Name, ctx.Err(), p.Tail())
	}
}

// Running reports whether the process was started and has not ended.
func (p *Process) Running() bool {
	r := p.current()
	if r == nil {
		return false
	}
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

// Died returns an error when the process ended although nobody asked for it.
func (p *Process) Died() error {
	r := p.current()
	if r == nil || p.Running() {
		return nil
	}
	return fmt.Errorf("%s ended by itself (%s):\n%s", p.Name, r.cmd.ProcessState, p.Tail())
}

// Pid returns the process id; 0: it does not run.
func (p *Process) Pid() int {
	if !p.Running() {
		return 0
	}
	return p.current().cmd.Process.Pid
}

// Tail returns the end of the process' log.
func (p *Process) Tail() string {
	out, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	if len(out) > tailBytes {
		out = out[len(out)-tailBytes:]
		if i := bytes.IndexByte(out, '\n'); i >= 0 {
			out = out[i+1:]
		}
	}
	return string(out)
}

// LogFile returns the file that the process' output goes to.
func (p *Process) LogFile() string { return p.log }

func (p *Process) current() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running
}

func (p *Process) take() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.running
	p.running = nil
	return r
}

// startAll starts processes that may need each other to be ready.
func startAll(ctx context.Context, processes []*Process) error {
	for _, p := range processes {
		if err := p.Launch(); err != nil {
			return err
		}
	}
	for _, p := range processes {
		if err := p.AwaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// answers returns a check that asks an HTTP address for a path.
func answers(client *http.Client, address, path string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, http.NoBody)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			var body bytes.Buffer
			_, _ = body.ReadFrom(http.MaxBytesReader(nil, response.Body, 1<<10))
			return fmt.Errorf("%s answers %d: %s", path, response.StatusCode, body.String())
		}
		return nil
	}
}

// answersConnect returns a check that connects to a TCP address.
func answersConnect(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		dialer := net.Dialer{Timeout: time.Second}
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}
