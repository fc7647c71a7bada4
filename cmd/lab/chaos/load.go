package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/load"
	"waybill.dev/cmd/lab/internal/stack"
	"waybill.dev/shared/domain"
)

// outstanding bounds the publications that are not answered yet; while the API is away
// so many wait to be tried again, and no new ones begin.
const outstanding = 256

// publisher publishes events at a rate, over REST and on JetStream, and knows which of them
// were accepted. A publication whose fate is unknown (no answer, or an answer that is no
// 202) is tried again under the same id until it is accepted; over REST with the next API,
// where there are several.
type publisher struct {
	apis []*stack.Client
	nats *nats.Conn
	js   jetstream.JetStream
	// away are APIs that get no requests, as if a load balancer had taken them out, and inFlight how many
	// requests each has.
	away     []atomic.Bool
	inFlight []atomic.Int64

	// kindOf chooses the type of the n-th event.
	kindOf func(n int64) domain.EventType
	// shipmentOf chooses its shipment.
	shipmentOf func(n int64) int64
	// accounts get the events in turn; empty: all are the default account's.
	accounts []account

	number  atomic.Int64
	turn    atomic.Int64 // of the APIs
	retried atomic.Int64 // publications that were tried more than once
	refused atomic.Int64 // tries over REST that were not accepted
	failed  atomic.Int64 // tries on JetStream that were not acknowledged

	mu       sync.Mutex
	sent     map[string]time.Time // over REST: when it was first sent
	accepted map[string]time.Time // over REST: when the 202 came
	bus      map[string]time.Time // on JetStream: when it was first sent
	acked    map[string]time.Time
	stop     context.CancelFunc
	running  sync.WaitGroup
}

func newPublisher(st *stack.Stack) (*publisher, error) {
	conn, err := nats.Connect(st.NATSURL, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond),
		nats.RetryOnFailedConnect(true), nats.ReconnectBufSize(-1), nats.CustomInboxPrefix("_INBOX_publisher"),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // what fails is tried again
	if err != nil {
		return nil, fmt.Errorf("connect to the bus: %w", err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fmt.Errorf("open JetStream: %w", err)
	}
	apis := st.Clients()
	return &publisher{
		apis: apis, away: make([]atomic.Bool, len(apis)), inFlight: make([]atomic.Int64, len(apis)), nats: conn, js: js, kindOf: kindOf, shipmentOf: func(n int64) int64 { return n },
		sent: make(map[string]time.Time), accepted: make(map[string]time.Time),
		bus: make(map[string]time.Time), acked: make(map[string]time.Time),
	}, nil
}

// Start begins to publish at the rates given.
func (l *publisher) start(ctx context.Context, rest, bus int) {
	publishing := context.WithoutCancel(ctx)
	ctx, l.stop = context.WithCancel(ctx)
	if rest > 0 {
		l.running.Go(func() { load.Pace(ctx, rest, outstanding, func(int64) { l.postOne(publishing, l.next()) }) })
	}
	if bus > 0 {
		l.running.Go(func() { load.Pace(ctx, bus, outstanding, func(int64) { l.busOne(publishing, l.next()) }) })
	}
}

// end stops new publications and waits for those under way, which are tried on until
// they are accepted or ctx is done.
func (l *publisher) end(ctx context.Context) error {
	l.stop()
	done := make(chan struct{})
	go func() {
		l.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errors.New("publications are still not accepted")
	}
}

func (l *publisher) close() {
	l.stop()
	l.nats.Close()
	for _, api := range l.apis {
		api.Close()
	}
}

// event is what is published.
type event struct {
	id      string
	kind    domain.EventType
	body    []byte
	account account
}

// account is who publishes an event.
type account struct{ name, key string }

// One event in twenty is an exception, which the flaky receiver gets, and one is a
// creation, which the inactive webhook gets.
const (
	oneIn     = 20
	kindHeld  = domain.ShipmentCreated
	kindFlaky = domain.ShipmentException
)

func kindOf(n int64) domain.EventType {
	switch n % oneIn {
	case 0:
		return kindHeld
	case 1:
		return kindFlaky
	case 2:
		return domain.ShipmentDelivered
	}
	return domain.ShipmentInTransit
}

const padding = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func (l *publisher) next() event {
	n := l.number.Add(1)
	e := event{id: fmt.Sprintf("chaos-%d", n), kind: l.kindOf(n), account: account{name: domain.DefaultAccount}}
	if len(l.accounts) > 0 {
		e.account = l.accounts[n%int64(len(l.accounts))]
	}
	e.body = fmt.Appendf(nil, `{"id":%q,"type":%q,"timestamp":%q,"data":{"shipmentId":"shp_%d","score":0.1000,"big":9007199254740993,"note":%q}}`,
		e.id, e.kind, time.Now().UTC().Format(time.RFC3339Nano), l.shipmentOf(n), padding+padding+padding+padding)
	return e
}

func (l *publisher) postOne(ctx context.Context, e event) { l.post(ctx, e.body, e) }

// postBatch publishes events in one request.
func (l *publisher) postBatch(ctx context.Context, events []event) {
	bodies := make([][]byte, len(events))
	for i, e := range events {
		bodies[i] = e.body
	}
	l.post(ctx, slices.Concat([]byte("["), bytes.Join(bodies, []byte(",")), []byte("]")), events...)
}

func (l *publisher) post(ctx context.Context, body []byte, events ...event) {
	note := func(times map[string]time.Time) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, e := range events {
			times[e.id] = time.Now()
		}
	}
	note(l.sent)
	turn := l.turn.Add(1)
	l.untilAccepted(ctx, func(ctx context.Context) error {
		i := int(turn % int64(len(l.apis)))
		turn++
		if l.away[i].Load() {
			i = int(turn % int64(len(l.apis)))
		}
		l.inFlight[i].Add(1)
		defer l.inFlight[i].Add(-1)
		api := l.apis[i]
		if key := events[0].account.key; key != "" {
			api = api.As(key)
		}
		_, err := api.Publish(ctx, body)
		if err != nil {
			l.refused.Add(1)
		}
		return err
	})
	note(l.accepted)
}

func (l *publisher) busOne(ctx context.Context, e event) {
	l.mu.Lock()
	l.bus[e.id] = time.Now()
	l.mu.Unlock()
	l.untilAccepted(ctx, func(ctx context.Context) error {
		_, err := l.js.Publish(ctx, "events."+e.account.name+"."+string(e.kind), e.body, jetstream.WithMsgID(e.id))
		if err != nil {
			l.failed.Add(1)
		}
		return err
	})
	l.mu.Lock()
	l.acked[e.id] = time.Now()
	l.mu.Unlock()
}

// untilAccepted tries until it succeeds, a little slower each time. An answer that says
// that the event is wrong is a fault of this program, and would never end.
func (l *publisher) untilAccepted(ctx context.Context, try func(context.Context) error) {
	for attempt := 1; ; attempt++ {
		trying, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := try(trying)
		cancel()
		if err == nil {
			return
		}
		if client.IsStatus(err, http.StatusBadRequest) || client.IsStatus(err, http.StatusUnauthorized) {
			panic(err)
		}
		if attempt == 1 {
			l.retried.Add(1)
		}
		wait := min(time.Duration(attempt)*50*time.Millisecond, 500*time.Millisecond)
		<-time.After(wait/2 + rand.N(wait))
	}
}

// restAccepted returns what was accepted over REST, and when.
func (l *publisher) restAccepted() map[string]time.Time { return l.copy(l.accepted) }

// newestAccepted returns the n events that REST accepted last.
func (l *publisher) newestAccepted(n int) []string {
	accepted := l.restAccepted()
	ids := slices.SortedFunc(maps.Keys(accepted), func(a, b string) int { return accepted[b].Compare(accepted[a]) })
	return ids[:min(n, len(ids))]
}

// busAcked returns what the bus acknowledged, and when.
func (l *publisher) busAcked() map[string]time.Time { return l.copy(l.acked) }

// busHolds says how many messages each stream has.
func (l *publisher) busHolds(ctx context.Context) string {
	var text []string
	for streams := l.js.ListStreams(ctx); ; {
		info, ok := <-streams.Info()
		if !ok {
			return strings.Join(text, ", ")
		}
		text = append(text, fmt.Sprintf("%d in %s", info.State.Msgs, info.Config.Name))
	}
}

// busSent returns what was published on JetStream, acknowledged or not, and when.
func (l *publisher) busSent() map[string]time.Time { return l.copy(l.bus) }

// firstSent returns when each event was first sent.
func (l *publisher) firstSent() map[string]time.Time { return l.copy(l.sent) }

func (l *publisher) copy(m map[string]time.Time) map[string]time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(m)
}
