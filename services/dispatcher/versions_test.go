package dispatcher_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
)

// onSQLite runs a test of what is the same on both databases.
func onSQLite(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	return newBench(t, "sqlite:"+templates.SQLite(t))
}

func (b *bench) jetStream() jetstream.JetStream {
	b.t.Helper()
	js, err := jetstream.New(b.client())
	if err != nil {
		b.t.Fatal(err)
	}
	return js
}

// put stores a message as a process of another build would.
func put(t *testing.T, js jetstream.JetStream, subject, task, body string) {
	t.Helper()
	m := nats.NewMsg(subject)
	m.Data = []byte(body)
	if task != "" {
		m.Header["Waybill-Task"] = []string{task}
	}
	if _, err := js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// all reads what a stream holds on the subjects that begin so.
func all(t *testing.T, js jetstream.JetStream, stream, prefix string) (list []*jetstream.RawStreamMsg) {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	state := s.CachedInfo().State
	for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
		if m, err := s.GetMsg(t.Context(), seq); err == nil && strings.HasPrefix(m.Subject, prefix) {
			list = append(list, m)
		}
	}
	return list
}

// Deliveries that a later build wrote wait for it, wherever they come from; what is no
// delivery at all is kept with the reason. Neither holds up what this build knows.
func TestTasksOfAnotherVersionWait(t *testing.T) {
	b := onSQLite(t)
	s, down := newSink(t, nil), newSink(t, nil)
	w := b.webhook(s.URL)
	off := b.webhook(down.URL, func(w *domain.Webhook) { w.Active = false })
	js := b.jetStream()
	b.dispatch()
	place := func(kind string, id domain.WebhookID) string {
		return kind + strings.TrimPrefix(bus.HoldSubject(id), "hold")
	}
	later := "2 " + strings.Repeat("x ", 20)
	put(t, js, place("d", w.ID), later+"due", "one")
	put(t, js, place("hold", w.ID), later+"drained", "two")
	put(t, js, place("d", w.ID), "nonsense", "three")
	put(t, js, place("hold", off.ID), "1 too short", "four")
	b.update(off.ID, func(w *domain.Webhook) { w.Active = true }) // its hold queue is worked
	b.accept(20)
	b.deliveries(w.ID, domain.StatusDelivered, 20)
	b.deliveries(off.ID, domain.StatusDelivered, 20)
	b.eventually(func() error {
		backlog, err := b.backlog()
		if err != nil || backlog.Held != 0 || backlog.Scheduled != 2 {
			return fmt.Errorf("backlog: %+v, %w", backlog, err)
		}
		if n := len(all(t, js, bus.StreamRejected, "rejected.")); n != 2 {
			return fmt.Errorf("%d messages are rejected, want 2", n)
		}
		return nil
	})
	got := map[string]string{}
	for _, m := range all(t, js, bus.StreamRetries, place("r", w.ID)+".") {
		got[string(m.Data)] = m.Header.Get("Waybill-Task")
		at, err := time.Parse(time.RFC3339Nano, strings.TrimPrefix(m.Header.Get("Nats-Schedule"), "@at "))
		if wait := time.Until(at); err != nil || wait > time.Minute || wait < 0 || m.Header.Get("Nats-Schedule-Target") != place("d", w.ID) {
			t.Errorf("%s is due again in %s on %s, %v", m.Data, wait, m.Header.Get("Nats-Schedule-Target"), err)
		}
	}
	if got["one"] != later+"due" || got["two"] != later+"drained" {
		t.Errorf("left for a later build: %q", got)
	}
	for _, m := range all(t, js, bus.StreamRejected, "rejected.") {
		if m.Subject != "rejected._waybill" || m.Header.Get("Waybill-Reason") == "" || m.Header.Get("Waybill-Task") == "" {
			t.Errorf("rejected on %s: %v", m.Subject, m.Header)
		}
	}
	if list, _, err := b.bus.ListRejected(t.Context(), domain.DefaultAccount, time.Time{}, 10, 0); err != nil || len(list) != 0 {
		t.Errorf("an account sees %d of them, %v", len(list), err)
	}
}

// Records that a later build wrote go to a process that reads them, while one lives, and
// everything else that is recorded; without one what this build reads is written on.
func TestRecordsOfAnotherVersionAreLeft(t *testing.T) {
	b := onSQLite(t)
	s := newSink(t, nil)
	w := b.webhook(s.URL)
	js := b.jetStream()
	b.dispatch()
	put(t, js, "records", "", "\x04 of the next version")
	put(t, js, "records", "", "")
	b.accept(20)
	b.deliveries(w.ID, domain.StatusDelivered, 20)
	b.eventually(func() error {
		if list := all(t, js, bus.StreamRejected, "rejected."); len(list) != 1 || list[0].Subject != "rejected._waybill" {
			return fmt.Errorf("%d messages are rejected, want the one that is no batch", len(list))
		}
		return nil
	})

	nc := b.client()
	beats := time.NewTicker(300 * time.Millisecond)
	defer beats.Stop()
	say := func(gone bool) {
		body, err := json.Marshal(map[string]any{"id": "later", "reads": bus.Formats + 1, "gone": gone})
		if err != nil {
			t.Fatal(err)
		}
		if err := nc.Publish(bus.SubjectDispatchers, body); err != nil {
			t.Fatal(err)
		}
	}
	say(false)
	consumer, err := js.Consumer(t.Context(), bus.StreamRecords, "record")
	if err != nil {
		t.Fatal(err)
	}
	b.accept(5)
	taken := map[byte]int{}
	for deadline := time.Now().Add(30 * time.Second); taken[4] == 0 || taken[3] == 0; {
		if time.Now().After(deadline) {
			t.Fatalf("a process of the next version got these records, by version: %v", taken)
		}
		say(false)
		batch, err := consumer.Fetch(100, jetstream.FetchMaxWait(300*time.Millisecond), jetstream.FetchPriorityGroup(bus.PinGroup))
		if err != nil {
			t.Fatal(err)
		}
		for m := range batch.Messages() {
			taken[m.Data()[0]]++
			if m.Data()[0] == 4 {
				_ = m.Ack()
			}
		}
	}
	say(true)
	b.deliveries(w.ID, domain.StatusDelivered, 25)
	b.eventually(func() error {
		if backlog, err := b.backlog(); err != nil || backlog.Records != 0 {
			return fmt.Errorf("backlog: %+v, %w", backlog, err)
		}
		return nil
	})
}

// An event whose acceptance says more than this build reads is no publisher's own event: it
// is left to a process that knows it.
func TestEventsOfAnotherVersionAreLeft(t *testing.T) {
	b := onSQLite(t)
	s := newSink(t, nil)
	w := b.webhook(s.URL)
	b.dispatch()
	subject, text := bus.EventSubject(domain.DefaultAccount, domain.ShipmentCreated), "evt_later 1790000000000 1 0 more"
	mac := hmac.New(sha256.New, b.keys.Derive("waybill event acceptance")[0])
	for _, part := range []string{subject, text} {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write([]byte(part))
	}
	mac.Write(payload)
	m := nats.NewMsg(subject)
	m.Data = payload
	m.Header.Set("Waybill-Accepted", text+" "+base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16]))
	js := b.jetStream()
	if _, err := js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	b.accept(10)
	b.deliveries(w.ID, domain.StatusDelivered, 10)
	b.eventually(func() error {
		backlog, err := b.backlog()
		if err != nil || backlog.Events != 1 {
			return fmt.Errorf("backlog: %+v, %w", backlog, err)
		}
		return nil
	})
	if _, ids := s.seen(); len(ids) != 10 {
		t.Errorf("%d events arrived, want the 10 that this build knows", len(ids))
	}
}
