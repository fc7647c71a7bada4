package tenant

import (
	"context"
	"time"
)

const (
	// workTime is how long work goes on without a rest: other requests wait for that long at most.
	workTime = time.Millisecond
	// restsOfWork is the length of a rest, as a multiple of the work before it.
	restsOfWork = 2
	// maxRests bounds all rests in the making of one site, so that a large site is finished within its time.
	maxRests = 2 * time.Second
)

// NewPace returns a function that rests if there was enough work since the last call. So the goroutine that makes a
// site leaves the core to waiting requests now and then. Only that goroutine may call the function. Once ctx is done,
// the function returns at once.
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
