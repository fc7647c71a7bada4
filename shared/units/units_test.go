package units_test

import (
	"testing"
	"time"

	"waybill.dev/shared/units"
)

func TestDuration(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "less than 1 ms", -time.Second: "less than 1 ms", 17 * time.Microsecond: "0.017 ms", 437 * time.Microsecond: "0.44 ms",
		1234 * time.Microsecond: "1.2 ms", 9990 * time.Microsecond: "10 ms", 12 * time.Millisecond: "12 ms", 999*time.Millisecond + 1: "999 ms",
		time.Second: "1 s", 1250 * time.Millisecond: "1.2 s", 42*time.Second + 900*time.Millisecond: "42 s", 5*time.Minute + 3*time.Second: "5 min 3 s",
		time.Hour: "1 h", 2*time.Hour + time.Minute: "2 h 1 min", 49 * time.Hour: "2 d 1 h",
	} {
		if got := units.Duration(d); got != want {
			t.Errorf("%d ns: %q, want %q", d, got, want)
		}
	}
}

func TestSince(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		0: "now", -999 * time.Millisecond: "now", -time.Second: "1 s ago", -119 * time.Second: "119 s ago", -3 * time.Minute: "3 min ago",
		-2 * time.Hour: "2 h ago", -48 * time.Hour: "2 d ago", -60 * 24 * time.Hour: "2026-09-29", 90 * time.Second: "in 90 s",
		12 * 24 * time.Hour: "in 12 d", 365 * 24 * time.Hour: "2027-11-28",
	} {
		if got := units.Since(now.Add(d), now); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}
