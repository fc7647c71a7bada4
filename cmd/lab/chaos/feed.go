package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/stack"
	"waybill.dev/shared/domain"
)

// The load on feeds.
const (
	feedPublishers = 32
	feedOnBus      = 4  // of these publish on NATS
	feedBatch      = 50 // events in a request at most
	feedRound      = 20_000
	feedWait       = 10 * time.Second // that one request waits for events
	feedPage       = 500
)

// fed is a webhook that is pulled, beside one of the same types that is pushed.
type fed struct {
	*field
	pull   client.Webhook
	rounds int

	mu    sync.Mutex
	lines [][]string // ids, as one publisher after the other had them accepted over REST
}

// feedComplete publishes from many at once, kills the API, and follows a feed through all of
// it: it must have each event once, in the order of commits.
func feedComplete(ctx context.Context, b *bench) error {
	f, err := b.bare(ctx, split, stack.Options{})
	if err != nil {
		return err
	}
	defer f.close()
	d := &fed{field: f, rounds: max(1, b.rounds/4)}
	if err := d.register(ctx); err != nil {
		return err
	}
	f.load.start(ctx, 0, 0)
	reading, stop := context.WithCancel(ctx)
	defer stop()
	r := newFollower(f.stack.Client(), d.pull.ID, "warehouse", feedPage)
	defer r.api.Close()
	published := make(chan struct{})
	var following errgroup.Group
	following.Go(func() error {
		d.follow(reading, r, published)
		return nil
	})
	err = d.publish(ctx)
	close(published)
	if err != nil {
		return err
	}
	_ = following.Wait()
	d.judge(r)
	if err := d.readAgain(ctx, r.ids); err != nil {
		return err
	}
	if err := f.finish(ctx); err != nil {
		return err
	}
	return d.reconcile(ctx)
}

func (d *fed) register(ctx context.Context) error {
	var err error
	d.pull, err = d.api.Register(ctx, client.Webhook{Events: domain.EventTypes(), Delivery: "pull"})
	if err != nil {
		return fmt.Errorf("register a webhook to pull: %w", err)
	}
	pushed, err := d.field.register(ctx, "pushed", client.Webhook{MaxInFlight: 256, Events: domain.EventTypes()})
	if err != nil {
		return err
	}
	d.steady = []receiver{pushed}
	// An event on NATS does not wait for a webhook that was registered just before it.
	within, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return d.stack.AwaitDispatchers(within, "waybill_webhooks", 2)
}

// publish has all events published while the API is killed after each share of them.
func (d *fed) publish(ctx context.Context) error {
	total := int64(d.rounds * feedRound)
	var group errgroup.Group
	for i := range feedPublishers {
		group.Go(func() error {
			d.publisher(ctx, i, total)
			return ctx.Err()
		})
	}
	for round := range d.rounds {
		// The last events are published after the last kill.
		after := total * int64(round+1) / int64(d.rounds+1)
		for d.load.number.Load() < after {
			if err := wait(ctx, 10*time.Millisecond, 50*time.Millisecond); err != nil {
				return err
			}
		}
		err := d.broken(func() error {
			if err := d.stack.APIs[0].Kill(); err != nil {
				return err
			}
			if err := wait(ctx, 0, time.Second); err != nil {
				return err
			}
			return d.stack.APIs[0].Start(ctx)
		})
		if err != nil {
			return fmt.Errorf("round %d: %w", round+1, err)
		}
	}
	d.report.figure(figureRounds, float64(d.rounds))
	return group.Wait()
}

// publisher publishes one request after the other, until all publishers together have published
// the total.
func (d *fed) publisher(ctx context.Context, i int, total int64) {
	var line []string
	for ctx.Err() == nil && d.load.number.Load() < total {
		switch {
		case i < feedOnBus:
			d.load.busOne(ctx, d.load.next())
			continue
		case i%2 == 0:
			e := d.load.next()
			d.load.postOne(ctx, e)
			line = append(line, e.id)
			continue
		}
		batch := make([]event, 2+rand.IntN(feedBatch-1))
		for j := range batch {
			batch[j] = d.load.next()
			line = append(line, batch[j].id)
		}
		d.load.postBatch(ctx, batch)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

// follow reads until all that was published is there, and nothing more comes, or nothing has come
// for long.
func (d *fed) follow(ctx context.Context, r *follower, published <-chan struct{}) {
	progress, most := time.Now(), 0
	for ctx.Err() == nil {
		r.step(ctx, feedWait)
		if r.read > most {
			progress, most = time.Now(), r.read
		}
		select {
		case <-published:
		default:
			continue
		}
		ended := r.done && most >= len(d.load.restAccepted())+len(d.load.busAcked())
		if ended && time.Since(progress) > feedWait/2 || time.Since(progress) > finishTime/2 {
			return
		}
	}
}

// judge compares what was read with what was accepted.
func (d *fed) judge(r *follower) {
	times := make(map[string]int, len(r.ids))
	for i, id := range r.ids {
		if first, twice := times[id]; twice {
			d.report.fail("%s is event %d and event %d of the feed", id, first, i)
		}
		times[id] = i
	}
	var missed []string
	for id := range d.accepted() {
		if _, ok := times[id]; !ok {
			missed = append(missed, id)
		}
	}
	slices.Sort(missed)
	for i, id := range missed[:min(shown, len(missed))] {
		d.report.fail("%s was accepted and is not in the feed (%d of %d)", id, i+1, len(missed))
	}
	strange := len(r.ids) - (len(d.accepted()) - len(missed))
	swapped := 0
	for _, line := range d.lines {
		for i := 1; i < len(line); i++ {
			before, first := times[line[i-1]]
			after, second := times[line[i]]
			if first && second && after < before {
				swapped++
			}
		}
	}
	d.report.figure("events in the feed", float64(len(r.ids)))
	d.report.figure("of these missed", float64(len(missed)))
	d.report.figure("of these twice, or never accepted", float64(strange))
	d.report.figure("of these before one that was committed first", float64(swapped))
	d.report.figure("pages read", float64(r.pages))
	d.report.figure("reads and cursors that failed", float64(r.failures))
	d.report.figure("events read again after a failure", float64(r.again))
	d.report.must(strange == 0, "the feed has %d events too many", strange)
	d.report.must(swapped == 0, "%d events are in the feed before one that the same publisher had accepted before", swapped)
	for _, fault := range r.faults {
		d.report.fail("%s", fault)
	}
}

// accepted are the events of both ways.
func (d *fed) accepted() map[string]time.Time {
	all := d.load.restAccepted()
	maps.Copy(all, d.load.busAcked())
	return all
}

// readAgain reads the feed from its beginning, in other pages: it must be the same.
func (d *fed) readAgain(ctx context.Context, ids []string) error {
	r := newFollower(d.api, d.pull.ID, "again", 2*feedPage)
	for !r.done && len(r.faults) == 0 && ctx.Err() == nil {
		r.step(ctx, 0)
	}
	for _, fault := range r.faults {
		d.report.fail("read again: %s", fault)
	}
	d.report.must(slices.Equal(r.ids, ids), "the feed has %d events when it is read again, and had %d, or others", len(r.ids), len(ids))
	sent := 0
	err := d.api.Deliveries(ctx, url.Values{"webhookId": {d.pull.ID}}, func(client.Delivery) { sent++ })
	d.report.must(sent == 0, "a webhook that is pulled has %d deliveries", sent)
	return err
}

// reconcile has the command compare what the pushed receiver has with its feed, first all, then all but
// one: it must find that one.
func (d *fed) reconcile(ctx context.Context) error {
	var ids []string
	for id, receipt := range d.steady[0].Receipts() {
		if receipt.Accepted > 0 {
			ids = append(ids, id)
		}
	}
	missing, err := d.compare(ctx, ids)
	if err != nil {
		return err
	}
	d.report.figure("events that the pushed receiver misses", float64(len(missing)))
	d.report.must(len(missing) == 0, "waybill webhooks reconcile finds %q…", missing[:min(shown, len(missing))])
	missing, err = d.compare(ctx, ids[1:])
	if err != nil {
		return err
	}
	want := []string{"missing " + ids[0]}
	d.report.must(slices.Equal(missing, want), "without one event, waybill webhooks reconcile finds %q, want %q", missing[:min(shown, len(missing))], want)
	return nil
}

// compare returns what the command tells apart, each as "state id".
func (d *fed) compare(ctx context.Context, ids []string) (differ []string, err error) {
	cmd := exec.CommandContext(ctx, d.site.Binary(), "webhooks", "reconcile", d.steady[0].hook.ID,
		"--server", d.stack.URL, "--against", "-", "-o", "json")
	cmd.Env = append(os.Environ(), "WAYBILL_KEY="+d.stack.Key)
	cmd.Stdin = strings.NewReader(strings.Join(ids, "\n"))
	var told, notes bytes.Buffer
	cmd.Stdout, cmd.Stderr = &told, &notes
	if err := cmd.Run(); err != nil {
		if _, exits := errors.AsType[*exec.ExitError](err); !exits || told.Len() == 0 {
			return nil, fmt.Errorf("waybill webhooks reconcile: %w: %s", err, notes.String())
		}
	}
	for line := range strings.Lines(told.String()) {
		var one struct{ ID, State string }
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			return nil, fmt.Errorf("read what waybill webhooks reconcile tells: %w", err)
		}
		differ = append(differ, one.State+" "+one.ID)
	}
	return differ, nil
}
