// Package tunnel accepts connections of agents, and sends requests over them to the services behind the tunnels.
// An agent opens a connection to a gateway. The gateway is the HTTP/2 client on it. A gateway without a
// connection of the tunnel asks a gateway that has one, over the bus.
package tunnel

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"waybill.dev/services/gateway/internal/follow"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/signal"
	"waybill.dev/shared/store/tunnels"
)

const (
	// settleEvery is how often a gateway checks whether the operations of its agents are done.
	settleEvery = 500 * time.Millisecond
	// renewEvery is how often the rows of connections are renewed.
	renewEvery = 10 * time.Second
	// storeTime bounds one use of the database.
	storeTime = 5 * time.Second
	// stopTime is how long requests may run when the process stops.
	stopTime = 5 * time.Second
)

// Store has tunnels.
type Store interface {
	ServedTunnels(ctx context.Context, since int64) ([]tunnels.ServedTunnel, int64, error)
	SettleTunnel(ctx context.Context, id string) (open bool, err error)
	ConnectTunnel(ctx context.Context, hashes [][]byte, c domain.TunnelConnection) (tunnels.Connection, error)
	TunnelTokens(ctx context.Context, hashes [][]byte) (map[string]time.Time, error)
	RenewConnections(ctx context.Context, ids []string) error
	EndConnection(ctx context.Context, id string) error
	AnswerConfiguration(ctx context.Context, connection, operation, refused string) error
}

// Bus connects gateways with each other.
type Bus interface {
	follow.Bus

	Announce(subject string, body []byte)
	SendPart(p bus.Part) error
	TakeParts(subject, group string, handle func(bus.Part)) (stop func(), err error)
}

// Hasher returns the hashes by which a token is found.
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

// Tunnels knows all tunnels, and has the connections of agents to this process.
type Tunnels struct {
	options  Options
	metrics  *metrics
	nudges   signal.Signal
	lookUps  chan struct{} // room for each token that is being looked up
	work     sync.WaitGroup
	answers  *answers
	inFlight inFlight

	place follow.Place // used by Run

	mu   sync.RWMutex // guards the fields below
	byID map[string]*tunnelOf
	// services are by account and name.
	services map[serviceKey]service
	closed   bool

	// Callers without a token can make this lock busy, so requests don't wait for it.
	openingMu sync.Mutex
	opening   map[string]*rate.Limiter // by the hash of a token
}

type serviceKey struct{ account, name string }

// service is a service behind a tunnel.
type service struct {
	tunnel  string
	service domain.TunnelService
}

// tunnelOf is a tunnel, as this process knows it.
type tunnelOf struct {
	served      tunnels.ServedTunnel
	known       bool // served comes from the list, and not only from a new connection
	connections []*connection
	unlisten    func() // stops answering other gateways; nil if it doesn't answer them
}

// New returns Tunnels that know of none before Run.
func New(o Options) *Tunnels {
	t := &Tunnels{
		options: o, nudges: signal.New(), lookUps: make(chan struct{}, maxLookUps),
		byID: make(map[string]*tunnelOf), services: make(map[serviceKey]service), opening: make(map[string]*rate.Limiter),
	}
	t.answers = &answers{bus: o.Bus, prefix: bus.NewAnswers(), waiting: make(map[string]chan bus.Part)}
	t.inFlight.running, t.inFlight.accounts = make(map[string]context.CancelFunc), make(map[string]int)
	t.metrics = newMetrics(o.Registerer, t)
	return t
}

// nudge makes Run read changes at once.
func (t *Tunnels) nudge() { t.nudges.Give() }

// Run applies changes until ctx ends. Then it ends all connections.
func (t *Tunnels) Run(ctx context.Context) error {
	defer t.close()
	reconnects, stop := t.options.Bus.Reconnects()
	defer stop()
	unlisten, err := t.options.Bus.Listen(bus.SubjectGateway, func([]byte) { t.nudge() })
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
	poll, settle, renew := time.NewTicker(follow.Every), time.NewTicker(settleEvery), time.NewTicker(renewEvery)
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
			t.endDone(ctx, true)
		case <-settle.C:
			t.endDone(ctx, false)
		case <-renew.C:
			t.renew(ctx)
		}
	}
}

// close ends all connections. Running requests have stopTime to end.
func (t *Tunnels) close() {
	t.mu.Lock()
	t.closed = true
	connections := t.connections()
	t.mu.Unlock()
	for _, c := range connections {
		c.leave(closing{reason: "the gateway stops", drain: stopTime})
	}
	t.work.Wait()
}

// connections returns the connections of this process. t.mu is held.
func (t *Tunnels) connections() []*connection {
	var list []*connection
	for _, one := range t.byID {
		list = append(list, one.connections...)
	}
	return list
}

// renew stores that the connections are still open.
func (t *Tunnels) renew(ctx context.Context) {
	t.mu.RLock()
	connections := t.connections()
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

// announceChange tells all gateways to read changes.
func (t *Tunnels) announceChange() { t.options.Bus.Announce(bus.SubjectGateway, nil) }
