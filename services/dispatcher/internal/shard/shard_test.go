package shard_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"waybill.dev/services/dispatcher/internal/shard"
	"waybill.dev/shared/domain"
)

// room carries announcements among members in one process.
type room struct {
	mu        sync.Mutex
	listeners map[int]func([]byte)
	next      int
}

func (r *room) Announce(_ string, body []byte) {
	r.mu.Lock()
	listeners := make([]func([]byte), 0, len(r.listeners))
	for _, l := range r.listeners {
		listeners = append(listeners, l)
	}
	r.mu.Unlock()
	for _, l := range listeners {
		l(body)
	}
}

func (r *room) Listen(_ string, handle func([]byte)) (func(), error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := r.next
	r.next++
	r.listeners[id] = handle
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.listeners, id)
	}, nil
}

// deaf is a member whose goodbye nobody hears: it was killed.
type deaf struct {
	*room
	mu     sync.Mutex
	silent bool
}

func (d *deaf) Announce(subject string, body []byte) {
	d.mu.Lock()
	silent := d.silent
	d.mu.Unlock()
	if !silent {
		d.room.Announce(subject, body)
	}
}

func (d *deaf) silence() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.silent = true
}

// counts is how many shards each member believes to own, and the number without owner.
func counts(members []*shard.Owners) (owned []int, orphans, doubles int) {
	owned = make([]int, len(members))
	seen := map[int]int{}
	for i := range 5000 {
		id := domain.WebhookID(fmt.Sprintf("0198aaaa-bbbb-7ccc-8ddd-%012x", i))
		number := id.Shard()
		if _, done := seen[number]; done {
			continue
		}
		seen[number] = 0
		for m := range members {
			if members[m].Owns(id) {
				owned[m]++
				seen[number]++
			}
		}
	}
	for _, n := range seen {
		switch {
		case n == 0:
			orphans++
		case n > 1:
			doubles++
		}
	}
	return owned, orphans, doubles
}

func TestEveryShardHasOneOwnerWhoeverComesAndGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hall := &room{listeners: map[int]func([]byte){}}
		var members []*shard.Owners
		var stops []context.CancelFunc
		var wires []*deaf
		var running sync.WaitGroup
		join := func() {
			ctx, stop := context.WithCancel(t.Context())
			wire := &deaf{room: hall}
			m := shard.New(fmt.Sprintf("dispatcher-%d", len(members)), 1, "s", wire, slog.New(slog.DiscardHandler))
			members, stops, wires = append(members, m), append(stops, stop), append(wires, wire)
			running.Go(func() { _ = m.Run(ctx) })
			pass(1500 * time.Millisecond)
			synctest.Wait()
		}
		for n := 1; n <= 4; n++ {
			join()
			owned, orphans, doubles := counts(members)
			if orphans+doubles != 0 {
				t.Fatalf("with %d dispatchers: %d shards without owner, %d with several", n, orphans, doubles)
			}
			for i, k := range owned {
				if k == 0 || members[i].Live() != n {
					t.Errorf("with %d dispatchers number %d owns %d shards and sees %d alive", n, i, k, members[i].Live())
				}
			}
		}
		stops[0]() // says goodbye
		synctest.Wait()
		if owned, orphans, doubles := counts(members); orphans+doubles+owned[0] != 0 {
			t.Errorf("after a goodbye: %d without owner, %d with several, %d with the one that left", orphans, doubles, owned[0])
		}
		wires[1].silence() // killed: nobody hears from it any more
		pass(5 * time.Second)
		synctest.Wait()
		if _, orphans, doubles := counts(members[2:]); orphans+doubles != 0 {
			t.Errorf("after a death: %d without owner, %d with several", orphans, doubles)
		}
		for _, stop := range stops {
			stop()
		}
		running.Wait()
	})
}

func TestTheLatestVersionOwnsTheShards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hall := &room{listeners: map[int]func([]byte){}}
		var members []*shard.Owners
		var stops []context.CancelFunc
		var running sync.WaitGroup
		behind := make([]bool, 3)
		for i, reads := range []int{1, 1, 2} {
			ctx, stop := context.WithCancel(t.Context())
			m := shard.New(fmt.Sprintf("dispatcher-%d", i), reads, "s", hall, slog.New(slog.DiscardHandler))
			m.OnBehind(func(b bool) { behind[i] = b })
			members, stops = append(members, m), append(stops, stop)
			running.Go(func() { _ = m.Run(ctx) })
			if i == 1 { // one of a build that does not say what it reads
				hall.Announce("s", []byte(`{"id":"old"}`))
				pass(1500 * time.Millisecond)
				synctest.Wait()
				if owned, orphans, _ := counts(members); owned[0] == 0 || owned[1] == 0 || orphans == 0 || behind[0] || behind[1] {
					t.Errorf("of three of the same version two own %v shards, a third %d; behind: %v", owned, orphans, behind)
				}
			}
			pass(1500 * time.Millisecond)
			synctest.Wait()
		}
		owned, orphans, doubles := counts(members)
		if owned[0]+owned[1] > 0 || orphans+doubles > 0 || !behind[0] || !behind[1] || behind[2] {
			t.Errorf("shards owned: %v, by none %d, by several %d; behind: %v", owned, orphans, doubles, behind)
		}
		if members[0].Live() < 3 {
			t.Errorf("%d alive: a webhook's cap is shared by all versions", members[0].Live())
		}
		stops[2]()
		synctest.Wait()
		if owned, _, _ := counts(members); owned[0] == 0 || owned[1] == 0 || owned[2] > 0 || behind[0] || behind[1] {
			t.Errorf("after the latest version is gone: shards owned %v, behind %v", owned, behind)
		}
		stops[0]()
		stops[1]()
		running.Wait()
	})
}

// pass lets time go by inside the bubble.
func pass(d time.Duration) { <-time.After(d) }
