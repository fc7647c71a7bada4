package system

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"waybill.dev/shared/bus"
)

const (
	// liveTime is how long a dispatcher counts as live after its last heartbeat; heartbeats come
	// once a second.
	liveTime = 5 * time.Second
	// knownTime is how long a silent dispatcher is still shown.
	knownTime = 10 * time.Minute
	// maxKnown bounds how many are remembered.
	maxKnown = 1000
)

// Dispatchers knows the dispatchers of the installation by their heartbeats.
type Dispatchers struct {
	mu   sync.Mutex
	seen map[string]dispatcher
}

// NewDispatchers returns a list that is empty until Run hears of some.
func NewDispatchers() *Dispatchers { return &Dispatchers{seen: make(map[string]dispatcher)} }

// dispatcher is a dispatcher with the data for the page.
type dispatcher struct {
	ID          string
	First, Last time.Time
	Live        bool
}

// Listener receives announcements on the bus.
type Listener interface {
	Listen(subject string, handle func(body []byte)) (stop func(), err error)
}

// Run listens until ctx ends.
func (d *Dispatchers) Run(ctx context.Context, on Listener) error {
	stop, err := on.Listen(bus.SubjectDispatchers, d.heard)
	if err != nil {
		return err
	}
	defer stop()
	<-ctx.Done()
	return nil
}

func (d *Dispatchers) heard(body []byte) {
	var beat struct {
		ID   string `json:"id"`
		Gone bool   `json:"gone"`
	}
	if json.Unmarshal(body, &beat) != nil || beat.ID == "" || len(beat.ID) > 64 {
		return
	}
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok := d.seen[beat.ID]
	switch {
	case beat.Gone:
		delete(d.seen, beat.ID)
		return
	case !ok && len(d.seen) >= maxKnown:
		return
	case !ok:
		known = dispatcher{ID: beat.ID, First: now}
	}
	known.Last = now
	d.seen[beat.ID] = known
}

// list returns the dispatchers heard recently, the oldest first, and how many are live.
func (d *Dispatchers) list(now time.Time) (all []dispatcher, live int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, one := range d.seen {
		silent := now.Sub(one.Last)
		if silent > knownTime {
			delete(d.seen, id)
			continue
		}
		if one.Live = silent <= liveTime; one.Live {
			live++
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b dispatcher) int { return cmp.Or(a.First.Compare(b.First), cmp.Compare(a.ID, b.ID)) })
	return all, live
}
