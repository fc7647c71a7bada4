package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/load"
	"waybill.dev/cmd/lab/internal/meter"
	"waybill.dev/cmd/lab/internal/stack"
	"waybill.dev/shared/domain"
)

// rig is a running Waybill with a receiver and a publisher beside it.
type rig struct {
	*bench
	form  string
	stack *stack.Stack
	api   *stack.Client
	next  int64 // number of the next event
}

// open starts a form of Waybill.
func (b *bench) open(ctx context.Context, name, form string, dispatchers int) (*rig, error) {
	return b.openWith(ctx, form, stack.Options{
		Name: name + "-" + form, Dispatchers: dispatchers,
		PostgresSettings: strings.FieldsFunc(b.postgres, func(r rune) bool { return r == ',' }),
	})
}

func (b *bench) openWith(ctx context.Context, form string, o stack.Options) (*rig, error) {
	start := b.site.Split
	if form == formAllInOne {
		start = b.site.AllInOne
	}
	st, err := start(ctx, o)
	if err != nil {
		return nil, err
	}
	return &rig{bench: b, form: form, stack: st, api: st.Client()}, nil
}

func (r *rig) close() error {
	died := r.stack.Died()
	r.api.Close()
	return errors.Join(died, r.stack.Close())
}

// own are the processes of Waybill with what it stands on.
func (r *rig) own() []meter.Group {
	if r.form == formAllInOne {
		return []meter.Group{{Name: "waybill", Pid: r.stack.Waybill.Pid()}}
	}
	var list []meter.Group
	add := func(name string, processes ...*stack.Process) {
		for _, p := range processes {
			list = append(list, meter.Group{Name: name, Pid: p.Pid()})
		}
	}
	add("api", r.stack.APIs...)
	add("dispatcher", r.stack.Dispatchers...)
	add(throughGateway, r.stack.Gateways...)
	add("nats", r.stack.NATS...)
	return append(list, meter.Group{Name: "postgres", Pid: r.stack.Postgres.Pid()})
}

// all are those with publisher and receiver.
func (r *rig) all() []meter.Group {
	return append(r.own(),
		meter.Group{Name: load.KindPublisher, Pid: r.publisher.Pid()},
		meter.Group{Name: load.KindReceiver, Pid: r.receiver.Pid()})
}

// numbers reserves the numbers of so many events and returns the first.
func (r *rig) numbers(events int) int64 {
	first := r.next
	r.next += int64(events)
	return first
}

// job completes a job for this stack.
func (r *rig) job(j load.Job) load.Job {
	j.Address, j.NATSURL = strings.TrimPrefix(r.stack.URL, "http://"), r.stack.NATSURL
	if len(j.Keys) == 0 {
		j.Keys = []string{r.stack.Key}
	}
	j.Type = cmp.Or(j.Type, domain.ShipmentInTransit)
	j.Size = cmp.Or(j.Size, r.size)
	j.Batch, j.Pending = batchEvents, busPending
	return j
}

// hooks are registered webhooks; each has an endpoint of its own, from the first on.
type hooks struct {
	first   int
	ids     []string
	secrets map[int]string // by endpoint
}

// registering is how many webhooks are registered at the same time.
const registering = 16

// register registers n webhooks for a type, at the endpoints from first on, as w has it.
func (r *rig) register(ctx context.Context, api *stack.Client, first, n int, kind domain.EventType, w client.Webhook) (hooks, error) {
	h := hooks{first: first, ids: make([]string, n), secrets: make(map[int]string, n)}
	w.Events = []domain.EventType{kind}
	var mu sync.Mutex
	err := each(ctx, n, func(ctx context.Context, i int) error {
		one := w
		one.URL = fmt.Sprintf("http://%s/%d", r.address, first+i)
		made, err := api.Register(ctx, one)
		if err != nil {
			return fmt.Errorf("register a webhook: %w", err)
		}
		mu.Lock()
		defer mu.Unlock()
		h.ids[i], h.secrets[first+i] = made.ID, made.Secret
		return nil
	})
	return h, err
}

// remove deletes webhooks.
func (r *rig) remove(ctx context.Context, h hooks) error {
	return each(ctx, len(h.ids), func(ctx context.Context, i int) error { return r.api.Delete(ctx, h.ids[i]) })
}

// each calls do for the numbers below n, several at the same time, until one fails.
func each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	numbers := make(chan int)
	var workers sync.WaitGroup
	for range min(n, registering) {
		workers.Go(func() {
			for i := range numbers {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range n {
		select {
		case numbers <- i:
		case <-ctx.Done():
		}
	}
	close(numbers)
	workers.Wait()
	return context.Cause(ctx)
}
