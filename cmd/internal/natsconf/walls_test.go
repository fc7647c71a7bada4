package natsconf_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
)

// forbidden are subjects that no publisher may reach: those of other accounts, of Waybill's
// own streams and nudges, of other users' inboxes, and of the server.
var forbidden = []string{
	"publish.default.shipment.created", "publish.acme.shipment.created",
	"records", "d.0.x", "r.0.x.y", "hold.0.x", "rejected.default", "rejected.acme", "rejected._",
	bus.SubjectKeys, bus.SubjectConfig, bus.SubjectHealth, bus.SubjectCircuit, bus.SubjectHold, bus.SubjectRelay, bus.SubjectDispatchers,
	"waybill.answer.x", "_INBOX_api.x", "_INBOX_dispatcher.x", "_INBOX.x", "_R_.x", "_R_.x.y",
	"$JS.API.STREAM.PURGE.HOLD", "$JS.API.STREAM.DELETE.EVENTS", "$JS.API.STREAM.MSG.DELETE.HOLD", "$JS.API.STREAM.MSG.GET.EVENTS",
	"$JS.API.CONSUMER.MSG.NEXT.EVENTS.fanout", "$JS.ACK.EVENTS.fanout.1.1.1.1.0",
	"$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT.waybill.CONNZ", "$SYS.REQ.ACCOUNT.PING.CONNZ",
}

// dangerous are headers that a server acts upon, or that Waybill's own processes set.
var dangerous = map[string]string{
	"Nats-Expected-Last-Msg-Id": "zz", "Nats-Expected-Last-Sequence": "99", "Nats-Expected-Last-Subject-Sequence": "99",
	"Nats-Expected-Last-Subject-Sequence-Subject": "events.acme.>", "Nats-Expected-Stream": "RECORDS",
	"Nats-Rollup": "all", "Nats-TTL": "1s", "Nats-Incr": "+1",
	"Nats-Schedule": "@at 2020-01-01T00:00:00Z", "Nats-Schedule-Target": "events.acme.shipment.created", "Nats-Schedule-TTL": "1s",
	"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1",
	"Nats-Trace-Dest": "records", "Nats-Trace-Only": "true", "nats-rollup": "all", "NATS-TRACE-DEST": "records",
	"Nats-Stream-Source": "RECORDS 1 > > x", "Nats-Marker-Reason": "Purge", "Nats-Required-Api-Level": "99",
	"Nats-Msg-Id": strings.Repeat("x", 257),
}

// intruder is a publisher and what it may reach.
type intruder struct{ user, password, account, other string }

var intruders = []intruder{{"publisher", "kPublisher", "default", "acme"}, {"partner", "kPartner", "acme", "default"}}

func TestPublishersStayBehindTheirWalls(t *testing.T) {
	for _, in := range intruders {
		t.Run(in.user, func(t *testing.T) { // each with servers of its own: what came late from another would count
			options := read(t, "nats.conf")
			addSpies(options)
			s := start(t, options)
			at := func(user, password string) string { return url(s, user, password) }
			tryWalls(t, in, at, at, join(t, s, "api", "kApi"))
		})
	}
}

func TestPublishersStayBehindTheirWallsInACluster(t *testing.T) {
	for _, in := range intruders {
		t.Run(in.user, func(t *testing.T) {
			var servers []*server.Server
			for _, options := range readCluster(t) {
				addSpies(options)
				servers = append(servers, start(t, options))
			}
			await(t, "a leader of the cluster", func() bool {
				for _, s := range servers {
					if len(s.JetStreamClusterPeers()) == len(servers) {
						return true
					}
				}
				return false
			})
			inside := func(user, password string) string { return url(servers[0], user, password) }
			api := joinAt(t, inside("api", "kApi"), "api", 3)
			tryWalls(t, in, inside, func(user, password string) string { return url(servers[1], user, password) }, api)
		})
	}
}

// addSpies adds a user that hears everything to each NATS account.
func addSpies(o *server.Options) {
	for _, account := range o.Accounts {
		o.Users = append(o.Users, &server.User{Username: "spy-" + account.Name, Password: "kSpy", Account: account})
	}
}

// tryWalls has a publisher try every subject as subject and as reply, and every dangerous
// header. Spies hear what arrives.
func tryWalls(t *testing.T, in intruder, inside, outside func(user, password string) string, api *bus.Bus) {
	t.Helper()
	serve(t, api)
	conn := enter(t, outside(in.user, in.password), in.user)
	subject := "events." + in.account + ".shipment.created"
	// Spies hear each message, so that from then on nobody is told that no API takes it.
	if answer := ask(t, conn, subject, nats.Header{"Nats-Msg-Id": {"first"}}); answer.Error != nil {
		t.Fatalf("an ordinary event is answered %s", answer.text)
	}
	waybill := spy(t, inside("spy-waybill", "kSpy"))
	neighbour := spy(t, outside("spy-publisher_"+in.other, "kSpy"))
	mark := "marked-" + in.user
	// What others publish meanwhile.
	if _, err := storeFor(api, in.other, "evt_secret_"+in.user); err != nil {
		t.Fatalf("publish: %v", err)
	}
	bad := append([]string{"events." + in.other + ".shipment.created", "_INBOX_" + other(in).user + ".x"}, forbidden...)
	for _, to := range bad {
		must(t, conn.PublishMsg(&nats.Msg{Subject: to, Data: []byte(mark)}))
		must(t, conn.PublishMsg(&nats.Msg{Subject: subject, Reply: to, Data: []byte(mark)}))
	}
	for name, value := range dangerous {
		must(t, conn.PublishMsg(&nats.Msg{Subject: subject, Header: nats.Header{name: {value}}, Reply: "records", Data: []byte(mark)}))
		if strings.HasPrefix(strings.ToLower(name), "nats-trace-") {
			continue // the server may drop it for where its trace should go
		}
		answer := ask(t, conn, subject, nats.Header{name: {value}})
		if answer.Error == nil || strings.Contains(answer.text, "evt_secret") {
			t.Errorf("%s: answered %s, want an error that tells of nobody else", name, answer.text)
		}
	}
	// The last one is answered after all that came before it.
	if answer := ask(t, conn, subject, nats.Header{"Nats-Msg-Id": {"last"}}); answer.Error != nil || answer.Seq != 1 {
		t.Errorf("an ordinary event is answered %s", answer.text)
	}
	await(t, "the last event", func() bool { return waybill.has("events."+in.account+".shipment.created", in.account+".last") })
	heard := waybill.reached("publish."+in.account+".", "events."+in.account+".", "rejected."+in.account, "_R_.", "_INBOX_api.")
	if len(heard) > 0 {
		t.Errorf("reached from outside: %v", heard)
	}
	if heard := neighbour.reached(); len(heard) > 0 {
		t.Errorf("reached in the account of another publisher: %v", heard)
	}
	// The server itself drops those with a reply of its own.
	await(t, "most of the messages that named another reply are events", func() bool {
		return waybill.count("events."+in.account+".") >= len(bad)*3/4
	})
}

func TestMessageIDsCountWithinTheirAccount(t *testing.T) {
	s := run(t)
	api := join(t, s, "api", "kApi")
	serve(t, api)
	publisher, partner := enter(t, url(s, "publisher", "kPublisher"), "publisher"), enter(t, url(s, "partner", "kPartner"), "partner")
	id := func(id string) nats.Header { return nats.Header{"Nats-Msg-Id": {id}} }
	steps := []struct {
		conn      *nats.Conn
		subject   string
		id        string
		duplicate bool
	}{
		{publisher, "events.default.shipment.created", "acme.evt_1", false}, // not acme's evt_1
		{partner, "events.acme.shipment.created", "evt_1", false},
		{partner, "events.acme.shipment.created", "acme.evt_1", true}, // the same one, in full
		{publisher, "events.default.shipment.created", "evt_1", false},
		{publisher, "events.default.shipment.created", "evt_1", true},
		{publisher, "events.default.shipment.created", "acme.evt_2", false},
	}
	for i, step := range steps {
		if answer := ask(t, step.conn, step.subject, id(step.id)); answer.Error != nil || answer.Duplicate != step.duplicate || answer.Seq != 1 {
			t.Errorf("step %d: answered %s, want duplicate %t and sequence 1", i, answer.text, step.duplicate)
		}
	}
	// What REST accepts for acme is not a duplicate of what somebody else published.
	if duplicate, err := storeFor(api, "acme", "evt_2"); err != nil || duplicate {
		t.Errorf("acme's own event: duplicate %t, error %v", duplicate, err)
	}
}

// storeFor publishes an event that REST accepted.
func storeFor(api *bus.Bus, account, id string) (duplicate bool, err error) {
	type result struct {
		duplicate bool
		err       error
	}
	results := make(chan result, 1)
	api.PublishEvent(bus.AcceptedEvent{Event: domain.Event{
		Account: account, ID: id, Type: domain.ShipmentCreated, Payload: []byte(`{}`), ReceivedAt: time.Now().UTC(),
	}}, 0, func(duplicate bool, err error) { results <- result{duplicate, err} })
	r := <-results
	return r.duplicate, r.err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func other(in intruder) intruder {
	if in == intruders[0] {
		return intruders[1]
	}
	return intruders[0]
}

// enter connects as a publisher.
func enter(t *testing.T, at, user string) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect(at, nats.CustomInboxPrefix("_INBOX_"+user), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatalf("connect as %s: %v", user, err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// answered is what a stream answers.
type answered struct {
	Error     *jetstream.APIError
	Stream    string
	Seq       uint64
	Duplicate bool
	text      string
}

// ask publishes and waits for the answer, as long as nobody is there to answer.
func ask(t *testing.T, conn *nats.Conn, subject string, header nats.Header) answered {
	t.Helper()
	var a answered
	await(t, "an answer", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		m, err := conn.RequestMsgWithContext(ctx, &nats.Msg{Subject: subject, Header: header, Data: []byte(`{}`)})
		if errors.Is(err, nats.ErrNoResponders) {
			return false
		}
		if err != nil {
			t.Fatalf("publish with %v: %v", header, err)
		}
		a.text = string(m.Data)
		if err := json.Unmarshal(m.Data, &a); err != nil {
			t.Fatalf("answer %q: %v", m.Data, err)
		}
		return true
	})
	return a
}

// listener hears all that is published in one NATS account.
type listener struct {
	mu   sync.Mutex
	msgs []*nats.Msg
}

func spy(t *testing.T, at string) *listener {
	t.Helper()
	conn := enter(t, at, "spy")
	l := &listener{}
	if _, err := conn.Subscribe(">", func(m *nats.Msg) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.msgs = append(l.msgs, m)
	}); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	return l
}

// reached returns what was heard on other subjects than those that begin so.
func (l *listener) reached(allowed ...string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []string
next:
	for _, m := range l.msgs {
		for _, prefix := range allowed {
			if strings.HasPrefix(m.Subject, prefix) {
				continue next
			}
		}
		// What the processes say to the server, and the events of others that are published here.
		if strings.HasPrefix(m.Header.Get("Nats-Msg-Id"), "acme.evt_secret") || strings.HasPrefix(m.Header.Get("Nats-Msg-Id"), "default.evt_secret") {
			continue
		}
		list = append(list, fmt.Sprintf("%s %.60q", m.Subject, m.Data))
	}
	return list
}

func (l *listener) count(prefix string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, m := range l.msgs {
		if strings.HasPrefix(m.Subject, prefix) {
			n++
		}
	}
	return n
}

func (l *listener) has(subject, id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.msgs {
		if m.Subject == subject && m.Header.Get("Nats-Msg-Id") == id {
			return true
		}
	}
	return false
}
