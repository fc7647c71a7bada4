package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// The kinds of process, as the only argument of the program that calls Serve.
const (
	KindReceiver    = "receiver"
	KindNetReceiver = "net-http-receiver" // with net/http, as most receivers are
	KindPublisher   = "publisher"
	KindLoop        = "loop"
	KindBackEnd     = "back-end" // of the gateway
	KindProxy       = "proxy"    // net/http's, beside the gateway
	KindCaller      = "caller"   // of routes
)

// Child is one of the processes, as its parent sees it.
type Child struct {
	kind string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *json.Decoder
}

// Start starts this program again as a process of that kind.
func Start(ctx context.Context, kind string) (*Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, kind)
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = 5 * time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the %s: %w", kind, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the %s: %w", kind, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the %s: %w", kind, err)
	}
	return &Child{kind: kind, cmd: cmd, in: in, out: json.NewDecoder(out)}, nil
}

// Pid returns the process id.
func (c *Child) Pid() int { return c.cmd.Process.Pid }

// Close ends the process and waits for its end.
func (c *Child) Close() error {
	_ = c.in.Close()
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("end the %s: %w", c.kind, err)
	}
	return nil
}

// call has the process do something; it fails with what the process says that failed.
// The process ends with the context that it was started with, and a call with it.
func (c *Child) call(in, out any) error {
	if err := json.NewEncoder(c.in).Encode(in); err != nil {
		return fmt.Errorf("tell the %s what to do: %w", c.kind, err)
	}
	var answer answer
	if err := c.out.Decode(&answer); err != nil {
		return fmt.Errorf("read what the %s answers: %w", c.kind, err)
	}
	if answer.Fault != "" {
		return fmt.Errorf("the %s: %s", c.kind, answer.Fault)
	}
	if err := json.Unmarshal(answer.Result, out); err != nil {
		return fmt.Errorf("decode what the %s answers: %w", c.kind, err)
	}
	return nil
}

// answer is one line of a process' output.
type answer struct {
	Fault  string          `json:"fault,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// Serve is the process of a kind: it goes on until in ends. While it works it watches
// its input, so that it does not work on for nobody. Other kinds are not known: ok is
// false.
func Serve(kind string, in io.Reader, out io.Writer) (ok bool, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	asked := make(chan json.RawMessage)
	go func() {
		defer cancel()
		for decoder := json.NewDecoder(in); ; {
			var line json.RawMessage
			if decoder.Decode(&line) != nil {
				return
			}
			select {
			case asked <- line:
			case <-ctx.Done():
				return
			}
		}
	}()
	var do func(context.Context, json.RawMessage) (any, error)
	switch kind {
	case KindReceiver, KindNetReceiver:
		r, err := newReceiver(kind == KindNetReceiver)
		if err != nil {
			return true, err
		}
		do = handle(r.do)
	case KindPublisher:
		do = handle(publish)
	case KindLoop:
		do = handle(loop)
	case KindBackEnd:
		do = handle(backEnd)
	case KindProxy:
		do = handle(proxy)
	case KindCaller:
		do = handle(ask)
	default:
		return false, nil
	}
	for encoder := json.NewEncoder(out); ; {
		select {
		case <-ctx.Done():
			return true, nil
		case line := <-asked:
			if err := encoder.Encode(reply(do(ctx, line))); err != nil {
				return true, errors.Join(err, ctx.Err())
			}
		}
	}
}

// handle decodes what f is asked.
func handle[In, Out any](f func(context.Context, In) (Out, error)) func(context.Context, json.RawMessage) (any, error) {
	return func(ctx context.Context, line json.RawMessage) (any, error) {
		var in In
		if err := json.Unmarshal(line, &in); err != nil {
			return nil, fmt.Errorf("decode what to do: %w", err)
		}
		return f(ctx, in)
	}
}

func reply(result any, err error) answer {
	if err != nil {
		return answer{Fault: err.Error()}
	}
	text, err := json.Marshal(result)
	if err != nil {
		return answer{Fault: err.Error()}
	}
	return answer{Result: text}
}
