// Package pgtest runs a temporary Postgres cluster for a test, a benchmark or a
// chaos run. It is made with initdb, started as an ordinary child process, stopped by its
// process id, and removed with its files.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrNoBinaries says what to install if Postgres' server programs are missing.
var ErrNoBinaries = errors.New("no Postgres server programs found: install the package postgresql " +
	"(Debian, Ubuntu), or set WAYBILL_PG_BIN to the folder that holds initdb and postgres")

const (
	superuser = "waybill"
	// nobody is the user as which the server runs when this process is root, because Postgres refuses to run as root.
	nobody       = 65534
	readyTimeout = 30 * time.Second
	stopTimeout  = 20 * time.Second
)

// Cluster is one running Postgres server with its own data directory.
type Cluster struct {
	bin      string
	root     string // holds data/ and the log
	owned    bool   // root was made here and is removed by Stop
	sockets  string
	port     int
	settings []string

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended
}

// Start makes a cluster in dir and starts it. An empty dir means a temporary one that
// Stop removes; a dir that already holds a cluster is started as it is. Settings are
// postgres parameters such as "fsync=off". When this process is root, the server runs
// as nobody, who must be able to reach dir.
func Start(ctx context.Context, dir string, settings ...string) (*Cluster, error) {
	bin, err := findBinaries()
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin, root: dir, settings: settings}
	if err := c.prepare(ctx); err != nil {
		c.remove()
		return nil, err
	}
	if err := c.launch(ctx); err != nil {
		c.remove()
		return nil, err
	}
	return c, nil
}

// Disposable returns settings, together with further ones, for a cluster whose data need not survive a crash of the machine and
// is never copied.
func Disposable(settings ...string) []string {
	return append([]string{"fsync=off", "full_page_writes=off", "wal_level=minimal", "max_wal_senders=0"}, settings...)
}

// URL returns the connection URL of one of the cluster's databases.
func (c *Cluster) URL(database string) string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s?sslmode=disable", superuser, c.port, database)
}

// Pid returns the process id of the postmaster, 0 when it does not run.
func (c *Cluster) Pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd == nil {
		return 0
	}
	return c.cmd.Process.Pid
}

// Ended reports whether the server has stopped by itself: not by Stop, Halt or Kill.
func (c *Cluster) Ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd == nil {
		return false
	}
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Dir returns the folder that holds the data directory (data) and the server's log.
func (c *Cluster) Dir() string { return c.root }

// CreateDatabase makes an empty database and returns its URL.
func (c *Cluster) CreateDatabase(ctx context.Context, name string) (string, error) {
	return c.CloneDatabase(ctx, "template1", name)
}

// CloneDatabase makes a copy of a database without connections, and returns the URL of the copy.
func (c *Cluster) CloneDatabase(ctx context.Context, from, name string) (string, error) {
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return "", fmt.Errorf("connect to the cluster: %w", err)
	}
	defer conn.Close(ctx)
	query := "CREATE DATABASE " + pgx.Identifier{name}.Sanitize() + " TEMPLATE " + pgx.Identifier{from}.Sanitize()
	// Copying files takes a third of the processor time of the default of Postgres 15 and later, which logs each page.
	version, _, _ := strings.Cut(conn.PgConn().ParameterStatus("server_version"), ".")
	if major, err := strconv.Atoi(version); err == nil && major >= 15 {
		query += " STRATEGY FILE_COPY"
	}
	if _, err := conn.Exec(ctx, query); err != nil {
		return "", fmt.Errorf("create database: %w", err)
	}
	return c.URL(name), nil
}

// DropDatabase removes a database, ending the sessions in it.
func (c *Cluster) DropDatabase(ctx context.Context, name string) error {
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("drop database: %w", err)
	}
	return nil
}

// Stop ends the server (by a fast shutdown, or an immediate one when that takes too long) and
// removes what Start made.
func (c *Cluster) Stop() error {
	err := c.Halt()
	c.remove()
	return err
}

// Halt ends the server and keeps its files; Resume starts it again.
func (c *Cluster) Halt() error {
	return c.end(syscall.SIGINT)
}

// Kill ends the postmaster with SIGKILL, as a crash would, and keeps its files.
func (c *Cluster) Kill() error {
	return c.end(syscall.SIGKILL)
}

// Resume starts a halted or killed server again, on the same port. After a kill the old server's
// backends take a moment to notice, and until then a new server refuses to start: Resume tries again.
func (c *Cluster) Resume(ctx context.Context) error {
	if c.Pid() != 0 {
		return errors.New("the cluster is running")
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := c.launch(ctx)
		if !errors.Is(err, errEnded) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// errEnded means that the server ended before it answered.
var errEnded = errors.New("postgres ended while starting")

func (c *Cluster) end(sig syscall.Signal) error {
	c.mu.Lock()
	cmd, done := c.cmd, c.done
	c.mu.Unlock()
	if cmd == nil {
		return nil
	}
	if err := cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal postgres: %w", err)
	}
	select {
	case <-done:
	case <-time.After(stopTimeout):
		_ = cmd.Process.Signal(syscall.SIGQUIT)
		<-done
	}
	c.mu.Lock()
	c.cmd = nil
	c.mu.Unlock()
	return nil
}

func (c *Cluster) remove() {
	if c.owned {
		_ = os.RemoveAll(c.root)
	}
	if c.sockets != "" {
		_ = os.RemoveAll(c.sockets)
	}
}

// prepare makes the folders and the data directory, and chooses a port.
func (c *Cluster) prepare(ctx context.Context) error {
	if c.root == "" {
		dir, err := os.MkdirTemp("", "waybill-pg-")
		if err != nil {
			return fmt.Errorf("make cluster folder: %w", err)
		}
		c.root, c.owned = dir, true
	}
	sockets, err := os.MkdirTemp("", "pg-") // short, because a socket's path has at most 107 bytes
	if err != nil {
		return fmt.Errorf("make socket folder: %w", err)
	}
	c.sockets = sockets
	if err := os.MkdirAll(c.root, 0o700); err != nil {
		return fmt.Errorf("make cluster folder: %w", err)
	}
	if os.Geteuid() == 0 {
		for _, dir := range []string{c.root, c.sockets} {
			if err := os.Chown(dir, nobody, nobody); err != nil {
				return fmt.Errorf("hand the cluster folder to nobody: %w", err)
			}
		}
	}
	if c.port, err = freePort(ctx); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(c.data(), "PG_VERSION")); err == nil {
		return nil
	}
	initdb := c.command(ctx, "initdb", "-D", c.data(), "-A", "trust", "-U", superuser,
		"-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions")
	if runtime.GOOS == "linux" { // every Linux has it: letters of all languages have their lower case, as in most installations
		initdb.Args = append(initdb.Args, "--lc-ctype=C.UTF-8")
	}
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, tail(out))
	}
	return nil
}

// launch starts the server and waits until it answers.
func (c *Cluster) launch(ctx context.Context) error {
	logPath := filepath.Join(c.root, "postgres.log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open postgres log: %w", err)
	}
	defer log.Close()
	args := []string{
		"-D", c.data(), "-p", strconv.Itoa(c.port), "-k", c.sockets,
		"-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200",
	}
	for _, s := range c.settings {
		args = append(args, "-c", s)
	}
	// The server outlives ctx, which only bounds its start.
	cmd := c.command(context.WithoutCancel(ctx), "postgres", args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	c.mu.Lock()
	c.cmd, c.done = cmd, done
	c.mu.Unlock()
	if err := c.awaitReady(ctx, done); err != nil {
		_ = c.end(syscall.SIGQUIT)
		out, _ := os.ReadFile(logPath)
		return fmt.Errorf("%w: %s", err, tail(out))
	}
	return nil
}

func (c *Cluster) awaitReady(ctx context.Context, done <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, c.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-done:
			return errEnded
		case <-ctx.Done():
			return fmt.Errorf("postgres did not answer in time: %w", err)
		case <-tick.C:
		}
	}
}

func (c *Cluster) data() string { return filepath.Join(c.root, "data") }

// command prepares one of Postgres' programs. It runs as nobody when this process is root.
func (c *Cluster) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, name), args...)
	cmd.Dir = c.root
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC")
	cmd.SysProcAttr = processAttributes()
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return cmd
}

// findBinaries returns the folder with initdb and postgres.
func findBinaries() (string, error) {
	var candidates []string
	if dir := os.Getenv("WAYBILL_PG_BIN"); dir != "" {
		candidates = append(candidates, dir)
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		if target, err := filepath.EvalSymlinks(path); err == nil {
			candidates = append(candidates, filepath.Dir(target))
		}
	}
	installed, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.Reverse(installed) // the newest first
	candidates = append(candidates, installed...)
	for _, dir := range candidates {
		if executable(filepath.Join(dir, "initdb")) && executable(filepath.Join(dir, "postgres")) {
			return dir, nil
		}
	}
	return "", ErrNoBinaries
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}

func freePort(ctx context.Context) (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, errors.New("find a free port: not a TCP address")
	}
	return addr.Port, nil
}

// tail returns the last lines of a program's output, for an error message.
func tail(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) > 10 {
		lines = lines[len(lines)-10:]
	}
	return strings.Join(lines, " | ")
}
