package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"waybill.dev/cmd/bench/internal/budget"
	"waybill.dev/shared/pgtest"
)

const (
	// countEvents are published, so few a second that none meets another.
	countEvents = 60
	countRate   = 10
	// leastCount for an event is none: something else happened to be done meanwhile.
	leastCount = 0.02
)

// counts says what is done for one event that comes alone. What is done without an event is measured for as long
// before, and subtracted.
func (t *turner) counts(ctx context.Context) ([]budget.Figure, error) {
	if _, err := t.awaitQuiet(ctx); err != nil {
		return nil, err
	}
	idle, err := t.counted(ctx)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(time.Second * countEvents / countRate)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
	}
	before, err := t.counted(ctx)
	if err != nil {
		return nil, err
	}
	alone := t.job
	alone.Rate, alone.Connections = countRate, 1
	if err := t.publish(ctx, alone, countEvents); err != nil {
		return nil, err
	}
	if _, err := t.awaitQuiet(ctx); err != nil {
		return nil, err
	}
	after, err := t.counted(ctx)
	if err != nil {
		return nil, err
	}
	return perEvent(idle, before, after), nil
}

// count is how often something was done until a time.
type count struct {
	name string
	n    float64
}

// counting is all that was counted at a time.
type counting struct {
	at     time.Time
	counts []count
}

// perEvent are the counts for one event, in the order in which they were made.
func perEvent(idle, before, after counting) []budget.Figure {
	was := func(c counting, name string) float64 {
		for _, one := range c.counts {
			if one.name == name {
				return one.n
			}
		}
		return 0
	}
	longer := after.at.Sub(before.at).Seconds() / before.at.Sub(idle.at).Seconds()
	var list []budget.Figure
	for _, c := range after.counts {
		rest := (was(before, c.name) - was(idle, c.name)) * longer
		if n := (c.n - was(before, c.name) - rest) / countEvents; n >= leastCount {
			list = append(list, newFigure(alone+c.name, n))
		}
	}
	return list
}

// counted asks the bus and the database what was done so far.
func (t *turner) counted(ctx context.Context) (counting, error) {
	c := counting{at: time.Now()}
	if err := t.countMessages(ctx, &c); err != nil {
		return c, err
	}
	if t.stack.Postgres == nil {
		return c, nil
	}
	work, err := pgtest.ReadWork(ctx, t.stack.DatabaseURL)
	c.counts = append(c.counts, count{costTransactions, float64(work.Transactions)})
	return c, err
}

// countMessages counts what streams have stored, and what a nats-server of its own has got.
func (t *turner) countMessages(ctx context.Context, c *counting) error {
	conn, err := nats.Connect(t.stack.NATSURL)
	if err != nil {
		return fmt.Errorf("connect to the bus: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return fmt.Errorf("open JetStream: %w", err)
	}
	streams := js.ListStreams(ctx)
	for info := range streams.Info() {
		c.counts = append(c.counts, count{costStream + info.Config.Name, float64(info.State.LastSeq)})
	}
	if err := streams.Err(); err != nil {
		return fmt.Errorf("list the streams: %w", err)
	}
	if t.stack.NATSMonitor == "" {
		return nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.stack.NATSMonitor+"/varz", http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask nats-server: %w", err)
	}
	defer response.Body.Close()
	var server struct {
		In      float64 `json:"in_msgs"`
		InBytes float64 `json:"in_bytes"`
	}
	if err := json.NewDecoder(response.Body).Decode(&server); err != nil {
		return fmt.Errorf("ask nats-server: %w", err)
	}
	c.counts = append(c.counts, count{"messages to nats-server", server.In}, count{costIn, server.InBytes})
	return nil
}
