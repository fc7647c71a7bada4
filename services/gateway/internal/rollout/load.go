package rollout

import (
	"context"
	"errors"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/problem"
)

const (
	// makers is how many tables are made at a time. Making one may take some 40 MB.
	makers = 2
	// makeTime bounds the making of a table, including the wait for its turn.
	makeTime = 15 * time.Second
	// There is no new try for pause after the database was away, and for longPause after a build
	// that this gateway can't serve.
	pause, longPause = time.Second, time.Minute
)

// making is the making of a table. When done is closed, the table is there, or failed is set.
type making struct {
	done   chan struct{}
	build  string
	table  *table
	failed *problem.Problem // nil: no failure
	again  time.Time        // no new try for this build until then
}

// load waits for the table, which the first request for it makes.
func (d *deployment) load(ctx context.Context) (*table, *problem.Problem) {
	for {
		now := d.wanted.Load()
		switch {
		case now.build == "" && now.state == domain.DeploymentBuilding:
			return nil, errBuilds
		case now.build == "":
			return nil, errMissing
		}
		m := d.startMaking()
		select {
		case <-m.done:
		case <-ctx.Done():
			return nil, errNoTable
		}
		if m.failed == nil {
			return m.table, nil
		}
		if d.wanted.Load().build == m.build {
			return nil, m.failed
		}
	}
}

// startMaking starts the making of the wanted build's table, unless it is under way or has just failed. It
// continues after the caller has gone.
func (d *deployment) startMaking() *making {
	d.mu.Lock()
	defer d.mu.Unlock()
	build := d.wanted.Load().build
	if m := d.making; m != nil && m.build == build && (m.again.IsZero() || time.Now().Before(m.again)) {
		return m
	}
	m := &making{done: make(chan struct{}), build: build}
	d.making = m
	d.rollout.making.Go(func() {
		defer close(m.done)
		ctx, cancel := context.WithTimeout(context.Background(), makeTime)
		defer cancel()
		d.endMaking(m, d.swap(ctx, m))
	})
	return m
}

// endMaking notes how the making has ended. When the table can't be made, the one before stays.
func (d *deployment) endMaking(m *making, err error) {
	wait, failed := longPause, errNoTable
	log := d.rollout.options.Logger.With("deployment", d.name, "build", m.build)
	switch {
	case err == nil:
	case errors.Is(err, errFull):
		wait, failed = pause, errNoRoom
		d.rollout.metrics.noRoom.Inc()
	case errors.Is(err, errSuperseded), errors.Is(err, domain.ErrUnavailable), errors.Is(err, domain.ErrNotFound), errors.Is(err, context.DeadlineExceeded):
		wait = pause
		log.Debug("a deployment could not be loaded", "error", err)
	default:
		d.rollout.metrics.refused.Inc()
		log.Error("this gateway can't serve a build; what it served before goes on", "error", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		m.failed, m.again = failed, time.Now().Add(wait)
	} else if d.making == m {
		d.making = nil
	}
}

// errFull reports that memory has no room for a table beside the tables that requests are using.
var errFull = errors.New("there is no room in memory")

// errSuperseded says that the build is not wanted any more.
var errSuperseded = errors.New("another build is wanted")

// enter waits for a place until ctx ends.
func enter(ctx context.Context, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// swap makes the table of the build and replaces the present table.
func (d *deployment) swap(ctx context.Context, m *making) error {
	r := d.rollout
	// The deployments of an account wait for each other before they take a place from other
	// accounts.
	if err := enter(ctx, d.share.making); err != nil {
		return err
	}
	defer func() { <-d.share.making }()
	if err := enter(ctx, r.slots); err != nil {
		return err
	}
	defer func() { <-r.slots }()
	source, err := r.options.Store.Source(ctx, d.name, m.build)
	if err != nil {
		return err
	}
	compiled, err := r.options.Compile(ctx, &source, d.table.Load() == nil)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if d.wanted.Load().build != m.build || r.closed {
		return errSuperseded
	}
	before := d.table.Load()
	if !r.makeRoom(d, before, compiled.Weight()) {
		return errFull
	}
	t := d.newTable(m.build, compiled, before)
	d.table.Store(t)
	d.used.Store(time.Now().UnixNano())
	t.runtime.Upstreams.Keep(compiled.Upstreams())
	if before == nil {
		r.loaded[d] = struct{}{}
		d.share.loaded++
	} else {
		before.use.leave()
	}
	m.table = t
	return nil
}
