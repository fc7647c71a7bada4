package rollout

import (
	"context"
	"log/slog"
)

// faultsOnly returns a logger for the routes of a deployment that passes only faults of the gateway
// itself. The actions of back ends and callers are logged in the deployment's own log, which is
// bounded. So no tenant can fill the log of the process.
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
