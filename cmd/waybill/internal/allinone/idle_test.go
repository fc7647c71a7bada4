package allinone_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/metrics"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/internal/settings"
	"waybill.dev/cmd/waybill/internal/allinone"
	"waybill.dev/shared/domain"
)

// What a process may do and keep while nothing happens. Whoever adds a poll or a table in memory sees it
// here: each part is counted, and not timed.
const (
	idleMessages = 20       // a second on the bus, with requests and answers; 16 were measured
	idleWakeups  = 50       // a second, of goroutines, of which the runtime counts one in eight; 33 were measured
	idleHeap     = 29 << 20 // bytes after a collection, just started; 25 MB were measured
	// idleHeapEach is what an account with a webhook may add.
	idleHeapEach = 8 << 10
	// settled is how long it may take until the process is idle, and window how long is counted: a whole
	// number of the relay's rounds.
	settled = 2 * time.Minute
	window  = 5 * time.Second
)

// An idle process does little, and no more with a thousand accounts than with one.
func TestIdle(t *testing.T) {
	for _, accounts := range []int{1, 1000} { // one after the other: what is counted is the whole process'
		t.Run(strconv.Itoa(accounts), func(t *testing.T) {
			i := start(t)
			for n := range accounts {
				addAccount(t, i, n)
			}
			idle(t, i)
			if heap, most := heapInUse(), uint64(idleHeap+accounts*idleHeapEach); heap > most {
				t.Errorf("%d bytes of the heap are in use, want %d at most", heap, most)
			}
		})
	}
}

func start(t *testing.T) *allinone.Instance {
	t.Helper()
	set, err := settings.Load(settings.Dev, settings.MadeFrom(map[string]string{
		settings.HTTPAddr: "127.0.0.1:0", settings.OpsAddr: "127.0.0.1:0", settings.NATSAddr: "127.0.0.1:0",
		settings.ReceiverAddr: "none", settings.DataDir: t.TempDir(), settings.RateLimit: "0",
	}))
	if err != nil {
		t.Fatal(err)
	}
	i, err := allinone.Open(t.Context(), set, "test", slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	running, end := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- i.Run(running) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Errorf("the process ended with %v", err)
		}
	})
	return i
}

// addAccount makes an account with a webhook. On a busy machine the store may answer late: then another
// name is taken, as the first account may be there.
func addAccount(t *testing.T, i *allinone.Instance, n int) {
	t.Helper()
	var made struct {
		Key string `json:"key"`
	}
	try := func(key domain.Secret, path, body string) error {
		c, err := client.New(client.Access{URL: i.API, Key: key})
		if err != nil {
			return err
		}
		defer c.Close()
		text, err := c.Do(t.Context(), http.MethodPost, path, []byte(body))
		if err == nil {
			err = json.Unmarshal(text, &made)
		}
		return err
	}
	var err error
	for again := range 5 {
		if err = try(i.AdminKey, "/v1/accounts", fmt.Sprintf(`{"name":"idle-%d-%d"}`, n, again)); err != nil {
			continue
		}
		if err = try(domain.Secret(made.Key), "/v1/webhooks", `{"url":"http://127.0.0.1:1/","events":["shipment.created"]}`); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// idle waits for a window within the budget: what was begun before comes to its end first.
func idle(t *testing.T, i *allinone.Instance) {
	t.Helper()
	conn, err := nats.Connect(i.NATS)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var messages atomic.Int64
	if _, err := conn.Subscribe(">", func(*nats.Msg) { messages.Add(1) }); err != nil {
		t.Fatal(err)
	}
	windows := time.NewTicker(window)
	defer windows.Stop()
	for deadline := time.Now().Add(settled); ; {
		messagesBefore, wakeupsBefore := messages.Load(), wakeups()
		<-windows.C
		perSecond := func(n int64) float64 { return float64(n) / window.Seconds() }
		sent, woken := perSecond(messages.Load()-messagesBefore), perSecond(int64(wakeups()-wakeupsBefore))
		t.Logf("%.1f messages and %.1f wake-ups a second", sent, woken)
		if sent <= idleMessages && woken <= idleWakeups {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%.1f messages and %.1f wake-ups a second, want %d and %d at most", sent, woken, idleMessages, idleWakeups)
		}
	}
}

// wakeups counts how often a goroutine began to run.
func wakeups() uint64 {
	sample := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	metrics.Read(sample)
	var n uint64
	for _, count := range sample[0].Value.Float64Histogram().Counts {
		n += count
	}
	return n
}

// heapInUse is what is left after a collection, in bytes. Two are needed for what has a finalizer.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
