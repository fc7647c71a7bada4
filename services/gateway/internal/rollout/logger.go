package rollout

import (
	"context"
	"log/slog"
)

// faultsOnly returns a logger for the routes of a deployment, which lets through what is a fault of
// the gateway itself. What a back end or a caller does is told in the deployment's own log, which
// has a bound: no tenant can fill the log of the process.
func faultsOnly(of *slog.Logger) *slog.Logger { return slog.New(faults{of.Handler()}) }

type faults struct{ slog.Handler }

// Enabled implements slog.Handler.
func (f faults) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelError && f.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (f faults) WithAttrs(attrs []slog.Attr) slog.Handler { return faults{f.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (f faults) WithGroup(name string) slog.Handler { return faults{f.Handler.WithGroup(name)} }
