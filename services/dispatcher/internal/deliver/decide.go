package deliver

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"waybill.dev/shared/domain"
)

// jitter is the share by which a wait is made longer or shorter at random.
const jitter = 0.2

// longestRetryAfter is the longest wait that a receiver may ask for.
const longestRetryAfter = 24 * time.Hour

// decision is the consequence of an attempt.
type decision struct {
	change domain.Change // of the delivery's status
	wait   time.Duration // until the next attempt, if there is one
}

// attemptAnswer is the part of an attempt that the decision needs.
type attemptAnswer struct {
	status     int    // HTTP status; 0: no answer came
	failure    string // bounded code when no answer came
	retryAfter []string
}

// decide returns what follows from the answer to an attempt. runAttempts is the number of the
// attempt in its run; the first is 1. draw returns a random number in [0,1).
func decide(a attemptAnswer, runAttempts int, schedule []time.Duration, now time.Time, draw func() float64) decision {
	switch {
	case a.status >= 200 && a.status <= 299:
		return decision{change: domain.ChangeDelivered}
	case a.status == http.StatusGone:
		return decision{change: domain.ChangeGone}
	case runAttempts > len(schedule):
		return decision{change: domain.ChangeExhausted}
	}
	wait := schedule[runAttempts-1]
	if a.status == http.StatusTooManyRequests || a.status == http.StatusServiceUnavailable {
		if asked := retryAfter(a.retryAfter, now); asked > 0 {
			wait = max(wait, asked)
			return decision{change: domain.ChangeFailed, wait: stretch(wait, jitter*draw())}
		}
	}
	return decision{change: domain.ChangeFailed, wait: stretch(wait, jitter*(2*draw()-1))}
}

func stretch(wait time.Duration, by float64) time.Duration {
	return wait + time.Duration(float64(wait)*by)
}

// retryAfter reads Retry-After headers, in seconds or as a date, and returns at most 24 h; 0: there
// is no header that can be followed. Of several headers the longest counts.
func retryAfter(values []string, now time.Time) time.Duration {
	var longest time.Duration
	for _, value := range values {
		value = strings.TrimSpace(value)
		var wait time.Duration
		if digits(value) {
			seconds, err := strconv.ParseInt(value, 10, 64)
			if err != nil || seconds > int64(longestRetryAfter/time.Second) {
				wait = longestRetryAfter
			} else {
				wait = time.Duration(seconds) * time.Second
			}
		} else if at, err := http.ParseTime(value); err == nil {
			wait = at.Sub(now)
		}
		longest = max(longest, min(wait, longestRetryAfter))
	}
	return longest
}

func digits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}

// randomUnit returns a random number for jitter, which needs no secrecy.
func randomUnit() float64 { return rand.Float64() } //nolint:gosec // jitter

// Deadline returns when a task's run is exhausted, however few attempts the run had, because the schedule runs on
// while the circuit is open. ok is false while the run has not begun.
func Deadline(task *domain.Task, schedule []time.Duration) (at time.Time, ok bool) {
	if task.RunStartedAt.IsZero() {
		return time.Time{}, false
	}
	at = task.RunStartedAt
	for _, wait := range schedule {
		at = at.Add(wait)
	}
	if task.RunAttempts == 0 {
		// A task without an attempt may wait for one probe at least.
		at = at.Add(probeFirst)
	}
	return at, true
}
