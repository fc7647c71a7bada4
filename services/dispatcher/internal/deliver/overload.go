package deliver

import (
	"os"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/prometheus/procfs"
)

const (
	// The process is overloaded if one in overloadShare of its goroutines waited for
	// overloadAfter or longer until it ran, since the last sample, with at least overloadLeast
	// goroutines in the sample. On two cores it was one in 6 at full load, beside the
	// database and the bus, and less than one in 10 at a hundredth of it.
	overloadAfter = 0.0005 // seconds
	overloadShare = 8
	overloadLeast = 200
	waitsMetric   = "/sched/latencies:seconds"
	// It is also overloaded if its threads waited for a core that others used: on average
	// overloadThreads for each core that it may use, and overloadTimes as long as they ran.
	// With one to four dispatchers at full load on two cores, 0.7 to 2 threads a core waited, and
	// 3 to 10 times as long as they ran. The goroutines that run on these threads don't
	// notice that.
	overloadThreads = 0.5
	overloadTimes   = 1.5
)

// overload detects when this process, not a receiver, can't keep up. Then attempts take
// long whatever the receivers do. Sending deliveries through the hold queues would only add
// work, because a delivery in a hold queue costs three times as much.
type overload struct {
	now     atomic.Bool
	sample  [1]metrics.Sample
	counts  []uint64                                    // at the last look
	threads func() (ran, waited time.Duration, ok bool) // all of them, since they began
	ran     time.Duration                               // this and the next at the last look
	waited  time.Duration
	looked  time.Time
}

func newOverload() *overload {
	s := &overload{threads: threads}
	s.sample[0].Name = waitsMetric
	return s
}

// look takes a sample. One goroutine must call it regularly.
func (s *overload) look(now time.Time) {
	goroutines, threads := s.goroutinesWait(), s.threadsWait(now)
	s.now.Store(goroutines || threads)
}

func (s *overload) goroutinesWait() bool {
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

func (s *overload) threadsWait(now time.Time) bool {
	ran, waited, ok := s.threads()
	if !ok {
		return false // a system that does not tell
	}
	sinceRan, sinceWaited, since := ran-s.ran, waited-s.waited, now.Sub(s.looked)
	first := s.looked.IsZero()
	s.ran, s.waited, s.looked = ran, waited, now
	return !first && float64(sinceWaited) >= overloadThreads*float64(runtime.GOMAXPROCS(0))*float64(since) &&
		float64(sinceWaited) >= overloadTimes*float64(sinceRan)
}

// threads tells how long the threads of this process have run, and waited for a core.
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
