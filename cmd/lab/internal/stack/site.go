package stack

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Site is where stacks are built: the binaries, a folder for logs and data, and ports
// that are handed out once.
type Site struct {
	dir    string
	module string // where this module's source lies
	http   *http.Client

	mu      sync.Mutex
	ports   map[int]bool
	stacks  int
	gateway bool // its program is built
}

// program is a binary of a site, with the package that it is built from.
type program struct{ name, pkg string }

func programs() []program {
	return []program{
		{"waybill", "waybill.dev/cmd/waybill"},
		{"waybill-api", "waybill.dev/cmd/api"},
		{"waybill-dispatcher", "waybill.dev/cmd/dispatcher"},
		{"nats-server", "github.com/nats-io/nats-server/v2"},
	}
}

// NewSite builds the binaries as they are shipped (static, without the race detector)
// into dir, which holds everything else besides and belongs to the caller.
func NewSite(ctx context.Context, dir string) (*Site, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("locate the site: %w", err)
	}
	s := &Site{
		dir:   dir,
		http:  &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second},
		ports: make(map[int]bool),
	}
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		return nil, fmt.Errorf("make the site: %w", err)
	}
	module, err := goCommand(ctx, "", "list", "-m", "-f", "{{.Dir}}", "waybill.dev/cmd")
	if err != nil {
		return nil, err
	}
	s.module = module
	for _, p := range programs() {
		// nats-server comes from the module graph that the all-in-one binary is built from,
		// so both have the same version.
		if err := s.build(ctx, p); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Site) build(ctx context.Context, p program, flags ...string) error {
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", s.binary(p.name)}, flags...)
	_, err := goCommand(ctx, s.module, append(args, p.pkg)...)
	return err
}

// buildGateway builds the program that only some stacks have.
func (s *Site) buildGateway(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gateway {
		return nil
	}
	if err := s.build(ctx, program{"waybill-gateway", "waybill.dev/cmd/gateway"}); err != nil {
		return err
	}
	s.gateway = true
	return nil
}

func (s *Site) binary(name string) string { return filepath.Join(s.Programs(), name) }

// Programs returns the folder of the binaries.
func (s *Site) Programs() string { return filepath.Join(s.dir, "bin") }

// Binary returns the path of the waybill command, for tests of its verbs.
func (s *Site) Binary() string { return s.binary("waybill") }

func goCommand(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly")
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			out = append(out, exit.Stderr...)
		}
		return "", fmt.Errorf("go %s: %w:\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// Ports are taken below the range from which the system gives out ports of outgoing
// connections, so that none of those can take the port of a process that is down.
const (
	lowestPort  = 10_000
	highestPort = 25_999 // docstest has those above
)

// port returns the loopback address of a free port that no other stack of this site gets.
func (s *Site) port() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var last error
	for range 200 {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		if s.ports[port] {
			continue
		}
		address := fmt.Sprintf("127.0.0.1:%d", port)
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
		if err != nil {
			last = err
			continue
		}
		s.ports[port] = true
		return address, l.Close()
	}
	return "", fmt.Errorf("find a free port: %w", last)
}

// folder makes a folder of its own for a stack, without what an earlier run left there.
func (s *Site) folder(name string) (string, error) {
	s.mu.Lock()
	s.stacks++
	n := s.stacks
	s.mu.Unlock()
	dir := filepath.Join(s.dir, fmt.Sprintf("%02d-%s", n, name))
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("clear a stack's folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make a stack's folder: %w", err)
	}
	return dir, nil
}

// runToEnd runs a binary.
func runToEnd(ctx context.Context, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w:\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
