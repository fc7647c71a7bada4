package storetest

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"waybill.dev/shared/pgtest"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
)

// Benchmark runs a benchmark on a migrated store on each database, with the durability of a real
// installation. cpu returns the processor time that was used so far, including the server's.
func Benchmark(b *testing.B, run func(b *testing.B, db *store.Store, cpu func() time.Duration)) {
	b.Helper()
	keys, err := seal.Parse(seal.Generate())
	if err != nil {
		b.Fatal(err)
	}
	b.Run("postgres", func(b *testing.B) {
		c, err := pgtest.Start(b.Context(), "")
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = c.Stop() })
		run(b, Database{URL: c.URL("postgres")}.Open(b, store.Options{Keys: keys}), func() time.Duration { return processTime(b, c.Pid()) })
	})
	b.Run("sqlite", func(b *testing.B) {
		run(b, SQLite().Fresh(b).Open(b, store.Options{Keys: keys}), func() time.Duration { return processTime(b, 0) })
	})
}

// processTime returns the processor time that this process and the server's backends have used.
// Other work on the machine does not count.
func processTime(b *testing.B, postmaster int) time.Duration {
	b.Helper()
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		b.Fatal(err)
	}
	total := time.Duration(self.Utime.Nano() + self.Stime.Nano())
	if postmaster == 0 {
		return total
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", postmaster, postmaster))
	if err != nil {
		b.Fatal(err)
	}
	for pid := range strings.FieldsSeq(string(children)) {
		total += statTime(pid, 11)
	}
	return total + statTime(strconv.Itoa(postmaster), 13) // of backends that have ended, such as autovacuum's
}

// statTime returns the sum of two fields of a process's stat, counted from the field after its
// name; the kernel has the processor time there. 0: the process has ended.
func statTime(pid string, field int) time.Duration {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, _ := strconv.Atoi(fields[field])
	system, _ := strconv.Atoi(fields[field+1])
	return time.Duration(user+system) * (time.Second / 100) // the kernel's unit
}
