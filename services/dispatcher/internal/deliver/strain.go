package deliver

import (
	"runtime/metrics"
	"sync/atomic"
)

const (
	// The process is strained when one in strainedShare of its goroutines waited for
	// strainedAfter or longer until they ran, since the last look, in which there were
	// strainedLeast of them at least. On two cores it was one in 6 at full load, beside the
	// database and the bus, and less than one in 10 at a hundredth of it.
	strainedAfter = 0.0005 // seconds
	strainedShare = 8
	strainedLeast = 200
	waitsMetric   = "/sched/latencies:seconds"
)

// strain tells whether it is this process, not a receiver, that can't keep up. Attempts take
// long then whatever the receivers do. To send what waits by way of the lanes would only add
// to the work: a delivery in a lane costs three times as much.
type strain struct {
	now    atomic.Bool
	sample [1]metrics.Sample
	counts []uint64 // at the last look
}

func newStrain() *strain {
	s := &strain{}
	s.sample[0].Name = waitsMetric
	return s
}

// look is to be called regularly, by one goroutine.
func (s *strain) look() {
	metrics.Read(s.sample[:])
	if s.sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return // a runtime that does not tell
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
		if waits.Buckets[i] >= strainedAfter {
			long += n
		}
	}
	s.now.Store(all >= strainedLeast && long*strainedShare >= all)
}
