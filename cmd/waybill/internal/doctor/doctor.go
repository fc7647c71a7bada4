// Package doctor checks an installation with the settings that its processes read. It changes
// nothing, and no check can hang it.
package doctor

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"waybill.dev/cmd/internal/datadir"
	"waybill.dev/cmd/internal/settings"
	"waybill.dev/cmd/waybill/internal/finding"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/judge"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
)

// The groups, in their order.
const (
	groupSettings = "Settings"
	groupParts    = "Running parts"
	groupDatabase = "Database"
	groupBus      = "Bus"
	groupBehind   = "What waits"
	groupEgress   = "Network"
	groupDisk     = "Disk"
	groupEnds     = "What ends soon"
)

// Options say what to check.
type Options struct {
	Settings settings.Settings
	Faults   error    // faults of the settings
	Environ  []string // NAME=value
	Version  string   // version of this program
	// URL is an address to check: its name is resolved, and its clock is compared with this machine's.
	// Empty: the names in the settings, and the clock of the API.
	URL string
	// Parts are ops addresses of running processes, as URLs; none: the known ones.
	Parts []string
	Limit time.Duration // time limit of each check
}

// site is the state that the checks share. Each connection is opened once.
type site struct {
	Options

	running datadir.Addresses // addresses of an all-in-one that runs in the data directory
	held    bool              // an all-in-one runs there
	store   func() (*store.Store, error)
	bus     func() (*bus.Bus, error)
	parts   func() []part
}

// closeLimit is how long closing connections may take; those that hang are left to the system.
const closeLimit = time.Second

// Diagnose runs all checks.
func Diagnose(ctx context.Context, o Options) []judge.Finding {
	s := &site{Options: o}
	if o.Settings.Role == settings.Dev {
		s.held, _ = datadir.Held(o.Settings.DataDir)
		if running, err := datadir.Announced(o.Settings.DataDir); err == nil {
			s.running = running
		}
	}
	opening := context.WithoutCancel(ctx)
	var opened closers
	s.store = sync.OnceValues(func() (*store.Store, error) {
		db, err := s.openStore(opening)
		if err == nil {
			opened.add(func() { _ = db.Close() })
		}
		return db, err
	})
	s.bus = sync.OnceValues(func() (*bus.Bus, error) {
		b, err := s.openBus()
		if err == nil {
			opened.add(b.Close)
		}
		return b, err
	})
	s.parts = sync.OnceValue(func() []part { return s.readParts(ctx) })
	found := finding.Run(ctx, s, checks(), o.Limit)
	opened.close()
	return found
}

// closers are the connections to close at the end. Connections that an abandoned check opens later are
// closed at once.
type closers struct {
	mu     sync.Mutex
	closed bool
	list   []func()
}

func (c *closers) add(end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		go end()
		return
	}
	c.list = append(c.list, end)
}

// close closes everything side by side, and waits for a moment.
func (c *closers) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	var all sync.WaitGroup
	for _, end := range c.list {
		all.Go(end)
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(closeLimit):
	}
}

func checks() []finding.Check[*site] {
	check := func(group, name string, run func(*site, context.Context) []judge.Finding) finding.Check[*site] {
		return finding.Check[*site]{Group: group, Name: name, Run: func(ctx context.Context, s *site) []judge.Finding { return run(s, ctx) }}
	}
	return []finding.Check[*site]{
		check(groupSettings, "settings", (*site).checkSettings),
		check(groupSettings, "environment", (*site).checkEnvironment),
		check(groupParts, "processes", (*site).checkParts),
		check(groupParts, "versions", (*site).checkVersions),
		check(groupParts, "dispatchers", (*site).checkDispatchers),
		check(groupDatabase, "database", (*site).checkDatabase),
		check(groupDatabase, "migrations", (*site).checkMigrations),
		check(groupDatabase, "connections", (*site).checkConnections),
		check(groupDatabase, "partitions", (*site).checkPartitions),
		check(groupDatabase, "archive", (*site).checkArchive),
		check(groupDatabase, "secrets", (*site).checkSecrets),
		check(groupBus, "bus", (*site).checkBus),
		check(groupBus, "rights", (*site).checkRights),
		check(groupBus, "streams", (*site).checkStreams),
		check(groupBehind, "consumers", (*site).checkConsumers),
		check(groupBehind, "unsettled", (*site).checkUnsettled),
		check(groupEgress, "names", (*site).checkNames),
		check(groupEgress, "domains", (*site).checkDomains),
		check(groupEgress, "proxy", (*site).checkProxy),
		check(groupEgress, "clock", (*site).checkClock),
		check(groupEgress, "authorities", (*site).checkRoots),
		check(groupDisk, "space", (*site).checkSpace),
		check(groupDisk, "speed", (*site).checkSpeed),
		check(groupEnds, "tls", (*site).checkCertificate),
		check(groupEnds, "kept", (*site).checkExpiries),
	}
}

// one returns the findings of a check that has only one.
func one(f judge.Finding) []judge.Finding { return []judge.Finding{f} }

// databaseURL returns the URL in the settings, otherwise that of the data directory.
func (s *site) databaseURL() string {
	if url := s.Settings.DatabaseURL.Reveal(); url != "" {
		return url
	}
	return "sqlite:" + filepath.Join(s.Settings.DataDir, datadir.Database)
}

// sqliteFile returns the database's file; false: it is not a file.
func (s *site) sqliteFile() (string, bool) {
	path, ok := strings.CutPrefix(s.databaseURL(), "sqlite:")
	return path, ok
}

var errNoInstallation = errors.New("there is no database")

func (s *site) openStore(ctx context.Context) (*store.Store, error) {
	if path, ok := s.sqliteFile(); ok {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, errNoInstallation
		}
	}
	o := store.Options{URL: s.databaseURL(), ReadOnly: true, MaxConns: 4, Logger: slog.New(slog.DiscardHandler)}
	if keys, err := seal.Parse(s.encryptionKey().Reveal()); err == nil {
		o.Keys = keys
	}
	return store.Open(ctx, o)
}

// encryptionKey returns the key in the settings, otherwise that in the data directory; empty: there is
// none.
func (s *site) encryptionKey() domain.Secret {
	if s.Settings.EncryptionKey != "" || s.Settings.Role != settings.Dev {
		return s.Settings.EncryptionKey
	}
	key, err := datadir.ReadKey(s.Settings.DataDir, datadir.EncryptionKey)
	if err != nil {
		return ""
	}
	return key
}

var errNoBus = errors.New("no bus is set, and none runs here")

// busName returns the name of the process that has the checked settings: its user may use only its own
// inbox.
func (s *site) busName() string {
	switch s.Settings.Role {
	case settings.API:
		return "api"
	case settings.Dispatcher:
		return "dispatcher"
	case settings.Gateway:
		return "gateway"
	}
	return "waybill"
}

func (s *site) openBus() (*bus.Bus, error) {
	url := s.Settings.NATSURL.Reveal()
	if url == "" && s.held {
		url = s.running.NATS
	}
	if url == "" {
		return nil, errNoBus
	}
	return bus.Connect(bus.Options{
		URL: url, Name: s.busName(), Logger: slog.New(slog.DiscardHandler), Replicas: s.Settings.BusReplicas,
		Retention: s.Settings.BusRetention, DedupeWindow: s.Settings.DedupeWindow, MaxBytes: s.Settings.BusMaxBytes,
	})
}

// ready returns the bus once it answers.
func (s *site) ready(ctx context.Context) (*bus.Bus, error) {
	b, err := s.bus()
	if err != nil {
		return nil, err
	}
	if err := b.WaitReady(ctx); err != nil {
		if last := b.LastError(); last != nil {
			return nil, last
		}
		return nil, err
	}
	return b, nil
}

// local turns an address on which a process listens into one that can be called.
func local(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}
