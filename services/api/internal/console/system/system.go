// Package system has the console's pages for the operator: the process with the database, bus and
// dispatchers that it works with, and the routes that it serves. They show the state of the
// process, and change nothing. They are for the admin keys of the account default, which is the
// operator's: nothing here belongs to a single account.
package system

import (
	"context"
	"embed"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/health"
	"waybill.dev/services/api/internal/kernel/audit"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

//go:embed templates/*.html
var files embed.FS

// Process is the description of a process for operators.
type Process struct {
	Version  string
	Started  time.Time
	Settings []Setting
}

// Setting is a setting of the process; Value has nothing that is secret.
type Setting struct{ Name, Value, Source string }

// Parts returns the parts between which a long value may be broken.
func (s Setting) Parts() []string { return strings.SplitAfter(s.Value, ",") }

// Store is the database.
type Store interface {
	Ping(ctx context.Context) error
	SQLite() bool
	MigrationStatus(ctx context.Context) ([]store.Migration, error)
}

// Bus is the bus.
type Bus interface {
	Ready() error
	Missing() *bus.NoRoomError
	Stream(name string) *bus.Stream
}

// Options of the pages. Without options, the pages are empty.
type Options struct {
	Process     Process
	Store       Store
	Bus         Bus
	Dispatchers *Dispatchers
	RouteState  func() RouteState
	Metrics     prometheus.Gatherer // metrics of the process; nil: none
}

const (
	systemPath = "/console/system"
	routesPath = "/console/routes"
)

// Module returns the pages.
func Module(o Options) console.Module {
	return console.Module{
		Name: "system", Templates: files,
		Nav: []console.NavEntry{
			{Label: "Routes", Path: routesPath, Icon: "routes", Order: console.OrderRoutes, Key: "r", Operator: true},
			{Label: "System", Path: systemPath, Icon: "system", Order: console.OrderSystem, Key: "y", Operator: true},
		},
		Routes: []console.Route{
			{Method: http.MethodGet, Path: systemPath, Handle: o.showSystem},
			{Method: http.MethodGet, Path: routesPath, Handle: o.showRoutes},
		},
	}
}

// changes reads the latest audit entries of the operator's account. Only a session that may read
// them may see these pages, so the API decides.
func changes(p *console.Page) ([]audit.Entry, error) {
	var answer audit.List[audit.Entry]
	err := p.API.Get(console.Path("v1", "accounts", domain.DefaultAccount, "audit-logs"), url.Values{"limit": {"5"}}, &answer)
	return answer.Data, err
}

// Pending returns how many migrations are not applied.
func (v systemView) Pending() (n int) {
	for _, m := range v.Migrations {
		if !m.Applied {
			n++
		}
	}
	return n
}

type systemView struct {
	Process     Process
	Ready       bool
	NotReady    *console.Problem
	Health      health.Health
	Database    string
	Ping        string // how long the database took to answer; empty: no answer
	NoDatabase  bool
	Migrations  []store.Migration
	Leader      bool
	KnowsLeader bool
	Unsettled   time.Duration
	Dispatchers []dispatcher
	Live        int
	Streams     []stream
	Backlog     []backlog
	Changes     []audit.Entry
	Memory      string // empty: not known
	Connections float64
	Now         time.Time
}

type stream struct {
	Name, About    string
	Messages       uint64
	Size           string // on disk
	Oldest         time.Time
	Consumer       string // empty: it has no consumer of its own
	Pending        uint64
	Unacknowledged int
	Problem        bool
}

type backlog struct {
	Kind    string
	Waiting float64
}

const (
	// busTime and storeTime bound the questions of the page to bus and store.
	busTime   = 2 * time.Second
	storeTime = time.Second
)

func (o *Options) showSystem(p *console.Page) error {
	v := systemView{Process: o.Process, Now: p.Now()}
	v.NotReady = p.API.Try("/readyz", nil, &v.Health)
	v.Ready = v.NotReady == nil
	p.CLI("health")
	var err error
	if v.Changes, err = changes(p); err != nil {
		// If the database is down, the page is shown to sessions that were let in up to a minute
		// ago.
		failed, ok := errors.AsType[*console.Problem](err)
		if !ok || failed.Status != http.StatusServiceUnavailable || !p.Operates() {
			return err
		}
		v.NoDatabase = true
	}
	o.look(p.Context(), &v)
	return p.Show("system.html", "System", v)
}

// look asks database, bus and metrics.
func (o *Options) look(ctx context.Context, v *systemView) {
	if o.Store != nil {
		v.Database = "Postgres"
		if o.Store.SQLite() {
			v.Database = "SQLite"
		}
		asking, cancel := context.WithTimeout(ctx, storeTime)
		defer cancel()
		begun := time.Now()
		if err := o.Store.Ping(asking); err != nil {
			v.NoDatabase = true
		} else {
			v.Ping = "< 1 ms"
			if took := time.Since(begun); took >= time.Millisecond {
				v.Ping = took.Round(time.Millisecond).String()
			}
			v.Migrations, _ = o.Store.MigrationStatus(asking) // on an error none are shown
		}
	}
	if o.Bus != nil {
		v.Health.Bus = "up"
		if o.Bus.Ready() != nil {
			v.Health.Bus = "down"
		} else if missing := o.Bus.Missing(); missing != nil {
			v.Health.Bus, v.Health.Missing = "no room", missing.Error()
		}
		v.Streams = o.streams(ctx)
	}
	if o.Dispatchers != nil {
		v.Dispatchers, v.Live = o.Dispatchers.list(time.Now())
	}
	m := gather(o.Metrics)
	leader, known := m.value("waybill_relay_leader")
	v.Leader, v.KnowsLeader = leader == 1, known
	if seconds, ok := m.value("waybill_oldest_unsettled_seconds"); ok && v.Leader {
		v.Unsettled = time.Duration(seconds * float64(time.Second)).Truncate(time.Second)
	}
	for _, kind := range []string{"events", "records", "scheduled", "held"} {
		if n, ok := m.value("waybill_bus_waiting", "kind", kind); ok && v.Leader {
			v.Backlog = append(v.Backlog, backlog{kind, n})
		}
	}
	if resident, ok := m.value("process_resident_memory_bytes"); ok {
		v.Memory = console.FormatBytes(resident)
	}
	v.Connections, _ = m.value("waybill_connections", "server", "HTTP")
}

// streams asks the bus how full its streams are, and how far their consumers.
func (o *Options) streams(ctx context.Context) []stream {
	list := []stream{
		{Name: bus.StreamEvents, About: "events as published", Consumer: bus.ConsumerFanout},
		{Name: bus.StreamRetries, About: "deliveries that wait for their next attempt"},
		{Name: bus.StreamHold, About: "deliveries that are held"},
		{Name: bus.StreamRecords, About: "outcomes on their way to the database", Consumer: bus.ConsumerRecord},
		{Name: bus.StreamRejected, About: "messages that are no events"},
	}
	ctx, cancel := context.WithTimeout(ctx, busTime)
	defer cancel()
	down := o.Bus.Ready() != nil
	for i := range list {
		s := &list[i]
		if down {
			s.Problem = true
			continue
		}
		state, err := o.Bus.Stream(s.Name).State(ctx)
		if err != nil {
			s.Problem = true
			continue
		}
		s.Messages, s.Size, s.Oldest = state.Messages, console.FormatBytes(state.Bytes), state.FirstTime
		if s.Consumer == "" {
			continue
		}
		if c, err := o.Bus.Stream(s.Name).ConsumerState(ctx, s.Consumer); err == nil {
			s.Pending, s.Unacknowledged = c.Pending, c.Unacknowledged
		}
	}
	return list
}
