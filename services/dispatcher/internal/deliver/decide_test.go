package deliver

import (
	"net/http"
	"testing"
	"time"

	"waybill.dev/shared/domain"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	schedule := []time.Duration{10 * time.Second, 100 * time.Second}
	date := func(d time.Duration) []string { return []string{now.Add(d).Format(http.TimeFormat)} }
	const low, mid, high = 0.0, 0.5, 0.999999999
	for name, row := range map[string]struct {
		answer   attemptAnswer
		attempts int
		draw     float64
		status   domain.Status
		wait     time.Duration
	}{
		"200":                            {attemptAnswer{status: 200}, 1, mid, domain.StatusDelivered, 0},
		"299":                            {attemptAnswer{status: 299}, 1, mid, domain.StatusDelivered, 0},
		"301 is not followed":            {attemptAnswer{status: 301}, 1, mid, domain.StatusRetrying, 10 * time.Second},
		"410":                            {attemptAnswer{status: 410}, 1, mid, domain.StatusHeld, 0},
		"410 at the last attempt":        {attemptAnswer{status: 410}, 3, mid, domain.StatusHeld, 0},
		"404":                            {attemptAnswer{status: 404}, 1, mid, domain.StatusRetrying, 10 * time.Second},
		"no answer":                      {attemptAnswer{failure: "timeout"}, 2, mid, domain.StatusRetrying, 100 * time.Second},
		"jitter shortens by a fifth":     {attemptAnswer{status: 500}, 1, low, domain.StatusRetrying, 8 * time.Second},
		"jitter lengthens by a fifth":    {attemptAnswer{status: 500}, 1, high, domain.StatusRetrying, 12 * time.Second},
		"exhausted":                      {attemptAnswer{status: 500}, 3, mid, domain.StatusFailed, 0},
		"429 without Retry-After":        {attemptAnswer{status: 429}, 1, low, domain.StatusRetrying, 8 * time.Second},
		"429 asks for longer":            {attemptAnswer{429, "", []string{"60"}}, 1, low, domain.StatusRetrying, 60 * time.Second},
		"429 asks for shorter":           {attemptAnswer{429, "", []string{"1"}}, 1, low, domain.StatusRetrying, 10 * time.Second},
		"jitter only lengthens that":     {attemptAnswer{429, "", []string{"60"}}, 1, high, domain.StatusRetrying, 72 * time.Second},
		"503 with a date":                {attemptAnswer{503, "", date(30 * time.Second)}, 1, low, domain.StatusRetrying, 30 * time.Second},
		"503 with a date past":           {attemptAnswer{503, "", date(-time.Hour)}, 1, mid, domain.StatusRetrying, 10 * time.Second},
		"500 may not ask":                {attemptAnswer{500, "", []string{"60"}}, 1, mid, domain.StatusRetrying, 10 * time.Second},
		"a year counts as a day":         {attemptAnswer{429, "", []string{"31536000"}}, 1, low, domain.StatusRetrying, 24 * time.Hour},
		"too large a number is a day":    {attemptAnswer{429, "", []string{"99999999999999999999"}}, 1, low, domain.StatusRetrying, 24 * time.Hour},
		"negative is none":               {attemptAnswer{429, "", []string{"-1"}}, 1, mid, domain.StatusRetrying, 10 * time.Second},
		"nonsense is none":               {attemptAnswer{429, "", []string{"NaN"}}, 1, mid, domain.StatusRetrying, 10 * time.Second},
		"1e12 is none":                   {attemptAnswer{429, "", []string{"1e12"}}, 1, mid, domain.StatusRetrying, 10 * time.Second},
		"the longest of several":         {attemptAnswer{429, "", []string{"20", "40"}}, 1, low, domain.StatusRetrying, 40 * time.Second},
		"Retry-After past the schedule":  {attemptAnswer{429, "", []string{"60"}}, 3, low, domain.StatusFailed, 0},
		"a schedule without any retries": {attemptAnswer{status: 500}, 4, mid, domain.StatusFailed, 0},
	} {
		got := decide(row.answer, row.attempts, schedule, now, func() float64 { return row.draw })
		if got.change.To() != row.status || got.wait.Round(time.Millisecond) != row.wait {
			t.Errorf("%s: %s after %s, want %s after %s", name, got.change.To(), got.wait, row.status, row.wait)
		}
	}
}

func TestCircuitNeedsFailuresInARowOverASpan(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var c circuit
	for i := range 100 { // many at once don't open it
		if c.noteFailure(start.Add(time.Duration(i)*time.Millisecond), false, false) {
			t.Fatalf("opened by failure %d within %d ms", i+1, i)
		}
	}
	if !c.noteFailure(start.Add(circuitSpan), false, false) {
		t.Fatal("not opened by a failure after the span")
	}
	c = circuit{}
	for i := range circuitFailures - 1 {
		if c.noteFailure(start.Add(time.Duration(i)*time.Second), false, false) {
			t.Fatalf("opened by failure %d", i+1)
		}
	}
	c.noteSuccess()
	if c.noteFailure(start.Add(time.Minute), false, false) {
		t.Error("a success does not end the row")
	}
}

func TestProbesGrowApartUpToFiveMinutes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var c circuit
	c.trip(now)
	var waits []time.Duration
	for range 9 {
		if c.tryProbe(c.nextProbe.Add(-time.Nanosecond)) {
			t.Fatal("a probe is sent before its time")
		}
		waits = append(waits, c.nextProbe.Sub(now))
		now = c.nextProbe
		if !c.tryProbe(now) || c.tryProbe(now) {
			t.Fatal("not exactly one probe at its time")
		}
		c.noteFailure(now, true, false)
	}
	want := []int{5, 10, 20, 40, 80, 160, 300, 300, 300}
	for i, seconds := range want {
		if waits[i] != time.Duration(seconds)*time.Second {
			t.Errorf("wait %d: %s, want %d s", i+1, waits[i], seconds)
		}
	}
	if !c.noteSuccess() || c.open {
		t.Error("a success does not close the circuit")
	}
}

func TestDeadlineIsTheEndOfTheSchedule(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	schedule := []time.Duration{time.Second, time.Minute}
	if _, ok := Deadline(&domain.Task{}, schedule); ok {
		t.Error("a run that has not begun has a deadline")
	}
	attempted, _ := Deadline(&domain.Task{RunStartedAt: start, RunAttempts: 1}, schedule)
	fresh, _ := Deadline(&domain.Task{RunStartedAt: start}, nil)
	if !attempted.Equal(start.Add(61*time.Second)) || !fresh.Equal(start.Add(probeFirst)) {
		t.Errorf("deadlines %s and %s", attempted.Sub(start), fresh.Sub(start))
	}
}
