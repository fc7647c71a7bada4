package receivers

import (
	"testing"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/rollup"
)

func TestCovered(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := Problem{Cause: "http_5xx", since: now.Add(-time.Hour)}
	for name, of := range map[string]struct {
		known domain.Acknowledgement
		want  bool
	}{
		"known":           {domain.Acknowledgement{Cause: "http_5xx", At: now.Add(-time.Minute)}, true},
		"another cause":   {domain.Acknowledgement{Cause: "timeout", At: now.Add(-time.Minute)}, false},
		"one from before": {domain.Acknowledgement{Cause: "http_5xx", At: now.Add(-2 * time.Hour)}, false},
		"muted":           {domain.Acknowledgement{Cause: "timeout", At: now.Add(-2 * time.Hour), MutedUntil: now.Add(time.Second)}, true},
		"muted until now": {domain.Acknowledgement{Cause: "http_5xx", At: now, MutedUntil: now}, false},
	} {
		if got := p.covered(of.known, now); got != of.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A webhook is degraded since the failures after the last hour in which it was not.
func TestDegradedSince(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.November, 18, 15, 20, 0, 0, time.UTC)
	hour := func(ago, good, bad int64) []rollup.Row {
		start := now.Truncate(time.Hour).Add(-time.Duration(ago) * time.Hour)
		row := func(class domain.Class, attempts, succeeded int64) rollup.Row {
			r := rollup.Row{Start: start, Class: class, Succeeded: succeeded}
			r.Attempts = attempts
			return r
		}
		return []rollup.Row{row(domain.ClassOK, good, good), row(domain.Class5xx, bad, 0)}
	}
	for name, of := range map[string]struct {
		rows []rollup.Row
		want time.Time
	}{
		"never well":           {hour(2, 10, 90), now.Truncate(time.Hour).Add(-2 * time.Hour)},
		"well three hours ago": {append(append(hour(5, 100, 0), hour(3, 100, 0)...), hour(1, 50, 50)...), now.Truncate(time.Hour).Add(-time.Hour)},
		"too few to be well":   {append(hour(4, 0, 1), hour(3, 19, 0)...), now.Truncate(time.Hour).Add(-4 * time.Hour)},
		"well in this hour":    {append(hour(2, 100, 0), hour(0, 100, 1)...), now.Truncate(time.Hour)},
	} {
		if got := degradedSince(of.rows, now); !got.Equal(of.want) {
			t.Errorf("%s: %v, want %v", name, got, of.want)
		}
	}
}
