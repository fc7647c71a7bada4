package rollup

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
)

// TestQuantiles compares quantiles with those of the sorted durations.
func TestQuantiles(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 99, 100, 10_000} {
		var whole, half Histogram
		all := make([]time.Duration, n)
		for i := range all {
			// From 1 µs to 30 s, as many of each size.
			all[i] = time.Duration(math.Exp(random.Float64()*math.Log(3e7))) * time.Microsecond
			if i%2 == 0 {
				whole = whole.Observe(all[i])
			} else {
				half = half.Observe(all[i])
			}
		}
		whole = whole.Merge(half)
		slices.Sort(all)
		for _, q := range []float64{0.5, 0.95, 0.99, 1} {
			want := all[int(math.Ceil(q*float64(n)))-1]
			got := whole.Quantile(q)
			if off := math.Abs(float64(got-want)) / float64(want); off > 0.033 {
				t.Errorf("%d durations: quantile %g is %v, want %v: off by %.3f", n, q, got, want, off)
			}
		}
		if whole.Total() != int64(n) {
			t.Errorf("%d durations are counted as %d", n, whole.Total())
		}
	}
	if got := Histogram(nil).Quantile(0.5); got != 0 {
		t.Errorf("the median of nothing is %v", got)
	}
}

// TestBuckets checks that buckets follow each other without a gap.
func TestBuckets(t *testing.T) {
	t.Parallel()
	before := bucketOf(0)
	for micros := uint64(1); micros < 1<<20; micros++ {
		bucket := bucketOf(micros)
		if bucket != before && bucket != before+1 {
			t.Fatalf("%d µs are in bucket %d after %d", micros, bucket, before)
		}
		before = bucket
	}
	if middle := middleOf(bucketOf(math.MaxInt64)); middle < math.MaxInt64/1.04 || middle > math.MaxInt64*1.04 {
		t.Errorf("the longest duration is taken for %g µs", middle)
	}
}

func TestDelta(t *testing.T) {
	t.Parallel()
	at := time.Date(2025, time.June, 10, 12, 0, 59, 0, time.UTC)
	var tally Tally
	if !tally.Empty() {
		t.Error("a new tally is not empty")
	}
	tally.Event("a", domain.ShipmentCreated, at)
	tally.Event("a", domain.ShipmentCreated, at)
	for i := range 3 {
		tally.Attempt("a", "w1", domain.ShipmentCreated, &domain.Attempt{Number: i + 1, StartedAt: at, Duration: time.Duration(i) * time.Second, Status: 200})
	}
	tally.Attempt("b", "w2", domain.ShipmentDelivered, &domain.Attempt{Number: 1, StartedAt: at.Add(time.Second), Duration: time.Millisecond, Status: 500})
	got := map[Key]*Counts{}
	encoded := tally.Encode()
	if err := decode(encoded, "", func(key Key, c *Counts) { got[key] = c }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tally.counts, got, cmp.AllowUnexported(bin{})); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	first := got[Key{"a", "w1", domain.ShipmentCreated, domain.ClassOK, at.Unix() / 60}]
	if first == nil || first.Attempts != 3 || first.Deliveries != 1 || !first.Last.Equal(at.Add(2*time.Second)) {
		t.Errorf("counts of w1: %+v", first)
	}
	whole := 0
	for n := range encoded {
		if decode(encoded[:n], "", func(Key, *Counts) {}) == nil {
			whole++ // the format and whole groups
		}
	}
	if whole > 3 {
		t.Errorf("%d beginnings of a delta are taken for whole", whole)
	}
}

func FuzzDelta(f *testing.F) {
	var tally Tally
	tally.Attempt("a", "w", domain.ShipmentCreated, &domain.Attempt{Number: 1, StartedAt: time.Unix(1e9, 0), Duration: time.Second, Status: 200})
	f.Add(tally.Encode())
	f.Fuzz(func(t *testing.T, encoded []byte) {
		entries := 0
		_ = decode(encoded, "", func(Key, *Counts) { entries++ })
		if entries > len(encoded) {
			t.Errorf("%d entries in %d bytes", entries, len(encoded))
		}
	})
}

// TestNothingIsMadeOfWhatOthersHave reads the counts of one account among those of a thousand.
func TestNothingIsMadeOfWhatOthersHave(t *testing.T) {
	var tally Tally
	at := time.Date(2025, time.June, 10, 12, 0, 59, 0, time.UTC)
	for i := range 1000 {
		account := strconv.Itoa(i)
		for range 3 {
			tally.Attempt(account, domain.WebhookID("w"+account), domain.ShipmentCreated, &domain.Attempt{Number: 1, StartedAt: at, Duration: time.Duration(i) * time.Millisecond, Status: 200})
		}
	}
	encoded := tally.Encode()
	read := func() {
		n := 0
		if err := decode(encoded, "500", func(key Key, c *Counts) {
			n++
			if key.Account != "500" || key.Webhook != "w500" || c.Attempts != 3 {
				t.Errorf("%+v: %+v", key, c)
			}
		}); err != nil || n != 1 {
			t.Errorf("%d counts, error %v, want one", n, err)
		}
	}
	if allocated := testing.AllocsPerRun(10, read); allocated > 10 {
		t.Errorf("%.0f allocations, want 10 at most", allocated)
	}
}

func BenchmarkDeltaOfOthers(b *testing.B) {
	var tally Tally
	for i := range 1000 {
		tally.Attempt(strconv.Itoa(i%100), domain.WebhookID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)), domain.ShipmentCreated, &domain.Attempt{Number: 1, StartedAt: time.Unix(1e9, 0), Duration: time.Duration(i) * time.Millisecond, Status: 200})
	}
	encoded := tally.Encode()
	for _, account := range []string{"", "50"} {
		b.Run("of="+account, func(b *testing.B) {
			for b.Loop() {
				if err := decode(encoded, account, func(Key, *Counts) {}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
