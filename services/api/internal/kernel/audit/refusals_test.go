package audit_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"waybill.dev/services/api/internal/kernel/audit"
	"waybill.dev/shared/domain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counter is a log that counts what is written to it.
type counter struct {
	mu     sync.Mutex
	err    error
	takes  time.Duration // each write
	writes int
	counts map[string]int // by key, action and minute
}

func (c *counter) Audit(ctx context.Context, entries ...domain.AuditEntry) error {
	c.mu.Lock()
	takes := c.takes
	c.mu.Unlock()
	if takes > 0 {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes++
	if c.err != nil {
		return c.err
	}
	for _, e := range entries {
		c.counts[fmt.Sprint(e.Caller.KeyID, " ", e.Action, " ", e.Error, " ", e.At.Minute())] += e.Count
	}
	return nil
}

func (c *counter) take(long time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.takes = long
}

func (c *counter) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func (c *counter) told() (writes int, counts map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes, maps.Clone(c.counts)
}

// rig runs a log in a bubble of its own time, which starts with a minute.
func rig(t *testing.T, test func(log *counter, note func(key, action string))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := &counter{counts: map[string]int{}}
		r := audit.NewRefusals(log, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		test(log, func(key, action string) {
			r.Note(ctx, domain.AuditEntry{Account: "default", Action: action, Caller: domain.Caller{KeyID: key}, Error: "FORBIDDEN"})
		})
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// The first refusal is there at once, a flood behind it costs a write a second, and all of it
// counts.
func TestFloodOfRefusals(t *testing.T) {
	t.Parallel()
	rig(t, func(log *counter, note func(key, action string)) {
		note("key_1", "create-key")
		if _, counts := log.told(); counts["key_1 create-key FORBIDDEN 0"] != 1 {
			t.Errorf("the first is not there: %v", counts)
		}
		for range 1999 {
			note("key_1", "create-key")
			<-time.After(4500 * time.Millisecond / 2000)
		}
		note("key_2", "create-key")
		note("key_1", "delete-key")
		<-time.After(time.Second)
		synctest.Wait()
		writes, counts := log.told()
		want := map[string]int{"key_1 create-key FORBIDDEN 0": 2000, "key_2 create-key FORBIDDEN 0": 1, "key_1 delete-key FORBIDDEN 0": 1}
		if diff := cmp.Diff(want, counts); diff != "" || writes > 9 {
			t.Errorf("%d writes (-want +got):\n%s", writes, diff)
		}
		<-time.After(time.Minute)
		note("key_1", "create-key")
		if _, counts := log.told(); counts["key_1 create-key FORBIDDEN 1"] != 1 {
			t.Errorf("the next minute has no entry: %v", counts)
		}
		if now, _ := log.told(); now != writes+1 {
			t.Errorf("%d writes while nothing was refused", now-writes-1)
		}
	})
}

// While the database is away nothing is lost; what is counted is written when it is back, and
// at the end.
func TestRefusalsWithoutDatabase(t *testing.T) {
	t.Parallel()
	var log *counter
	rig(t, func(made *counter, note func(key, action string)) {
		log = made
		log.fail(domain.ErrUnavailable)
		for range 10 {
			note("key_1", "create-key")
		}
		<-time.After(90 * time.Second)
		note("key_2", "create-key")
		if _, counts := log.told(); len(counts) != 0 {
			t.Errorf("written to a database that is away: %v", counts)
		}
		log.fail(nil)
		<-time.After(time.Second)
		synctest.Wait() // a write may begin in the same moment
		want := map[string]int{"key_1 create-key FORBIDDEN 0": 10, "key_2 create-key FORBIDDEN 1": 1}
		if _, counts := log.told(); !cmp.Equal(want, counts) {
			t.Errorf("(-want +got):\n%s", cmp.Diff(want, counts))
		}
		note("key_2", "create-key")
	})
	if _, counts := log.told(); counts["key_2 create-key FORBIDDEN 1"] != 2 {
		t.Errorf("the last count is lost: %v", counts)
	}
}

// A first refusal whose write fails when its minute is over is not forgotten.
func TestRefusalAtTheEndOfAMinute(t *testing.T) {
	t.Parallel()
	rig(t, func(log *counter, note func(key, action string)) {
		log.take(time.Hour)
		<-time.After(59*time.Second + 800*time.Millisecond)
		note("key_1", "create-key") // until half a second later
		log.take(0)
		<-time.After(time.Second)
		synctest.Wait()
		if _, counts := log.told(); counts["key_1 create-key FORBIDDEN 0"] != 1 {
			t.Errorf("it is lost: %v", counts)
		}
	})
}

// What is counted has more time to be written than a request may wait.
func TestSlowCountOfRefusals(t *testing.T) {
	t.Parallel()
	rig(t, func(log *counter, note func(key, action string)) {
		note("key_1", "create-key")
		log.take(2 * time.Second)
		note("key_1", "create-key")
		<-time.After(4 * time.Second)
		synctest.Wait()
		if writes, counts := log.told(); writes != 2 || counts["key_1 create-key FORBIDDEN 0"] != 2 {
			t.Errorf("%d writes: %v", writes, counts)
		}
	})
}
