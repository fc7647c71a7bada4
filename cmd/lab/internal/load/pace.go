package load

import (
	"context"
	"sync"
)

// endless is more than anybody sends.
const endless = 1 << 40

// Pace calls do so many times a second, with the number of the call, until ctx is done and what it called has
// returned. Calls may take as long as they like. While most of them run, those that are due are left out.
func Pace(ctx context.Context, rate, most int, do func(n int64)) {
	var open sync.WaitGroup
	slots := make(chan struct{}, most)
	for s := newSource(Job{Events: endless, Rate: float64(rate)}); ; {
		n, count, _ := s.take(ctx, 1)
		if count == 0 {
			open.Wait()
			return
		}
		select {
		case slots <- struct{}{}:
		default:
			continue
		}
		open.Go(func() {
			defer func() { <-slots }()
			do(n)
		})
	}
}
