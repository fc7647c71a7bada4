package deliver

import (
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"waybill.dev/services/dispatcher/internal/admission"
	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/shared/domain"
)

func refuse(*Request) Response { return Response{Status: http.StatusServiceUnavailable} }

// swift is how long an attempt takes to a webhook that is worth holding the bus back for.
const swift = 900 * time.Microsecond

func after(d time.Duration, status int) func(*Request) Response {
	return func(*Request) Response {
		<-time.After(d)
		return Response{Status: status}
	}
}

// breakDown has attempts fail for a time that is short of circuitSpan by the margin, until
// only that is missing for the circuit to open.
func breakDown(r *rig, margin time.Duration) {
	r.answers(after(swift, http.StatusServiceUnavailable))
	for range circuitFailures - 1 {
		r.offer(r.hooks[0], 1)
		<-time.After((circuitSpan - margin) / (circuitFailures - 1))
	}
}

// TestWhatIsInFlightIsCountedOutOnce brings deliveries in flight and takes them out on each way
// there is: what was forgotten would hold back all events once there are 4,096 of it.
func TestWhatIsInFlightIsCountedOutOnce(t *testing.T) {
	t.Parallel()
	one := func(w *domain.Webhook) { w.MaxInFlight = 1 }
	for _, way := range []struct {
		what string
		make func(*testing.T, *rig)
		open bool // the circuit at the end
	}{
		{"delivered", func(_ *testing.T, r *rig) { r.offer(r.hooks[0], 500) }, false},
		{"the circuit opens while more wait", func(_ *testing.T, r *rig) {
			breakDown(r, 20*time.Millisecond)
			r.offer(r.hooks[0], 3000)
		}, true},
		{"another dispatcher says that the circuit is open", func(_ *testing.T, r *rig) {
			r.answers(after(swift, http.StatusServiceUnavailable))
			r.offer(r.hooks[0], 300)
			r.CircuitHeard(r.hooks[0].ID, true)
		}, true},
		{"attempts hang and what waits is late", func(_ *testing.T, r *rig) {
			r.answers(after(3*time.Second, http.StatusOK))
			r.offer(r.hooks[0], 300)
		}, false},
		{"the bus takes nothing for a while", func(_ *testing.T, r *rig) {
			r.mu.Lock()
			r.keeping = errBus
			r.mu.Unlock()
			r.answers(refuse)
			r.offer(r.hooks[0], 100)
			<-time.After(20 * time.Second)
			r.mu.Lock()
			r.keeping = nil
			r.mu.Unlock()
		}, false},
		{"the process stops", func(t *testing.T, r *rig) {
			r.answers(after(swift, http.StatusOK))
			r.offer(r.hooks[0], 500)
			if err := r.Drain(t.Context()); err != nil {
				t.Error(err)
			}
		}, false},
	} {
		t.Run(way.what, func(t *testing.T) {
			t.Parallel()
			onRig(t, false, []domain.Webhook{webhook(one)}, func(t *testing.T, r *rig) {
				way.make(t, r)
				<-time.After(time.Minute)
				synctest.Wait()
				for _, b := range r.Bounds() {
					if b.Used != 0 || b.Waiting != 0 {
						t.Errorf("%d deliveries count as %s and %d wait, and there is none", b.Used, b.What, b.Waiting)
					}
				}
				if attempts, hanging := r.process.Attempts(), r.process.Hanging(); attempts != 0 || hanging != 0 {
					t.Errorf("%d count as attempts, %d as hanging", attempts, hanging)
				}
				if open, _ := r.Circuit(r.hooks[0]); open != way.open {
					t.Errorf("the circuit is open: %v, want %v", open, way.open)
				}
			})
		})
	}
}

// TestAMissedClosingIsFoundOut: the dispatcher that probes a circuit may have told that it
// closed when this one did not hear.
func TestAMissedClosingIsFoundOut(t *testing.T) {
	t.Parallel()
	onRig(t, false, []domain.Webhook{webhook()}, func(t *testing.T, r *rig) {
		hook := r.hooks[0]
		r.CircuitHeard(hook.ID, true)
		for range 2 { // as long as it is told again and again, it is so
			<-time.After(probeLongest)
			r.CircuitHeard(hook.ID, true)
		}
		r.offer(hook, 1)
		synctest.Wait()
		if len(r.held) != 1 {
			t.Fatalf("%d deliveries went to the hold queue while the circuit was open, want 1", len(r.held))
		}
		<-time.After(2 * probeLongest)
		r.offer(hook, 1)
		synctest.Wait()
		if stored, _ := r.ends(); stored != 2 || len(r.held) != 1 {
			t.Errorf("after %s without a word of a probe %d deliveries went to the hold queue and %d were stored, want 1 and 2", 2*probeLongest, len(r.held), stored)
		}
	})
}

// TestAFailedProbeIsTold: by it the other dispatchers know that the circuit is still open.
func TestAFailedProbeIsTold(t *testing.T) {
	t.Parallel()
	onRig(t, true, []domain.Webhook{webhook()}, func(t *testing.T, r *rig) {
		hook := r.hooks[0]
		breakDown(r, -time.Second)
		r.offer(hook, 1)
		<-time.After(time.Second)
		for want := 1; want <= 3; want++ {
			synctest.Wait()
			if len(r.news) != want || !r.news[want-1] {
				t.Fatalf("after %d failed probes it was told %v, want that it is open %d times", want-1, r.news, want)
			}
			<-time.After(probeLongest)
			r.offer(hook, 1) // it becomes the probe
			<-time.After(time.Second)
		}
	})
}

// TestAProbeThatIsNotSentGivesItsRightBack: a delivery whose retention ends on its way to be
// the probe must not keep all others from being it.
func TestAProbeThatIsNotSentGivesItsRightBack(t *testing.T) {
	t.Parallel()
	onRig(t, true, []domain.Webhook{webhook()}, func(t *testing.T, r *rig) {
		hook := r.hooks[0]
		r.CircuitHeard(hook.ID, true)
		<-time.After(probeFirst)
		if !r.TryProbe(hook) {
			t.Fatal("no probe is due")
		}
		old := r.task(hook)
		old.ReceivedAt = time.Now().Add(-2 * r.options.Retention)
		r.Offer(hook, &Job{Task: old, Lane: Drained, Probe: true, Origin: r})
		synctest.Wait()
		if !r.TryProbe(hook) {
			t.Error("no probe may be sent any more")
		}
	})
}

// probing is the origin of a probe. It gives the right of an abandoned one back, and takes it for the next.
type probing struct {
	*rig
	hook  *index.Hook
	taken bool
}

func (p *probing) Abandoned() {
	p.DropProbe(p.hook)
	p.taken = p.TryProbe(p.hook)
}

// TestOneProbeAtATime: the right of a probe that was abandoned is given back once, or it would be the next one's.
func TestOneProbeAtATime(t *testing.T) {
	t.Parallel()
	onRig(t, true, []domain.Webhook{webhook(func(w *domain.Webhook) { w.Active = false })}, func(t *testing.T, r *rig) {
		hook := r.hooks[0]
		r.CircuitHeard(hook.ID, true)
		<-time.After(probeFirst)
		if !r.TryProbe(hook) {
			t.Fatal("no probe is due")
		}
		origin := &probing{rig: r, hook: hook}
		r.Offer(hook, &Job{Task: r.task(hook), Lane: Drained, Probe: true, Origin: origin})
		synctest.Wait()
		if !origin.taken {
			t.Fatal("the probe was not abandoned")
		}
		if r.TryProbe(hook) {
			t.Error("two probes may be sent")
		}
	})
}

// TestIdleWebhooksAreLeftAlone: only those with something under way are looked at.
func TestIdleWebhooksAreLeftAlone(t *testing.T) {
	t.Parallel()
	webhooks := make([]domain.Webhook, 100)
	for i := range webhooks {
		webhooks[i] = webhook()
	}
	onRig(t, true, webhooks, func(t *testing.T, r *rig) {
		for _, hook := range r.hooks {
			r.offer(hook, 2)
		}
		<-time.After(time.Second)
		synctest.Wait()
		if busy := r.busy.len(); busy != 0 {
			t.Errorf("%d of %d idle webhooks are looked at", busy, len(r.hooks))
		}
		r.answers(after(time.Minute, http.StatusOK))
		r.offer(r.hooks[0], 1)
		<-time.After(2 * time.Second)
		if busy := r.busy.len(); busy != 1 {
			t.Errorf("%d webhooks are looked at while one is busy", busy)
		}
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if busy := r.busy.len(); busy != 0 {
			t.Errorf("%d webhooks are looked at after their last attempt", busy)
		}
	})
}

// TestAnIdleDispatcherLooksAtNothing: whether it is overloaded concerns deliveries, and there is none.
func TestAnIdleDispatcherLooksAtNothing(t *testing.T) {
	t.Parallel()
	onRig(t, true, []domain.Webhook{webhook()}, func(t *testing.T, r *rig) {
		synctest.Wait()
		var looks atomic.Int64
		began := time.Now()
		r.process.Overload.Threads = func() (ran, waited time.Duration, ok bool) {
			looks.Add(1)
			return 0, time.Since(began) * time.Duration(4*runtime.GOMAXPROCS(0)), true // they do nothing but wait
		}
		<-time.After(time.Minute)
		if n := looks.Load(); n > 0 {
			t.Errorf("it looked %d times at its threads in a minute without a delivery", n)
		}
		r.answers(after(10*time.Second, http.StatusOK))
		r.offer(r.hooks[0], 1)
		<-time.After(5 * time.Second)
		if r.overloaded() != 1 || looks.Load() < 5*time.Second.Milliseconds()/admission.LookEvery.Milliseconds()/2 {
			t.Errorf("after %d looks with a delivery in flight it is overloaded: %d, want 1", looks.Load(), r.overloaded())
		}
		<-time.After(time.Minute)
		if r.overloaded() != 0 {
			t.Error("it is overloaded long after its last delivery")
		}
	})
}
