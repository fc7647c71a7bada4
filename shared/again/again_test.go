package again_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"waybill.dev/shared/again"
	"waybill.dev/shared/domain"
)

// run tries what returns each of the errors in turn, and returns what was logged and when each try was.
func run(ctx context.Context, t *testing.T, results ...error) (log string, tries []time.Duration, err error) {
	t.Helper()
	var out bytes.Buffer
	loop := again.Loop{
		First: 100 * time.Millisecond, Longest: 2 * time.Second, Fails: "it fails", Works: "it works", About: []any{"of", "one"},
		Log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})),
	}
	start := time.Now()
	err = again.Do(ctx, loop, func(works func()) error {
		tries = append(tries, time.Since(start))
		result := results[len(tries)-1]
		if errors.Is(result, errLater) {
			works()
		}
		return result
	})
	return out.String(), tries, err
}

var errLater = errors.New("it fails after it worked")

func TestItIsTriedUntilItSucceeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, tries, err := run(t.Context(), t, domain.ErrUnavailable, domain.ErrUnavailable, errors.New("else"), nil)
		if err != nil || len(tries) != 4 {
			t.Errorf("%d tries, error %v, want 4 and none", len(tries), err)
		}
		want := "level=WARN msg=\"it fails\" of=one error=unavailable\nlevel=INFO msg=\"it works\" of=one\n"
		if log != want {
			t.Errorf("the log has\n%swant\n%s", log, want)
		}
	})
}

func TestWaitsBecomeLongerUntilItWorks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		results := append(slices.Repeat([]error{errors.New("away")}, 20), errLater, nil)
		log, tries, _ := run(t.Context(), t, results...)
		between := func(i int, least, most time.Duration) {
			t.Helper()
			if wait := tries[i] - tries[i-1]; wait < least || wait > most {
				t.Errorf("wait %d is %s, want %s to %s", i, wait, least, most)
			}
		}
		between(1, 50*time.Millisecond, 150*time.Millisecond)
		between(20, time.Second, 3*time.Second)
		between(21, 50*time.Millisecond, 150*time.Millisecond)
		if n := strings.Count(log, "level=ERROR"); n != 2 || strings.Count(log, "level=INFO") != 2 {
			t.Errorf("the log has\n%swant two rows of failures", log)
		}
	})
}

func TestNothingIsTriedAfterTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer stop()
		_, tries, err := run(ctx, t, errors.New("away"), nil)
		if len(tries) != 1 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d tries, error %v, want one and the end of the context", len(tries), err)
		}
	})
}
