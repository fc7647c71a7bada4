package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"waybill.dev/cmd/internal/settings"
	"waybill.dev/cmd/internal/telemetry"
)

// Exit codes.
const (
	ExitOK     = 0
	ExitFailed = 1
	ExitUsage  = 2
)

// Service is one of the microservices.
type Service struct {
	Name    string // name on the bus and in traces; its binary is waybill-Name
	Role    settings.Role
	Version string
	// Add adds the service to the process; the result answers on the HTTP address.
	Add func(*Process, *Handles) (http.Handler, error)
}

// Main runs the service until a signal ends it, and returns the exit code.
func (s Service) Main(args []string, stdout, stderr io.Writer) int {
	binary := "waybill-" + s.Name
	flags := pflag.NewFlagSet(binary, pflag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintf(stdout, "%s %s\n\nUsage: %s [flags]\n\n%s\n", binary, s.Version, binary, flags.FlagUsages())
		fmt.Fprintln(stdout, "Settings without a flag are read from the environment or from the file of --config.")
	}
	source := BindSettings(flags, s.Role)
	version := flags.Bool("version", false, "print the version")
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return ExitOK
	case err != nil || flags.NArg() > 0:
		if err == nil {
			err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
		}
		fmt.Fprintf(stderr, "%s: %v\nRun '%s --help' for usage.\n", binary, err, binary)
		return ExitUsage
	case *version:
		fmt.Fprintln(stdout, binary, s.Version)
		return ExitOK
	}
	if err := s.run(source, stderr); err != nil {
		PrintError(stderr, binary, err)
		return ExitFailed
	}
	return ExitOK
}

func (s Service) run(load func() (settings.Settings, error), stderr io.Writer) error {
	set, err := load()
	if err != nil {
		return err
	}
	log := telemetry.NewLogger(stderr, set.LogLevel, set.LogFormat)
	slog.SetDefault(telemetry.Stray(log))
	ballast := TuneMemory()
	defer runtime.KeepAlive(ballast)
	ctx, stop := Signals(context.Background(), nil)
	defer stop()
	p := NewProcess(log)
	h, err := Open(ctx, p, Options{Settings: set, Name: s.Name, Version: s.Version, Logger: log})
	if err != nil {
		if err = p.Abandon(err); ctx.Err() != nil && errors.Is(err, context.Canceled) {
			log.Info("stopped before it was started", "service", s.Name)
			return nil
		}
		return err
	}
	handler, err := s.Add(p, h)
	if err != nil {
		return p.Abandon(err)
	}
	url := h.Serve(p, handler)
	log.Info("started", "service", s.Name, "version", s.Version, "http", url, "ops", h.OpsURL)
	err = p.Run(ctx)
	log.Info("stopped", "service", s.Name)
	return err
}

// BindSettings adds the flags of role to flags. It returns a function that loads the settings once the
// flags are parsed: from the flags, the environment, the file of --config, the defaults.
func BindSettings(flags *pflag.FlagSet, role settings.Role) func() (settings.Settings, error) {
	load := BindSettingsOf(flags, role)
	return func() (settings.Settings, error) { return load(role) }
}

// BindSettingsOf is BindSettings for callers that find out later which role's settings to load. The flags
// are those of role. If there is an error, the settings are those that could be read.
func BindSettingsOf(flags *pflag.FlagSet, role settings.Role) func(settings.Role) (settings.Settings, error) {
	config := flags.String("config", "", "file of lines NAME=value ("+settings.Config+")")
	byName := make(map[string]string)
	for _, spec := range settings.Flags(role) {
		usage := spec.Usage + " (" + spec.Name
		if spec.Default(role) != "" {
			usage += "; default " + spec.Default(role)
		}
		flags.String(spec.Flag, "", usage+")")
		byName[spec.Name] = spec.Flag
	}
	fromFlags := func(name string) (string, bool) {
		flag := flags.Lookup(byName[name])
		if flag == nil || !flag.Changed {
			return "", false
		}
		return flag.Value.String(), true
	}
	return func(role settings.Role) (settings.Settings, error) {
		path := *config
		if path == "" {
			path = os.Getenv(settings.Config)
		}
		sources := []settings.Source{fromFlags, os.LookupEnv} // see Origin
		if path != "" {
			file, err := settings.ReadFile(path)
			if err != nil {
				return settings.Settings{}, err
			}
			sources = append(sources, file)
		}
		set, err := settings.Load(role, sources...)
		switch role {
		case settings.Dev, settings.API, settings.Dispatcher, settings.Gateway:
			err = errors.Join(settings.Unknown(os.Environ()), err)
		}
		return set, err
	}
}

// Origin names the source of a setting from BindSettings in a word.
func Origin(source int) string {
	switch source {
	case 0:
		return "flag"
	case 1:
		return "environment"
	case 2:
		return "file"
	}
	return "default"
}

// sameSignal is how long after the first signal further ones count as the same: a program that signals a
// process and then its group, as timeout(1) does, means one signal.
const sameSignal = 200 * time.Millisecond

// Signals returns a context that ends with the first SIGINT or SIGTERM. first, if not nil, is called at
// that time. The second signal ends the process at once, with exit code 1, unless it comes within 200 ms.
func Signals(parent context.Context, first func()) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	signals, stopped := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer cancel()
		select {
		case <-stopped:
			return
		case <-signals:
		}
		since := time.Now()
		if first != nil {
			first()
		}
		cancel()
		for {
			select {
			case <-stopped:
				return
			case <-signals:
				if time.Since(since) > sameSignal {
					os.Exit(ExitFailed)
				}
			}
		}
	}()
	return ctx, sync.OnceFunc(func() {
		signal.Stop(signals)
		close(stopped)
	})
}

// PrintError writes err for a person: one line for each joined error.
func PrintError(w io.Writer, binary string, err error) {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) && err.Error() == errors.Join(joined.Unwrap()...).Error() {
		for _, one := range joined.Unwrap() {
			PrintError(w, binary, one)
		}
		return
	}
	fmt.Fprintf(w, "%s: %v\n", binary, err)
}
