package attack

import (
	"runtime"
	"syscall"
	"testing"
	"time"
)

// Limits of what reading may cost.
const (
	perMiB     = 50 * time.Millisecond // of one processor
	timesBytes = 4                     // memory for each byte of a body
	slackBytes = 256 << 10             // memory for any body, however small
	tries      = 4                     // the best one counts, because other processes use the machine, too
)

// Cost is the cost of running a function.
type Cost struct {
	CPU   time.Duration // of the whole process
	Bytes uint64        // allocated in all, so the peak is below it
}

// Measure runs do and returns its cost. Nothing else should run in the process.
func Measure(do func()) Cost {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := cpu()
	do()
	took := cpu() - began
	runtime.ReadMemStats(&after)
	return Cost{CPU: took, Bytes: after.TotalAlloc - before.TotalAlloc}
}

func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// Allowance is how much more than the limits a reader may take.
type Allowance struct {
	CPU   int    // times the limit; 0: one time
	Times uint64 // memory for each byte in addition to timesBytes: copies of the body that are made on the way to its reader
	Bytes uint64 // memory in addition to slackBytes
}

// Hold fails the test if reading size bytes costs more than allowed.
func Hold(tb testing.TB, size int, allow Allowance, read func()) {
	tb.Helper()
	limit := time.Duration(int64(Limit(size)) * int64(max(1, allow.CPU)))
	bytes := larger * ((timesBytes+allow.Times)*uint64(size) + slackBytes + allow.Bytes)
	var cost Cost
	for try := range tries {
		cost = Measure(read)
		if cost.CPU <= limit && cost.Bytes <= bytes {
			return
		}
		if cost.CPU > 20*limit || try == tries-1 {
			break
		}
	}
	tb.Errorf("%d bytes cost %v and %d bytes of memory, may cost %v and %d", size, cost.CPU, cost.Bytes, limit, bytes)
}

// Limit returns the time that reading size bytes may take: 50 ms for each MiB, and also for less
// than one. The race detector makes everything some ten times slower.
func Limit(size int) time.Duration {
	return time.Duration(int64(slower*perMiB) * int64(max(1, size>>20)))
}
