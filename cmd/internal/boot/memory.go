package boot

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

const (
	// limitShare of a container's memory is the Go runtime's soft limit; the rest is for
	// what the runtime does not count.
	limitShare = 0.9
	// ballastSize keeps the collector from running each time a small heap has doubled,
	// many times a second under load. It is never touched, so it takes no memory.
	ballastSize = 16 << 20
)

// TuneMemory sets the collector up for a server, unless GOGC or GOMEMLIMIT say what is
// wanted: the memory limit of the container becomes the soft limit, and a heap is not
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

// containerLimit returns the memory that this process's cgroup (version 2) may have.
func containerLimit() (int64, bool) {
	text, err := os.ReadFile("/sys/fs/cgroup/memory.max")
	if err != nil {
		return 0, false
	}
	bytes, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return bytes, err == nil && bytes > 0 // «max» is no number
}
