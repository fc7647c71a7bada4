package boot

import (
	"context"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
)

const (
	// limitShare is the share of a container's memory that is the Go runtime's soft limit; the rest is for memory
	// that the runtime does not count.
	limitShare = 0.9
	// ballastSize is the size of an unused block. Without it, the collector would run each time a small heap has
	// doubled, many times a second under load. The block is never touched, so it takes no memory.
	ballastSize = 16 << 20
	// A process that allocates less than restAllocs in restFor is idle: its own queries to
	// the database and the bus, and a scrape of its metrics, allocate less than half of that.
	restFor    = 10 * time.Second
	restAllocs = 10 << 20
	// worthwhile is how much a process must allocate before it gives memory back again.
	worthwhile = 8 << 20
	// againAfter × restFor later, memory is given back once more, because nats-server keeps the blocks that it has
	// written in memory for 10 s and longer: 72 MB after 50,000 events.
	againAfter = 3
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
	again := 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		metrics.Read(allocated)
		now := allocated[0].Value.Uint64()
		idle := now-before < restAllocs
		again--
		if idle && now-given > worthwhile {
			again = againAfter
		}
		if idle && (again == againAfter || again == 0) {
			runtime.GC() // memory in pools is free after two collections
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
	return bytes, err == nil && bytes > 0 // «max» is not a number
}
