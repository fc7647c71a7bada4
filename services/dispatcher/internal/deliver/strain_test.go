package deliver

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// until looks again and again until the process counts as strained, or as not.
func until(t *testing.T, s *strain, want bool) {
	t.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(30 * time.Second); ; {
		s.look()
		if s.now.Load() == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("strained: %v, want %v", !want, want)
		}
		<-ticker.C
	}
}

func TestAProcessIsStrainedWhileItsGoroutinesWait(t *testing.T) { // not parallel: it takes all processors
	s := newStrain()
	until(t, s, false)
	stop := make(chan struct{})
	var busy sync.WaitGroup
	for range 50 * runtime.GOMAXPROCS(0) {
		busy.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
					if n%1000 == 0 {
						runtime.Gosched()
					}
				}
			}
		})
	}
	until(t, s, true)
	close(stop)
	busy.Wait()
	until(t, s, false)
}

func TestWhileStrainedSlowerWebhooksHoldTheBusBack(t *testing.T) {
	t.Parallel()
	ep := &endpoint{d: &Deliverer{strain: newStrain()}}
	for _, row := range []struct {
		takes          float64
		calm, strained bool
	}{{2000, true, true}, {1000, true, true}, {999, false, true}, {50, false, true}, {49, false, false}} {
		ep.d.strain.now.Store(false)
		if got := ep.fastFor(row.takes); got != row.calm {
			t.Errorf("a webhook that takes %v a second is fast: %v, want %v", row.takes, got, row.calm)
		}
		ep.d.strain.now.Store(true)
		if got := ep.fastFor(row.takes); got != row.strained {
			t.Errorf("while strained a webhook that takes %v a second is fast: %v, want %v", row.takes, got, row.strained)
		}
	}
	if ep.patience() != strainedWait {
		t.Errorf("while strained a queue may take %s, want %s", ep.patience(), strainedWait)
	}
}
