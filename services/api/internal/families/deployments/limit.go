package deployments

import (
	"strconv"
	"sync"
	"time"

	"waybill.dev/services/api/internal/kernel/web"
)

// An account may upload maxUploads times within uploadSpan, in each process. Refused uploads count,
// except those refused by this limit.
const (
	maxUploads = 60
	uploadSpan = time.Minute
)

// The parts of an upload. Each has the whole allowance: an upload in two steps counts once in each,
// and an upload in one step counts in both.
const (
	started  = "started"
	archived = "archived"
)

// uploadOf names an allowance.
type uploadOf struct{ account, part string }

// uploads knows the uploads of the last minute.
type uploads struct {
	mu   sync.Mutex
	last map[uploadOf][]time.Time // the oldest first, at most maxUploads
}

func newUploads() *uploads { return &uploads{last: make(map[uploadOf][]time.Time)} }

// take counts an upload, or refuses it until the oldest upload of the last minute is a minute old.
func (u *uploads) take(of uploadOf, now time.Time) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	times := u.last[of]
	for len(times) > 0 && now.Sub(times[0]) >= uploadSpan {
		times = times[1:]
	}
	if len(times) >= maxUploads {
		return web.TooMany(uploadSpan-now.Sub(times[0]), "The account has uploaded "+strconv.Itoa(maxUploads)+" times within a minute.")
	}
	u.last[of] = append(times, now)
	return nil
}
