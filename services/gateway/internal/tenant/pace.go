package tenant

import (
	"context"
	"time"
)

const (
	// workTime is how long work goes on without a rest: requests of others wait for that long at most.
	workTime = time.Millisecond
	// restsOfWork is how many times as long as it worked it rests.
	restsOfWork = 2
	// maxRests bounds the rests of one making, so that a large one ends within its time.
	maxRests = 2 * time.Second
)

// NewPace returns a function that rests when there was enough work since its last call. With it the making of a
// site does not hold a core while others' requests wait. It is for one goroutine, and does not rest when ctx is done.
func NewPace(ctx context.Context) (rest func()) {
	began, left := time.Now(), maxRests
	return func() {
		worked := time.Since(began)
		if worked < workTime || left <= 0 {
			return
		}
		pause := min(restsOfWork*worked, left)
		left -= pause
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		began = time.Now()
	}
}
