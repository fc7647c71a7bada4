package rollup

import (
	"math/bits"
	"slices"
	"time"

	"waybill.dev/shared/packed"
)

// Histogram counts durations in buckets: of one microsecond up to 16, then 16 for each doubling. A
// quantile is off by at most half a bucket, 3.2 %. Only buckets that are not empty are kept, in
// order: a minute of a webhook has some twenty.
type Histogram []bin

type bin struct {
	bucket uint16
	count  uint32
}

const (
	subBits = 4
	sub     = 1 << subBits // buckets for each doubling
)

// bucketOf returns the bucket of a duration in microseconds.
func bucketOf(micros uint64) uint16 {
	if micros < sub {
		return uint16(micros)
	}
	shift := bits.Len64(micros) - subBits - 1
	return uint16(shift*sub) + uint16(micros>>shift)
}

// middleOf returns the middle of a bucket in microseconds.
func middleOf(bucket uint16) float64 {
	if bucket < 2*sub {
		return float64(bucket)
	}
	shift := int(bucket)/sub - 1
	low := uint64(bucket) - uint64(shift*sub)
	return (float64(low) + 0.5) * float64(uint64(1)<<shift)
}

// Observe counts a duration.
func (h Histogram) Observe(d time.Duration) Histogram {
	return h.add(bin{bucketOf(uint64(max(d.Microseconds(), 0))), 1})
}

func (h Histogram) add(b bin) Histogram {
	i, found := slices.BinarySearchFunc(h, b, func(a, b bin) int { return int(a.bucket) - int(b.bucket) })
	if found {
		h[i].count += b.count
		return h
	}
	return slices.Insert(h, i, b)
}

// Merge adds other, which does not change.
func (h Histogram) Merge(other Histogram) Histogram {
	for _, b := range other {
		h = h.add(b)
	}
	return h
}

// Total returns how many durations were counted.
func (h Histogram) Total() int64 {
	var n int64
	for _, b := range h {
		n += int64(b.count)
	}
	return n
}

// Quantile returns the duration that the share q of all durations does not exceed, 0 < q ≤ 1; zero:
// none was counted.
func (h Histogram) Quantile(q float64) time.Duration {
	rank := max(int64(q*float64(h.Total())+0.999999), 1)
	for _, b := range h {
		if rank -= int64(b.count); rank <= 0 {
			return time.Duration(middleOf(b.bucket) * float64(time.Microsecond))
		}
	}
	return 0
}

// append appends the number of bins, then each bin as its distance from the one before and its count.
func (h Histogram) append(out []byte) []byte {
	out = packed.AppendCounts(out, uint64(len(h)))
	before := uint16(0)
	for _, b := range h {
		out = packed.AppendCounts(out, uint64(b.bucket-before), uint64(b.count))
		before = b.bucket
	}
	return out
}
