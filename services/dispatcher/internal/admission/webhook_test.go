package admission

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestWhatAShortQueueMayHold fixes what docs/limits.md says of it.
func TestWhatAShortQueueMayHold(t *testing.T) {
	t.Parallel()
	two := 2.0
	for _, row := range []struct {
		what         string
		took         time.Duration // an attempt; 0: none has ended
		share        Share
		hanging      int
		inFlight     int
		queued       int // in all short queues
		calm, strain int // room: usually, and during overload
	}{
		{"nothing is known of it yet", 0, Share{MaxInFlight: 64, Live: 1}, 0, 0, 0, maxFast, maxFast},
		{"6400 a second", 10 * time.Millisecond, Share{MaxInFlight: 64, Live: 1}, 0, 64, 0, 3200, 12800},
		{"1000 a second: four times its limit is more", time.Second, Share{MaxInFlight: 1000, Live: 1}, 0, 64, 0, 4000, 4000},
		{"3000 a second of ten dispatchers", 20 * time.Millisecond, Share{MaxInFlight: 64, Live: 10}, 0, 6, 0, 150, 600},
		{"320 a second", 200 * time.Millisecond, Share{MaxInFlight: 64, Live: 1}, 0, 64, 0, 256, 640},
		{"64 a second", time.Second, Share{MaxInFlight: 64, Live: 1}, 0, 64, 0, 65, 256},
		{"6 a second", 10 * time.Second, Share{MaxInFlight: 64, Live: 1}, 0, 64, 0, 7, 7},
		{"6 a second beside many that are slow", 10 * time.Second, Share{MaxInFlight: 64, Live: 1}, 0, 64, maxAttempts + 1, 0, 0},
		{"2 a second by its rate", 10 * time.Millisecond, Share{MaxInFlight: 64, PerSecond: &two, Live: 1}, 0, 1, 0, 3, 3},
		{"half of its attempts hang", 10 * time.Millisecond, Share{MaxInFlight: 64, Live: 1}, 32, 64, 0, 0, 0},
		{"nearly half of them hang", 10 * time.Millisecond, Share{MaxInFlight: 64, Live: 1}, 31, 64, 0, 3200, 12800},
	} {
		t.Run(row.what, func(t *testing.T) {
			t.Parallel()
			p := NewProcess(Options{})
			p.Queue(row.queued)
			w := p.Webhook()
			if row.took > 0 {
				w.NoteDuration(row.took)
			}
			w.Allow(row.share, time.Now())
			for range row.inFlight {
				w.Begin(0)
			}
			for range row.hanging {
				w.Hang()
			}
			if got := w.Room(row.share); got != row.calm {
				t.Errorf("its queue may hold %d, want %d", got, row.calm)
			}
			if got := w.Patience(row.share); got != HangAfter {
				t.Errorf("a delivery may wait %s in it, want %s", got, HangAfter)
			}
			p.Overload.now.Store(true)
			if got := w.Room(row.share); got != row.strain {
				t.Errorf("during overload its queue may hold %d, want %d", got, row.strain)
			}
			want := HangAfter
			if w.Fast(row.share) {
				want = overloadWait
			}
			if got := w.Patience(row.share); got != want {
				t.Errorf("during overload a delivery may wait %s in it, want %s", got, want)
			}
		})
	}
}

func TestWhatMayBeInFlightToAWebhook(t *testing.T) {
	t.Parallel()
	tight := false
	p := NewProcess(Options{WebhookBytes: 100, Tight: func() bool { return tight }})
	w, share := p.Webhook(), Share{MaxInFlight: 8, Live: 2}
	if !w.Fits(share, 1000) {
		t.Error("the only one does not fit, because it is large")
	}
	w.Begin(60)
	if w.Fits(share, 41) || !w.Fits(share, 40) {
		t.Error("bodies of 100 bytes may be in flight, no more")
	}
	for range 3 {
		w.Begin(0)
	}
	if w.Fits(share, 0) || w.Cap(share) != 4 {
		t.Errorf("a fifth attempt fits, though it may have %d: half of 8", w.Cap(share))
	}
	tight = true
	if w.Cap(share) != 4 {
		t.Error("a webhook that answers is limited for want of memory")
	}
	w.Hang()
	if w.Cap(share) != 1 || p.Hanging() != 1 {
		t.Errorf("a webhook with %d hanging attempts may have %d for want of memory, want one", p.Hanging(), w.Cap(share))
	}
	tight = false
	w.End(60, true)
	for range 3 {
		w.End(0, false)
	}
	if w.Hangs() || p.Hanging() != 0 || p.Attempts() != 0 || !w.Fits(share, 1000) {
		t.Error("attempts count that have ended")
	}
}

func TestEventsWaitWhileFastWebhooksHaveEnough(t *testing.T) {
	t.Parallel()
	for _, wide := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := NewProcess(Options{})
			_, limit := p.counter(wide)
			for range limit {
				p.Take(wide)
			}
			taken := make(chan error, 1)
			go func() { taken <- p.Room(t.Context()) }()
			<-time.After(time.Minute)
			if len(taken) > 0 {
				t.Fatalf("an event is taken beside %d", limit)
			}
			p.Release(wide)
			synctest.Wait()
			if len(taken) == 0 || <-taken != nil {
				t.Errorf("no event is taken beside %d", limit-1)
			}
		})
	}
}
