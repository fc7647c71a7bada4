package boot_test

import (
	"context"
	"runtime"
	"runtime/metrics"
	"sync"
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

// What lies in pools is given back, too, also what gets there while the process rests already.
func TestPoolsAreGivenBackAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- boot.GiveBackAtRest(ctx) }()
		before := kept()
		pool := sync.Pool{}
		for _, rests := range []time.Duration{10 * time.Second, 30 * time.Second} {
			block := new([64 << 20]byte)
			allocate(16 << 20)
			<-time.After(rests + time.Second)
			synctest.Wait()
			pool.Put(block)
			<-time.After(41 * time.Second)
			synctest.Wait()
			if resting := kept(); resting > before+32<<20 {
				t.Errorf("%s after the work the heap has %d MiB, at first %d MiB", rests, resting>>20, before>>20)
			}
			runtime.KeepAlive(&pool)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("ended with %v", err)
		}
	})
}
