// Package again tries what must succeed in the end until it does.
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
	// First and Longest are the waits after a failure: First at first, then half as long again each time, at most
	// Longest. Each wait is shorter or longer by chance, by up to a half.
	First, Longest time.Duration
	Log            *slog.Logger
	// Fails is logged with the error when it begins to fail, and Works when it works again (empty: nothing). About has the
	// attributes of both.
	Fails, Works string
	About        []any
}

// Do calls try until try returns nil or ctx is done. Its error is ctx's. A try that takes long calls works
// whenever it works, and so ends a row of failures before it returns.
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

// level returns how loud a failure is: what is away comes back, and all else an operator must look at.
func level(err error) slog.Level {
	if errors.Is(err, domain.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		return slog.LevelWarn
	}
	return slog.LevelError
}
