package news_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/news"
)

// wire is a bus within the test, so that the test can have its own clock: what a bus does with
// announcements is tested where there is one.
type wire struct {
	mu        sync.Mutex
	listeners map[string][]func([]byte)
	announced map[string]int
}

func newWire() *wire {
	return &wire{listeners: map[string][]func([]byte){}, announced: map[string]int{}}
}

func (w *wire) Announce(subject string, body []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.announced[subject]++
	for _, handle := range w.listeners[subject] {
		handle(body)
	}
}

func (w *wire) Listen(subject string, handle func([]byte)) (func(), error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listeners[subject] = append(w.listeners[subject], handle)
	return func() {}, nil
}

func (w *wire) messages(account string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.announced[bus.LiveSubject(account)]
}

// run has a publisher run within the test.
func run(t *testing.T, w *wire) *news.Publisher {
	t.Helper()
	p := news.NewPublisher(w)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return p
}

// An account is told of while it is watched, and no longer.
func TestLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		p := run(t, w)
		tell := func(account string) {
			p.Note(account, news.Event, "evt")
			<-time.After(time.Second)
		}
		tell("acme")
		if p.Watched() || w.messages("acme") != 0 {
			t.Error("news are told to nobody")
		}
		news.Watch(w, "acme")
		tell("acme")
		tell("other")
		if !p.Watched() || w.messages("acme") != 1 || w.messages("other") != 0 {
			t.Errorf("messages: %v", w.announced)
		}
		for range 10 {
			<-time.After(news.Renewal)
			news.Watch(w, "acme")
		}
		tell("acme")
		if w.messages("acme") != 2 {
			t.Error("a watch that is renewed has ended")
		}
		<-time.After(news.Lease + 2*news.Renewal)
		tell("acme")
		if p.Watched() || w.messages("acme") != 2 {
			t.Error("news are told after the watch has ended")
		}
	})
}

// However much changes, a process sends ten messages a second about an account, each with few ids.
func TestThrottle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		p := run(t, w)
		var heard []news.Changes
		if _, err := news.Hear(w, "acme", func(c news.Changes) { heard = append(heard, c) }); err != nil {
			t.Fatal(err)
		}
		news.Watch(w, "acme")
		<-time.After(time.Second)
		for i := range 1000 {
			p.Note("acme", news.Delivery, fmt.Sprint("d", i))
			p.Note("acme", news.Webhook, "w")
			<-time.After(time.Millisecond)
		}
		<-time.After(time.Second)
		if n := w.messages("acme"); n < 5 || n > 12 {
			t.Errorf("%d messages in a second, want some ten", n)
		}
		synctest.Wait()
		for _, c := range heard {
			if len(c[news.Delivery]) > news.MaxIDs || len(c[news.Webhook]) > 1 {
				t.Errorf("a message has %d deliveries and %d webhooks", len(c[news.Delivery]), len(c[news.Webhook]))
			}
		}
	})
}

// A kind of which there are too many has no ids; the others keep theirs.
func TestMany(t *testing.T) {
	t.Parallel()
	c := make(news.Changes)
	for _, id := range []string{"a", "b", "a", "b"} {
		c.Add(news.Event, id, 2)
		c.Add(news.Delivery, id, 1)
	}
	c.Add(news.Job, "", 2)
	c.Add(news.Job, "j", 2)
	want := news.Changes{news.Event: {"a", "b"}, news.Delivery: {}, news.Job: {}}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
}

// What a change costs while nobody watches, and while somebody does.
func BenchmarkNote(b *testing.B) {
	for _, watched := range []bool{false, true} {
		b.Run(fmt.Sprint("watched ", watched), func(b *testing.B) {
			w := newWire()
			p := news.NewPublisher(w)
			ctx, cancel := context.WithCancel(b.Context())
			done := make(chan error, 1)
			go func() { done <- p.Run(ctx) }()
			if watched {
				for !p.Watched() {
					news.Watch(w, "acme")
				}
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				p.Note("acme", news.Delivery, ids[i%len(ids)])
				i++
			}
			cancel()
			<-done
		})
	}
}

var ids = func() []string {
	list := make([]string, 1000)
	for i := range list {
		list[i] = fmt.Sprint("0AvQ6nH4aXk3LZ0pT1c", i)
	}
	return list
}()
