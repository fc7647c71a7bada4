package admission

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// begun is when, and as which, each job of a burst began.
type begun struct {
	n  int
	at time.Duration
}

func burst(t *testing.T, size int) []begun {
	t.Helper()
	var list []begun
	synctest.Test(t, func(*testing.T) {
		var p Pacer
		started := time.Now()
		for n := range size {
			p.Add(func() { list = append(list, begun{n, time.Since(started)}) })
		}
		<-time.After(10 * paceOver) // the bubble's time
		synctest.Wait()
	})
	return list
}

func TestABurstIsSpreadInItsOrder(t *testing.T) {
	t.Parallel()
	list := burst(t, 101)
	if len(list) != 101 {
		t.Fatalf("%d of 101 jobs began", len(list))
	}
	for i, one := range list {
		if one.n != i {
			t.Fatalf("job %d began as number %d", one.n, i)
		}
		if want := time.Duration(i) * paceEvery; one.at != want {
			t.Fatalf("job %d began after %s, want %s", i, one.at, want)
		}
	}
}

func TestALargeBurstTakesLittleLonger(t *testing.T) {
	t.Parallel()
	const size = 20_000
	list := burst(t, size)
	if len(list) != size {
		t.Fatalf("%d of %d jobs began within %s", len(list), size, 10*paceOver)
	}
	half := list[size/2].at
	if half < paceOver/4 || half > paceOver {
		t.Errorf("half of the burst had begun after %s, want about %s", half, paceOver)
	}
	if !slices.IsSortedFunc(list, func(a, b begun) int { return a.n - b.n }) {
		t.Error("the jobs did not begin in their order")
	}
}

func TestFlushBeginsAllThatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p Pacer
		started, n := time.Now(), 0
		for range 50 {
			p.Add(func() { n++ })
		}
		p.Flush()
		if n != 50 || time.Since(started) > 0 {
			t.Errorf("%d of 50 jobs began at once", n)
		}
		synctest.Wait()
		p.Add(func() { n++ })
		<-time.After(2 * paceEvery)
		synctest.Wait()
		if n != 51 {
			t.Error("the pacer does not work after a flush")
		}
	})
}
