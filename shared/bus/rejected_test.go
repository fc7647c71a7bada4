package bus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
)

// stream returns a stream as a client of its own sees it.
func stream(t *testing.T, server *bustest.Server, name string) (jetstream.JetStream, jetstream.Stream) {
	t.Helper()
	conn, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return js, s
}

// What one account has among the rejected messages is not another's trouble: of 20,000 that
// a stream has from before there was a bound, the newest 1,000 stay, and another account's
// list reads none of them.
func TestRejectedMessagesOfOneAccountAreNotReadForAnother(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t)
	b := connect(t, server)
	js, rejected := stream(t, server, bus.StreamRejected)
	config := rejected.CachedInfo().Config
	config.MaxMsgsPerSubject = -1
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	reject(t, b, "quiet", nil, []byte("first"))
	for range 20_000 {
		if _, err := js.PublishAsync(bus.RejectedSubject("loud"), []byte("x"), jetstream.WithStallWait(30*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	if err := b.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	info, err := rejected.Info(ctx)
	if err != nil || info.State.Msgs != 1001 {
		t.Fatalf("%d messages are kept, error %v, want 1,000 of one account and 1 of the other", info.State.Msgs, err)
	}
	received := received(t, server)
	list, _, err := b.ListRejected(ctx, "quiet", time.Time{}, 100, 0)
	if err != nil || len(list) != 1 || string(list[0].Body) != "first" {
		t.Fatalf("listed %v, error %v", list, err)
	}
	// One request finds it, another that there is no more.
	if n := received() - 2; n > 2 {
		t.Errorf("the list took %d requests more", n)
	}
	list, next, err := b.ListRejected(ctx, "loud", time.Time{}, 1000, 0)
	if err != nil || len(list) != 1000 || next != 0 {
		t.Errorf("%d listed, next %d, error %v, want all 1,000", len(list), next, err)
	}
}

// received returns how many messages the server got since, of all its clients.
func received(t *testing.T, server *bustest.Server) func() int64 {
	t.Helper()
	count := func() int64 {
		stats, err := server.NATS().Varz(nil)
		if err != nil {
			t.Fatal(err)
		}
		return stats.InMsgs
	}
	before := count()
	return func() int64 { return count() - before }
}

func reject(t *testing.T, b *bus.Bus, account string, header map[string][]string, body []byte) {
	t.Helper()
	stored := make(chan error, 1)
	b.Reject(account, "events."+account+".x", header, body, "because", func(err error) { stored <- err })
	if err := <-stored; err != nil {
		t.Fatalf("reject: %v", err)
	}
}

// Whatever a message is like it can be kept as rejected, and the reason says what is missing.
func TestWhateverIsRejectedIsKept(t *testing.T) {
	many := map[string][]string{}
	for i := range 3000 {
		many[fmt.Sprintf("X-%04d", i)] = []string{"0123456789"}
	}
	rows := map[string]struct {
		account string
		header  map[string][]string
		body    []byte
		told    string
		size    int
	}{
		"large header":          {"a", map[string][]string{"X-Large": {strings.Repeat("x", 65_500)}, "X-Small": {"y"}}, []byte("b"), "1 headers are left out", 1},
		"many headers":          {"a", many, []byte("b"), "headers are left out", 1},
		"many values":           {"a", map[string][]string{"X": strings.Split(strings.Repeat("v,", 9000), ",")}, nil, "1 headers are left out", 0},
		"largest body":          {"a", nil, make([]byte, 1<<20-200), "of 1048376 bytes of its body the first 65536 are kept", 64 << 10},
		"body as large as most": {"a", nil, make([]byte, 256<<10), "because", 256 << 10},
		"server's headers": {"a", map[string][]string{
			"Nats-Rollup": {"all"}, "Nats-Expected-Stream": {"X"}, "Nats-Trace-Dest": {"records"}, "Nats-Batch-Id": {"b"}, "Nats-Msg-Id": {"m"},
			"Nats-Schedule": {"@at 2020-01-01T00:00:00Z"}, "Nats-TTL": {"1s"}, "nats-ttl": {"1s"}, "Nats-Incr": {"1"},
		}, nil, "because", 0},
		"account of 2.8 KB": {strings.Repeat("a", 2800), nil, nil, "because", 0},
		"account with NUL":  {"a\x00b", nil, nil, "because", 0},
		"account no UTF-8":  {"a\xff\xfe", nil, nil, "because", 0},
	}
	server := bustest.Start(t)
	b := connect(t, server)
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			reject(t, b, row.account, row.header, row.body)
			_, rejected := stream(t, server, bus.StreamRejected)
			msg, err := rejected.GetMsg(t.Context(), rejected.CachedInfo().State.LastSeq)
			if err != nil {
				t.Fatal(err)
			}
			if reason := msg.Header.Get(bus.HeaderReason); !strings.HasPrefix(reason, "because") || !strings.Contains(reason, row.told) {
				t.Errorf("reason %q lacks %q", reason, row.told)
			}
			if len(msg.Data) != row.size {
				t.Errorf("%d bytes of the body are kept, want %d", len(msg.Data), row.size)
			}
			for header := range msg.Header {
				switch header {
				case jetstream.StreamHeader, jetstream.SubjectHeader, jetstream.SequenceHeader, jetstream.TimeStampHeaer: // of the answer
					continue
				}
				if strings.HasPrefix(strings.ToLower(header), "nats-") {
					t.Errorf("header %s is kept", header)
				}
			}
			if subject := msg.Header.Get(bus.HeaderSubject); len(subject) > 512 || strings.ContainsRune(subject, 0) || !utf8.ValidString(subject) {
				t.Errorf("subject %q", subject)
			}
		})
	}
}

// What was rejected before an account was made is not its own.
func TestRejectedBeforeATimeAreNotListed(t *testing.T) {
	t.Parallel()
	b := connect(t, bustest.Start(t))
	reject(t, b, "a", nil, []byte("earlier"))
	list, _, err := b.ListRejected(t.Context(), "a", time.Time{}, 10, 0)
	if err != nil || len(list) != 1 {
		t.Fatalf("listed %v, error %v", list, err)
	}
	since := list[0].Time.Add(time.Nanosecond)
	reject(t, b, "a", nil, []byte("later"))
	list, _, err = b.ListRejected(t.Context(), "a", since, 10, 0)
	if err != nil || len(list) != 1 || string(list[0].Body) != "later" {
		t.Errorf("listed %v, error %v, want the later one", list, err)
	}
}

// A full page ends before its limit and goes on with what follows.
func TestPagesOfRejectedMessagesAreBounded(t *testing.T) {
	t.Parallel()
	b := connect(t, bustest.Start(t))
	for range 20 {
		reject(t, b, "a", nil, make([]byte, 100<<10))
	}
	seen := 0
	for before := uint64(0); ; {
		list, next, err := b.ListRejected(t.Context(), "a", time.Time{}, 1000, before)
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, m := range list {
			size += len(m.Body)
		}
		if size > 640<<10 {
			t.Errorf("a page has %d bytes of bodies", size)
		}
		if seen += len(list); next == 0 {
			break
		}
		before = next
	}
	if seen != 20 {
		t.Errorf("%d listed on all pages, want 20", seen)
	}
}

func TestEventsRefusesWhenItIsFullAndGoesOnWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t)
	b, err := bus.Connect(bus.Options{
		URL: server.URL(), Name: "test", Logger: slog.New(slog.DiscardHandler), MACKeys: [][]byte{key}, MaxBytes: 1 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if err := b.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A stream from before there was a limit gets one.
	js, err := jetstream.New(must(nats.Connect(server.URL())))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(js.Conn().Close)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: bus.StreamEvents, Subjects: []string{"events.>"}}); err != nil {
		t.Fatal(err)
	}
	if err := b.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	stored := 0
	for size := 64 << 10; size > 0 && stored < 1000; {
		_, err := js.Publish(t.Context(), "events.a.shipment.created", make([]byte, size))
		if err == nil {
			stored++
		} else {
			size /= 2
		}
	}
	if stored < 10 || stored >= 1000 {
		t.Fatalf("%d were stored, and nothing was refused before", stored)
	}
	// What REST accepted is left to the relay.
	if _, err := tryPublish(b, bus.AcceptedEvent{Event: event()}, 0); !errors.Is(err, domain.ErrUnavailable) {
		t.Fatalf("an accepted event: %v, want %v", err, domain.ErrUnavailable)
	}
	// Nothing is done: nothing is given up.
	room, err := b.MakeRoom(t.Context())
	if err != nil || room.Dropped != 0 || room.MaxBytes != 1<<20 {
		t.Fatalf("room %+v, error %v, want nothing dropped", room, err)
	}
	take(t, stored, events(b))
	deadline := time.Now().Add(30 * time.Second)
	for room.Dropped == 0 && time.Now().Before(deadline) { // the acknowledgements are on their way
		if room, err = b.MakeRoom(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if room.Dropped == 0 || room.Bytes >= room.MaxBytes/4*3 {
		t.Fatalf("room %+v after all was done", room)
	}
	if _, err := js.Publish(t.Context(), "events.a.shipment.created", make([]byte, 64<<10)); err != nil {
		t.Errorf("publish when there is room: %v", err)
	}
}

// A limit beyond what the server has is made smaller, not a reason to have no stream.
func TestStreamsAreMadeAsLargeAsTheServerLets(t *testing.T) {
	t.Parallel()
	for _, has := range []int64{20 << 30, 3 << 30, 1200 << 20, 1050 << 20, 540 << 20, 400 << 20, 270 << 20, 65 << 20} {
		t.Run(fmt.Sprint(has>>20, " MiB"), func(t *testing.T) {
			t.Parallel()
			server := bustest.StartWithin(t, has)
			var logged bytes.Buffer
			b, err := bus.Connect(bus.Options{
				URL: server.URL(), Name: "test", Logger: slog.New(slog.NewTextHandler(&logged, nil)), MACKeys: [][]byte{key},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(b.Close)
			if err := b.WaitReady(t.Context()); err != nil {
				t.Fatal(err)
			}
			for range 3 { // as after each reconnection
				if err := b.Ensure(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			sum, smaller := int64(0), 0
			least := map[string]int64{bus.StreamEvents: 64 << 20, bus.StreamRejected: 1 << 20}
			for name, set := range map[string]int64{bus.StreamEvents: 8 << 30, bus.StreamRejected: 1 << 30} {
				_, s := stream(t, server, name)
				most := s.CachedInfo().Config.MaxBytes
				if most < least[name] || most > set {
					t.Errorf("%s may have %d bytes", name, most)
				}
				if sum += most; most < set {
					smaller++
				}
			}
			if sum > has || has > 9<<30 && smaller > 0 {
				t.Errorf("the streams may have %d bytes of %d, %d of them less than is set", sum, has, smaller)
			}
			if told := strings.Count(logged.String(), "level=WARN"); told != smaller {
				t.Errorf("%d streams are smaller, the log says:\n%s", smaller, &logged)
			}
		})
	}
}

// A server without room for EVENTS is told of, with what is missing, until there is room. What has taken
// that room, REJECTED, gives way.
func TestNoRoomForEvents(t *testing.T) {
	t.Parallel()
	server := bustest.StartWithin(t, 60<<20)
	b := dial(t, server)
	err := b.Ensure(t.Context())
	var small *bus.NoRoomError
	if !errors.As(err, &small) || small.Stream != bus.StreamEvents || small.Bytes != 64<<20 || !strings.Contains(err.Error(), "EVENTS needs 64 MiB") {
		t.Fatalf("error %v, want that EVENTS needs 64 MiB", err)
	}
	if b.Missing() == nil {
		t.Error("nothing is missing")
	}
	server.Within(80 << 20)
	js := must(jetstream.New(must(nats.Connect(server.URL()))))
	t.Cleanup(js.Conn().Close)
	rejected := jetstream.StreamConfig{Name: bus.StreamRejected, Subjects: []string{"rejected.>"}, MaxBytes: 70 << 20}
	if _, err := js.CreateOrUpdateStream(t.Context(), rejected); err != nil {
		t.Fatal(err)
	}
	if err := b.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if missing := b.Missing(); missing != nil {
		t.Errorf("%v is missing still", missing)
	}
	if _, s := stream(t, server, bus.StreamEvents); s.CachedInfo().Config.MaxBytes != 64<<20 {
		t.Errorf("EVENTS may have %d bytes", s.CachedInfo().Config.MaxBytes)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
