package boot_test

import (
	"context"
	"runtime"
	"runtime/metrics"
	"testing"
	"testing/synctest"
	"time"

	"waybill.dev/cmd/internal/boot"
)

// kept returns how much memory the heap has from the system.
func kept() int64 {
	classes := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(classes)
	var sum int64
	for _, c := range classes {
		sum += int64(c.Value.Uint64())
	}
	return sum
}

// allocate leaves n bytes of garbage.
func allocate(n int) {
	block := make([]byte, n)
	for i := range block {
		block[i] = 1
	}
	runtime.KeepAlive(block)
}

// While the process works it keeps its memory; once it is at rest it gives it back.
func TestMemoryIsGivenBackAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- boot.GiveBackAtRest(ctx) }()
		for range 3 {
			allocate(64 << 20)
			<-time.After(10 * time.Second)
			synctest.Wait()
		}
		working := kept()
		<-time.After(21 * time.Second)
		synctest.Wait()
		if resting := kept(); resting > working/2 {
			t.Errorf("the heap keeps %d MiB at rest, of %d MiB", resting>>20, working>>20)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("ended with %v", err)
		}
	})
}
