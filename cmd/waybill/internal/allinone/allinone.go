// Package allinone puts API, dispatcher, bus, database and a receiver into one process.
package allinone

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"waybill.dev/cmd/internal/apipart"
	"waybill.dev/cmd/internal/boot"
	"waybill.dev/cmd/internal/datadir"
	"waybill.dev/cmd/internal/dispatcherpart"
	"waybill.dev/cmd/internal/gatewaypart"
	"waybill.dev/cmd/internal/receiver"
	"waybill.dev/cmd/internal/settings"
	"waybill.dev/cmd/waybill/internal/natsd"
	"waybill.dev/services/dispatcher"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/signal"
	"waybill.dev/shared/store/pipeline"
)

// Instance is a process with parts that listen and wait for Run.
type Instance struct {
	datadir.Addresses

	DataDir  string
	Database string // for people, without a password
	AdminKey domain.Secret
	// KeyIsOurs says that the admin key was made here and is in the data directory.
	KeyIsOurs bool
	Receiver  *receiver.Receiver // nil: none
	// Console is where the console is: a link that signs in once, within 60 s of the start.
	Console string
	// ReceiverMoved is the default address if the receiver had to use another one; empty: it uses the configured
	// address.
	ReceiverMoved string

	process *boot.Process
	watch   func(dispatcher.MadeAttempt)
}

// Run works until ctx is done and everything has stopped.
func (i *Instance) Run(ctx context.Context) error { return i.process.Run(ctx) }

// Open opens everything. If it fails, it closes what it has opened. watch is called after
// each attempt; nil: nothing is called.
func Open(ctx context.Context, s settings.Settings, version string, log *slog.Logger, watch func(dispatcher.MadeAttempt)) (*Instance, error) {
	i := &Instance{process: boot.NewProcess(log), watch: watch}
	if err := i.open(ctx, s, version, log); err != nil {
		return nil, i.process.Abandon(err)
	}
	return i, nil
}

func (i *Instance) open(ctx context.Context, s settings.Settings, version string, log *slog.Logger) error {
	p := i.process
	dir, err := datadir.Open(s.DataDir)
	if err != nil {
		return err
	}
	p.AddCloser("data directory", dir.Close)
	i.DataDir = dir.Path()
	for _, open := range dir.Tightened() {
		log.Warn("files in the data directory that others could read or write are private now", "was", open)
	}
	if err := clashes(ctx, s); err != nil {
		return err
	}
	if err := i.keys(&s, dir); err != nil {
		return err
	}
	i.Database = "Postgres (" + settings.DatabaseURL + ")"
	if s.DatabaseURL == "" {
		s.DatabaseURL = dir.Database()
	}
	if file, ok := strings.CutPrefix(s.DatabaseURL.Reveal(), "sqlite:"); ok {
		i.Database = "SQLite, " + filepath.Clean(file)
	}
	options := boot.Options{Name: "waybill", Version: version, Logger: log, Migrate: true}
	if s.NATSURL == "" {
		server, err := natsd.Start(ctx, natsd.Options{Addr: s.NATSAddr, Dir: dir.NATS(), Logger: log})
		if err != nil {
			return boot.Refused("NATS", s.NATSAddr, "--nats or "+settings.NATSAddr, err)
		}
		p.Add("NATS server", server.Run)
		s.NATSURL, options.InProcess = domain.Secret(server.URL()), server.InProcess()
		i.NATS = server.URL()
	} else {
		i.NATS = "as set in " + settings.NATSURL
	}
	servers, err := i.receive(ctx, s, log)
	if err != nil {
		return err
	}
	doors := newDoors(dir, s, log)
	options.Listening = func() []*boot.Server { return append(doors.list(), servers...) }
	options.Settings = s
	return i.serve(ctx, options, dir, doors)
}

// keys sets the bootstrap key and the encryption key. A key without a setting comes from the data directory, where keys
// makes it if needed.
func (i *Instance) keys(s *settings.Settings, dir *datadir.Dir) error {
	var err error
	if s.AdminKey == "" {
		i.KeyIsOurs = true
		if s.AdminKey, err = dir.Key(datadir.AdminKey, freshAdminKey); err != nil {
			return err
		}
	}
	if s.EncryptionKey == "" {
		if s.EncryptionKey, err = dir.Key(datadir.EncryptionKey, seal.Generate); err != nil {
			return err
		}
	}
	i.AdminKey = s.AdminKey
	return nil
}

// freshAdminKey returns 32 random bytes in a form that a double click selects whole.
func freshAdminKey() string {
	text := base64.RawURLEncoding.EncodeToString(domain.NewSecretBytes(32))
	return "wbadmin_" + strings.ReplaceAll(text, "-", "_")
}

// receive starts the receiver and returns its server, if a receiver is wanted.
func (i *Instance) receive(ctx context.Context, s settings.Settings, log *slog.Logger) ([]*boot.Server, error) {
	if s.ReceiverAddr == "" {
		return nil, nil
	}
	i.Receiver = receiver.New()
	server, err := i.receiverServer(ctx, s, log)
	if err != nil {
		return nil, err
	}
	i.process.Add("receiver", server.Run)
	i.Addresses.Receiver = server.URL()
	return []*boot.Server{server}, nil
}

// spare is how many ports after the default port are tried for the receiver.
const spare = 20

// receiverServer listens for the receiver. If the default port is in use, it takes one of the next ones.
func (i *Instance) receiverServer(ctx context.Context, s settings.Settings, log *slog.Logger) (*boot.Server, error) {
	options := boot.ServerOptions{
		Name: "Receiver", Addr: s.ReceiverAddr, Setting: "--receiver or " + settings.ReceiverAddr + " (none: no receiver)",
		Handler: i.Receiver.Handler(), Logger: log, EndCalls: true, MaxConnections: s.MaxConnections,
	}
	server, err := boot.Listen(ctx, options)
	host, text, _ := net.SplitHostPort(s.ReceiverAddr) // can't fail: it was parsed before
	port, _ := strconv.Atoi(text)
	for n := 1; n <= spare && !s.ReceiverGiven && errors.Is(err, syscall.EADDRINUSE); n++ {
		options.Addr = net.JoinHostPort(host, strconv.Itoa(port+n))
		if server, err = boot.Listen(ctx, options); err == nil {
			i.ReceiverMoved = s.ReceiverAddr
		}
	}
	return server, err
}

func (i *Instance) serve(ctx context.Context, options boot.Options, dir *datadir.Dir, doors *doors) error {
	h, err := boot.Open(ctx, i.process, options)
	if err != nil {
		return err
	}
	i.Ops = h.OpsURL
	if err := i.tellReceiver(h); err != nil {
		return err
	}
	if _, err := dispatcherpart.AddWatched(i.process, h, i.watch); err != nil {
		return err
	}
	handler, err := apipart.AddAPI(i.process, h, doors.url)
	if err != nil {
		return err
	}
	all, err := gatewaypart.AddBefore(i.process, h, ownNames(handler, h.Settings), handler, handler.Traffic, handler.Meters)
	if err != nil {
		return err
	}
	i.API = h.Serve(i.process, all)
	doors.reopen(ctx)
	i.process.Add("doors", func(ctx context.Context) error { return doors.run(ctx, all) })
	link, err := handler.ConsoleLink(ctx)
	if err != nil {
		return err
	}
	if i.Console = i.API + "/console"; link != "" {
		i.Console = i.API + link
	}
	if err := dir.Announce(i.Addresses); err != nil {
		return fmt.Errorf("announce installation: %w", err)
	}
	return nil
}

// tellReceiver adds the part that passes the webhooks' secrets to the receiver.
func (i *Instance) tellReceiver(h *boot.Handles) error {
	if i.Receiver == nil {
		return nil
	}
	u, err := url.Parse(i.Addresses.Receiver)
	if err != nil {
		return fmt.Errorf("read receiver's address: %w", err)
	}
	changed := signal.New()
	stop, err := h.Bus.Listen(bus.SubjectConfig, func([]byte) { changed.Give() })
	if err != nil {
		return err
	}
	watch := &secrets{receiver: i.Receiver, port: u.Port(), webhooks: pipeline.New(h.Store), changed: changed, log: h.Logger}
	i.process.Add("receiver's secrets", func(ctx context.Context) error {
		defer stop()
		return watch.run(ctx)
	})
	return nil
}
