// Package again repeats what must succeed in the end until it succeeds.
package again

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"

	"waybill.dev/shared/domain"
)

// Loop says how something is tried again.
type Loop struct {
	// First and Longest are the waits after a failure: First at first, then half as long again each time, up
	// to Longest. Each wait is made longer or shorter at random, by up to a half.
	First, Longest time.Duration
	Log            *slog.Logger
	// Fails is logged with the error at the first failure, and Works when try works again (empty: nothing is logged).
	// About has the attributes of both.
	Fails, Works string
	About        []any
}

// Do calls try until it returns nil or ctx is done. The error is ctx's. A try that runs for long calls
// works when it works, which ends a row of failures before try returns.
func Do(ctx context.Context, l Loop, try func(works func()) error) error {
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(l.First), backoff.WithMaxInterval(l.Longest), backoff.WithMaxElapsedTime(0))
	failing := false
	works := func() {
		if !failing {
			return
		}
		failing = false
		wait.Reset()
		if l.Works != "" {
			l.Log.Info(l.Works, l.About...) //nolint:sloglint // the callers' are constants
		}
	}
	for {
		err := try(works)
		if err == nil {
			works()
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err() //nolint:wrapcheck // asked to stop
		}
		if !failing {
			failing = true
			l.Log.Log(ctx, level(err), l.Fails, append(slices.Clip(l.About), "error", err)...) //nolint:sloglint // the callers' are constants
		}
		select {
		case <-ctx.Done():
			return ctx.Err() //nolint:wrapcheck // asked to stop
		case <-time.After(wait.NextBackOff()):
		}
	}
}

// level returns the level at which a failure is logged: a warning for a service that is away, because it comes back; an
// error for everything else, because an operator must look at it.
func level(err error) slog.Level {
	if errors.Is(err, domain.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		return slog.LevelWarn
	}
	return slog.LevelError
}
