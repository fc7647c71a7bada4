package deliver

import (
	"testing"
	"time"

	"waybill.dev/shared/jsonscan/attack"
)

// FuzzRetryAfter looks for a header of a receiver that is followed for longer than a day, into
// the past, or costs much.
func FuzzRetryAfter(f *testing.F) {
	for _, value := range []string{"", " 7 ", "-1", "99999999999999999999", "Fri, 31 Dec 1999 23:59:59 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "1e3", "\x00"} {
		f.Add(value, "60")
	}
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, first, second string) {
		attack.Hold(t, len(first)+len(second), attack.Allowance{}, func() {
			if wait := retryAfter([]string{first, second}, now); wait < 0 || wait > longestRetryAfter {
				t.Errorf("%q and %q ask for %v", first, second, wait)
			}
		})
	})
}
