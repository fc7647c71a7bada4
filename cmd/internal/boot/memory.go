package boot

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
)

const (
	// limitShare of a container's memory is the Go runtime's soft limit; the rest is for
	// what the runtime does not count.
	limitShare = 0.9
	// ballastSize keeps the collector from running each time a small heap has doubled,
	// many times a second under load. It is never touched, so it takes no memory.
	ballastSize = 16 << 20
	// A process that allocates less than restAllocs in restFor is idle: its own queries to
	// the database and the bus, and a scrape of its metrics, allocate less than half of that.
	restFor    = 10 * time.Second
	restAllocs = 10 << 20
	// worthwhile is how much a process allocates before it gives memory back again.
	worthwhile = 8 << 20
)

// TuneMemory configures the garbage collector for a server, unless GOGC or GOMEMLIMIT are
// set. The memory limit of the container becomes the soft limit, and a heap is not
// collected before it has 32 MiB. The caller keeps the result alive.
func TuneMemory() []byte {
	limit := int64(math.MaxInt64)
	if os.Getenv("GOMEMLIMIT") == "" {
		if bytes, ok := containerLimit(); ok {
			limit = int64(float64(bytes) * limitShare)
			debug.SetMemoryLimit(limit)
		}
	}
	if os.Getenv("GOGC") != "" || limit < 8*ballastSize {
		return nil
	}
	return make([]byte, ballastSize)
}

// GiveBackAtRest gives unused memory back to the system whenever the process has
// become idle, until ctx is done. By itself the runtime collects the heap every two minutes
// then, and keeps about as much memory as before.
func GiveBackAtRest(ctx context.Context) error {
	ticker := time.NewTicker(restFor)
	defer ticker.Stop()
	allocated := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	var before, given uint64
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		metrics.Read(allocated)
		now := allocated[0].Value.Uint64()
		if now-before < restAllocs && now-given > worthwhile {
			debug.FreeOSMemory()
			given = now
		}
		before = now
	}
}

// containerLimit returns the memory limit of this process's cgroup (version 2).
func containerLimit() (int64, bool) {
	text, err := os.ReadFile("/sys/fs/cgroup/memory.max")
	if err != nil {
		return 0, false
	}
	bytes, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return bytes, err == nil && bytes > 0 // «max» is no number
}
