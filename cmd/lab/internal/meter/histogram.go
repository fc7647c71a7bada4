// Package meter measures latencies, in a histogram, and how much processor time and memory
// groups of processes use.
package meter

import (
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	// Each power of two is cut into so many steps, so a quantile is off by 0.4 % at most.
	stepBits = 7
	steps    = 1 << stepBits
	// The highest power with a bucket of its own is that of about an hour in microseconds.
	powers  = 26
	buckets = powers * steps
)

// Histogram counts durations. It is safe for concurrent use, and the same size whatever
// it counts.
type Histogram struct {
	counts [buckets]atomic.Uint64
	most   atomic.Int64 // in microseconds
}

// Add counts a duration; a negative one counts as 0.
func (h *Histogram) Add(d time.Duration) {
	us := max(0, d.Microseconds())
	h.counts[bucket(uint64(us))].Add(1)
	for {
		most := h.most.Load()
		if us <= most || h.most.CompareAndSwap(most, us) {
			return
		}
	}
}

// bucket is where a number of microseconds is counted: the low ones one by one, then
// each power of two in equal steps.
func bucket(us uint64) int {
	shift := max(0, bits.Len64(us)-stepBits-1)
	return min(shift*steps+int(us>>shift), buckets-1)
}

// middle is the number of microseconds that stands for a bucket.
func middle(i int) float64 {
	if i < 2*steps {
		return float64(i)
	}
	shift := i/steps - 1
	low := uint64(i-shift*steps) << shift
	return float64(low) + float64(uint64(1)<<shift)/2
}

// Quantiles are those of a histogram, in milliseconds.
type Quantiles struct {
	Count uint64  `json:"count"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	Most  float64 `json:"most"`
}

// Quantiles returns what was counted so far.
func (h *Histogram) Quantiles() Quantiles {
	var counts [buckets]uint64
	q := Quantiles{Most: float64(h.most.Load()) / 1e3}
	for i := range counts {
		counts[i] = h.counts[i].Load()
		q.Count += counts[i]
	}
	q.P50, q.P99, q.P999 = at(&counts, q.Count, 0.5), at(&counts, q.Count, 0.99), at(&counts, q.Count, 0.999)
	return q
}

func at(counts *[buckets]uint64, all uint64, share float64) float64 {
	if all == 0 {
		return 0
	}
	rank, sum := uint64(share*float64(all-1)), uint64(0)
	for i, n := range counts {
		if sum += n; sum > rank {
			return middle(i) / 1e3
		}
	}
	return 0
}
