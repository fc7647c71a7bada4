package ratelimit_test

import (
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"waybill.dev/services/gateway/internal/ratelimit"
)

// A count takes about what is reckoned for it, however long the caller's name is, and each name is another caller.
func TestMemoryOfLongNames(t *testing.T) { //nolint:paralleltest // memory is the process's
	const callers = 4096
	limit := ratelimit.Limit{Policy: "limit", Allowed: 1, Window: time.Hour}
	counters := ratelimit.NewPool(0, nil).Of("acme")
	take := func(allowed bool) {
		t.Helper()
		for i := range callers {
			if wait := counters.Take(limit, "token "+strings.Repeat("x", 4096)+strconv.Itoa(i)); (wait == 0) != allowed {
				t.Fatalf("caller %d waits for %v", i, wait)
			}
		}
	}
	before := inUse()
	take(true)
	if took := (inUse() - before) / callers; took > 2*ratelimit.BytesOfCount {
		t.Errorf("a count takes %d bytes", took)
	}
	take(false)
}

// inUse returns the memory that is in use once nothing more can be let go of.
func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
