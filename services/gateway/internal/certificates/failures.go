package certificates

import (
	"sync"
	"time"
)

// failureTime is how long a failure is remembered. So a handshake that can't succeed costs the
// database nothing, and the log one line.
const failureTime = 5 * time.Second

// maxFailures bounds the failures in memory. All of them belong to custom domains that exist.
const maxFailures = 10_000

// failures are the recent failures, by name.
type failures struct {
	mu sync.Mutex
	at map[string]time.Time
}

// add remembers a failure.
func (f *failures) add(name string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at == nil || len(f.at) >= maxFailures {
		f.at = make(map[string]time.Time)
	}
	f.at[name] = now
}

// isRecent reports whether the name had a failure a short while ago.
func (f *failures) isRecent(name string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, ok := f.at[name]
	return ok && now.Sub(at) < failureTime
}

// addFirst reports whether the name has no fresh failure, and remembers one.
func (f *failures) addFirst(name string, now time.Time) bool {
	if f.isRecent(name, now) {
		return false
	}
	f.add(name, now)
	return true
}
