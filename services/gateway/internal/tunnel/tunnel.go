// Package tunnel has the connections of agents and the way to services behind them. An agent
// opens a connection to a gateway; in it the gateway speaks HTTP/2 as the client. A request for a
// service goes over a connection of this process, else by the bus over one of another gateway.
package tunnel

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/tunnels"
)

const (
	// pollEvery is how often the version is looked at besides nudges.
	pollEvery = 4 * time.Second
	// settleEvery is how often it is looked whether operations have ended that this gateway's
	// agents take part in.
	settleEvery = 500 * time.Millisecond
	// renewEvery is how often the rows of connections are renewed.
	renewEvery = 10 * time.Second
	// storeTime bounds one use of the database.
	storeTime = 5 * time.Second
	// stopTime is how long requests may run when the process stops.
	stopTime = 5 * time.Second
	// staleAfter is the age from which what was read last is not added to, but replaced: removed
	// tunnels are only kept for a day.
	staleAfter = 12 * time.Hour
)

// Store has tunnels.
type Store interface {
	ServedTunnels(ctx context.Context, since int64) ([]tunnels.Served, int64, error)
	SettleTunnel(ctx context.Context, id string) (open bool, err error)
	ConnectTunnel(ctx context.Context, hashes [][]byte, c domain.TunnelConnection) (tunnels.Connected, error)
	TunnelTokens(ctx context.Context, hashes [][]byte) (map[string]time.Time, error)
	RenewConnections(ctx context.Context, ids []string) error
	EndConnection(ctx context.Context, id string) error
	AnswerConfiguration(ctx context.Context, connection, operation, refused string) error
}

// Bus is how gateways reach each other.
type Bus interface {
	Announce(subject string, body []byte)
	Listen(subject string, handle func(body []byte)) (stop func(), err error)
	Reconnects() (c <-chan struct{}, stop func())
	Sync(ctx context.Context) error
	SendPart(p bus.Part) error
	TakeParts(subject, group string, handle func(bus.Part)) (stop func(), err error)
}

// Hasher returns what a token may be found by.
type Hasher interface{ Hashes(token string) [][]byte }

// Options of Tunnels; all are required.
type Options struct {
	Store      Store
	Bus        Bus
	Hasher     Hasher
	Process    string // the name of this gateway, for people
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Tunnels are those that there are, and the connections that this process has.
type Tunnels struct {
	options Options
	metrics *metrics
	nudges  chan struct{}
	lookUps chan struct{} // one for each token that is looked up
	work    sync.WaitGroup
	answers *answers
	asked   asked

	mu      sync.RWMutex // of what follows
	version int64
	readAt  time.Time
	byID    map[string]*tunnelOf
	// services are by account and name.
	services map[serviceKey]service
	opening  map[string]*rate.Limiter // by the hash of a token
	closed   bool
}

type serviceKey struct{ account, name string }

// service is a service behind a tunnel.
type service struct {
	tunnel  string
	service domain.TunnelService
}

// tunnelOf is one of them, as this process knows it.
type tunnelOf struct {
	served      tunnels.Served
	known       bool // served is from the list, and not from a connection alone
	connections []*connection
	unlisten    func() // ends the questions of other gateways; nil: there are none
}

// New returns Tunnels that know of none before Run.
func New(o Options) *Tunnels {
	t := &Tunnels{
		options: o, nudges: make(chan struct{}, 1), lookUps: make(chan struct{}, maxLookUps),
		byID: make(map[string]*tunnelOf), services: make(map[serviceKey]service), opening: make(map[string]*rate.Limiter),
	}
	t.answers = &answers{bus: o.Bus, prefix: bus.NewAnswers(), waiting: make(map[string]chan bus.Part)}
	t.asked.slots = make(chan struct{}, maxAsked)
	t.asked.running = make(map[string]context.CancelFunc)
	t.metrics = newMetrics(o.Registerer, t)
	return t
}

// Nudge has changes looked for at once.
func (t *Tunnels) Nudge() {
	select {
	case t.nudges <- struct{}{}:
	default:
	}
}

// Run follows what changes until ctx ends, and ends all connections then.
func (t *Tunnels) Run(ctx context.Context) error {
	defer t.close()
	reconnects, stop := t.options.Bus.Reconnects()
	defer stop()
	unlisten, err := t.options.Bus.Listen(bus.SubjectGateway, func([]byte) { t.Nudge() })
	if err != nil {
		return fmt.Errorf("hear of tunnels: %w", err)
	}
	defer unlisten()
	unanswer, err := t.answers.listen()
	if err != nil {
		return fmt.Errorf("hear answers of gateways: %w", err)
	}
	defer unanswer()
	_ = t.options.Bus.Sync(ctx) // without the bus the ticks are enough
	poll, settle, renew := time.NewTicker(pollEvery), time.NewTicker(settleEvery), time.NewTicker(renewEvery)
	defer poll.Stop()
	defer settle.Stop()
	defer renew.Stop()
	t.update(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.nudges:
			t.update(ctx)
		case <-reconnects:
			t.update(ctx)
		case <-poll.C:
			t.update(ctx)
			t.settle(ctx, true)
		case <-settle.C:
			t.settle(ctx, false)
		case <-renew.C:
			t.renew(ctx)
		}
	}
}

// close ends all connections, with the requests that run over them if they last.
func (t *Tunnels) close() {
	t.mu.Lock()
	t.closed = true
	connections := t.held()
	t.mu.Unlock()
	for _, c := range connections {
		c.leave(closing{reason: "the gateway stops", drain: stopTime})
	}
	t.work.Wait()
}

// held returns the connections of this process. t.mu is held.
func (t *Tunnels) held() []*connection {
	var list []*connection
	for _, one := range t.byID {
		list = append(list, one.connections...)
	}
	return list
}

// renew notes in the database that the connections are there.
func (t *Tunnels) renew(ctx context.Context) {
	t.mu.RLock()
	connections := t.held()
	t.mu.RUnlock()
	ids := make([]string, len(connections))
	for i, c := range connections {
		ids[i] = c.id
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	if err := t.options.Store.RenewConnections(ctx, ids); err != nil {
		t.options.Logger.Debug("the connections of tunnels were not renewed; they are only shown wrong", "error", err)
	}
}

// changed tells other gateways, and this one, that there is something new.
func (t *Tunnels) changed() { t.options.Bus.Announce(bus.SubjectGateway, nil) }
