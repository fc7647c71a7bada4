package admission

import (
	"os"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/prometheus/procfs"
)

const waitsMetric = "/sched/latencies:seconds"

// Overload detects when this process, not a receiver, can't keep up. Then attempts take
// long whatever the receivers do. Sending deliveries through the hold queues would only add
// work, because a delivery in a hold queue costs three times as much.
type Overload struct {
	// Threads returns how long all threads of this process have run and waited for a core since
	// they began; false: the system does not tell.
	Threads func() (ran, waited time.Duration, ok bool)

	now       atomic.Bool
	sample    [1]metrics.Sample
	counts    []uint64      // at the last look
	ran       time.Duration // ran and waited: at the last look
	waited    time.Duration
	sampledAt time.Time
}

func newOverload() *Overload {
	s := &Overload{Threads: threads}
	s.sample[0].Name = waitsMetric
	return s
}

// Now reports whether the process is overloaded.
func (s *Overload) Now() bool { return s.now.Load() }

// Look takes a sample if there is work. A process without work is not overloaded, and does not read
// the times of all its threads. One goroutine must call Look every LookEvery.
func (s *Overload) Look(now time.Time, work bool) {
	overloaded := false
	if work {
		goroutines, threads := s.goroutinesWait(), s.threadsWait(now)
		overloaded = goroutines || threads
	}
	s.now.Store(overloaded)
}

func (s *Overload) goroutinesWait() bool {
	metrics.Read(s.sample[:])
	if s.sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return false // a runtime that does not tell
	}
	waits := s.sample[0].Value.Float64Histogram()
	if len(s.counts) != len(waits.Counts) {
		s.counts = make([]uint64, len(waits.Counts))
	}
	var all, long uint64
	for i, count := range waits.Counts {
		n := count - s.counts[i]
		s.counts[i] = count
		all += n
		if waits.Buckets[i] >= overloadAfter {
			long += n
		}
	}
	return all >= overloadLeast && long*overloadShare >= all
}

func (s *Overload) threadsWait(now time.Time) bool {
	ran, waited, ok := s.Threads()
	if !ok {
		return false // a system that does not tell
	}
	sinceRan, sinceWaited, since := ran-s.ran, waited-s.waited, now.Sub(s.sampledAt)
	first := s.sampledAt.IsZero()
	s.ran, s.waited, s.sampledAt = ran, waited, now
	return !first && float64(sinceWaited) >= overloadThreads*float64(runtime.GOMAXPROCS(0))*float64(since) &&
		float64(sinceWaited) >= overloadTimes*float64(sinceRan)
}

// threads returns how long the threads of this process have run and waited for a core.
func threads() (ran, waited time.Duration, ok bool) {
	all, err := procfs.AllThreads(os.Getpid())
	if err != nil {
		return 0, 0, false
	}
	for _, thread := range all {
		stat, err := thread.Schedstat()
		if err != nil {
			continue // it has ended
		}
		ok = true
		ran += time.Duration(stat.RunningNanoseconds)
		waited += time.Duration(stat.WaitingNanoseconds)
	}
	return ran, waited, ok
}
