package admission

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// until looks again and again until the process counts as overloaded, or as not.
func until(t *testing.T, s *Overload, want bool) {
	t.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(30 * time.Second); ; {
		s.Look(time.Now(), true)
		if s.Now() == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("overloaded: %v, want %v", !want, want)
		}
		<-ticker.C
	}
}

func TestAProcessIsOverloadedWhileItsGoroutinesWait(t *testing.T) { // not parallel: it takes all processors
	s := newOverload()
	until(t, s, false)
	stop := make(chan struct{})
	var busy sync.WaitGroup
	for range 50 * runtime.GOMAXPROCS(0) {
		busy.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					for began := time.Now(); time.Since(began) < 100*time.Microsecond; { // the others wait 5 ms
						continue
					}
					runtime.Gosched()
				}
			}
		})
	}
	until(t, s, true)
	close(stop)
	busy.Wait()
	until(t, s, false)
}

// TestAProcessIsOverloadedWhileItsThreadsWait is not parallel: it takes all processors.
func TestAProcessIsOverloadedWhileItsThreadsWait(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT RUN: only Linux tells how long threads wait")
	}
	cores := runtime.NumCPU()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8 * cores)) // more threads than there are cores for
	if _, _, ok := threads(); !ok {
		t.Fatal("Linux does not tell how long threads wait")
	}
	s := newOverload()
	s.threadsWait(time.Now())
	var stop atomic.Bool
	var busy sync.WaitGroup
	for range 8 * cores {
		busy.Go(func() {
			for !stop.Load() {
				continue // it takes a core for itself
			}
		})
	}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	overloaded := false
	for deadline := time.Now().Add(30 * time.Second); !overloaded && time.Now().Before(deadline); {
		overloaded = s.threadsWait(<-ticker.C)
	}
	stop.Store(true)
	busy.Wait()
	if !overloaded {
		t.Error("eight threads for each core, and none of them waits")
	}
}

func TestHowLongThreadsMayWait(t *testing.T) {
	t.Parallel()
	s, at := newOverload(), time.Now()
	var ran, waited time.Duration
	s.Threads = func() (time.Duration, time.Duration, bool) { return ran, waited, true }
	ran, waited = time.Hour, time.Hour
	if s.threadsWait(at) {
		t.Error("overloaded at the first look, when nothing is known of the time before")
	}
	half := time.Duration(runtime.GOMAXPROCS(0)) * time.Second / 2 // of a core each, in a second
	for _, row := range []struct {
		what        string
		ran, waited time.Duration
		want        bool
	}{
		{"half a thread a core waits, half as long again as they run", half * 2 / 3, half, true},
		{"they wait less than that", half / 3, half - 1, false},
		{"they run nearly as long as they wait", half * 4 / 5, half, false},
		{"fewer of them than at the last look: some have ended", -time.Minute, -time.Minute, false},
		{"they only wait", 0, 4 * half, true},
	} {
		at, ran, waited = at.Add(time.Second), ran+row.ran, waited+row.waited
		if got := s.threadsWait(at); got != row.want {
			t.Errorf("%s: overloaded %v, want %v", row.what, got, row.want)
		}
	}
	s.Threads = func() (time.Duration, time.Duration, bool) { return 0, 0, false }
	if s.threadsWait(at.Add(time.Second)) {
		t.Error("overloaded where the system does not tell")
	}
}

func TestWhatIsWorthHoldingTheBusBackFor(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		live             int
		takes            float64
		calm, overloaded bool
	}{
		{1, 2000, true, true},
		{1, 1000, true, true},
		{1, 999, false, true},
		{1, 50, false, true},
		{1, 49, false, false},
		{4, 250, true, true}, // of 1000 that all of them send
		{4, 249, false, true},
		{4, 13, false, true},
		{4, 12, false, false},
	} {
		w, share := NewProcess(Options{}).Webhook(), Share{Live: row.live}
		if got := w.fast(share, row.takes); got != row.calm {
			t.Errorf("a webhook that takes %v a second of one of %d is fast: %v, want %v", row.takes, row.live, got, row.calm)
		}
		w.process.Overload.now.Store(true)
		if got := w.fast(share, row.takes); got != row.overloaded {
			t.Errorf("while overloaded a webhook that takes %v a second of one of %d is fast: %v, want %v", row.takes, row.live, got, row.overloaded)
		}
		if w.process.patience() != overloadWait {
			t.Errorf("while overloaded a queue may take %s, want %s", w.process.patience(), overloadWait)
		}
	}
}
