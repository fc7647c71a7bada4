package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/sink"
	"waybill.dev/cmd/lab/internal/stack"
	"waybill.dev/shared/domain"
)

// The load on webhooks that get events in order.
const (
	orderAccounts    = 5 // with a webhook each, which get the events in turn
	orderShipments   = 500
	orderDispatchers = 3
	orderTimeout     = 1   // second
	neverOneIn       = 997 // events are never taken
)

// orderSchedule is tried to its end for events that are never taken, and for no others.
func orderSchedule() []float64 { return []float64{1, 1, 2, 2} }

// neverTaken tells of an event whose attempts all fail.
func neverTaken(id string) bool { return numberOf(id)%neverOneIn == 5 }

// mixed numbers an event so that each shipment has events of all kinds. A shipment whose events all fail would take as long
// as all their attempts and waits.
func mixed(id string) int64 {
	n := numberOf(id)
	return n + n/orderShipments
}

// badAttempts is how many attempts of an event fail: of a hundred events eight fail once and two
// twice, which is a tenth of all attempts.
func badAttempts(id string) int {
	switch n := mixed(id) * 31 % 100; {
	case neverTaken(id):
		return 1 << 20
	case n < 2:
		return 2
	case n < 10:
		return 1
	}
	return 0
}

func shipmentOf(n int64) int64 { return n % orderShipments }

// accountOf is the number of the account whose event this is.
func accountOf(id string) int64 { return numberOf(id) % orderAccounts }

// inOrder is a field whose receivers get the events of each shipment in order.
type inOrder struct {
	*field
	seen   map[string]*sequences    // by webhook
	apis   map[string]*stack.Client // of its account, by webhook
	owners int                      // of the killed dispatchers kept the order
}

func (b *bench) inOrder(ctx context.Context, ordering string) (*inOrder, error) {
	f, err := b.bare(ctx, split, stack.Options{Dispatchers: orderDispatchers})
	if err != nil {
		return nil, err
	}
	d := &inOrder{field: f, seen: make(map[string]*sequences), apis: make(map[string]*stack.Client)}
	f.load.shipmentOf = shipmentOf
	numbers := make(map[string]int64) // of accounts, by webhook
	f.takes = func(r receiver, id string) bool { return numbers[r.hook.ID] == accountOf(id) && !neverTaken(id) }
	for i := range orderAccounts {
		r, err := d.open(ctx, fmt.Sprintf("ordered-%d", i), ordering)
		if err != nil {
			_ = f.stack.Close()
			return nil, err
		}
		numbers[r.hook.ID] = int64(i)
	}
	within, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := f.stack.AwaitDispatchers(within, "waybill_webhooks", orderAccounts); err != nil {
		_ = f.stack.Close()
		return nil, err
	}
	return d, nil
}

// open makes an account with a webhook that gets its events in order.
func (d *inOrder) open(ctx context.Context, name, ordering string) (receiver, error) {
	api, key, err := d.api.NewAccount(ctx, name)
	if err != nil {
		return receiver{}, fmt.Errorf("make account %s: %w", name, err)
	}
	r, err := d.registerAs(ctx, api, name, client.Webhook{
		MaxInFlight: 256, Events: domain.EventTypes(), Ordering: ordering, TimeoutSeconds: orderTimeout, RetryScheduleSeconds: orderSchedule(),
	})
	if err != nil {
		return receiver{}, err
	}
	s := newSequences(neverTaken)
	r.Behave(func(p sink.Post) sink.Answer {
		answer := sink.Answer{}
		if p.OfID <= badAttempts(p.ID) {
			answer.Hang = mixed(p.ID)%4 == 0
			answer.Status = http.StatusInternalServerError
		}
		sequence, _ := strconv.ParseInt(p.Header.Get("Waybill-Sequence"), 10, 64)
		s.post(p.ID, shipmentOf(numberOf(p.ID)), sequence, p.Header.Get("Waybill-Gap") == "1", answer.Status == 0)
		return answer
	})
	d.seen[r.hook.ID], d.apis[r.hook.ID] = s, api
	d.steady, d.load.accounts = append(d.steady, r), append(d.load.accounts, account{name, key})
	return r, nil
}

// orderKept kills dispatchers while events of many shipments go to webhooks that get them in order,
// and that fail a tenth of all attempts.
func orderKept(ctx context.Context, b *bench) error {
	d, err := b.inOrder(ctx, "shipment")
	if err != nil {
		return err
	}
	defer d.close()
	d.load.start(ctx, b.rate, b.busRate)
	if err := d.killDispatchers(ctx); err != nil {
		return err
	}
	d.report.figure("of the killed, keepers of the order", float64(d.owners))
	d.report.must(d.owners > 0, "no killed dispatcher kept the order")
	return d.end(ctx)
}

// orderControl is the same without order: events must overtake each other, or the other one proves
// nothing.
func orderControl(ctx context.Context, b *bench) error {
	d, err := b.inOrder(ctx, "none")
	if err != nil {
		return err
	}
	defer d.close()
	d.load.start(ctx, b.rate, b.busRate)
	if err := wait(ctx, 15*time.Second, 16*time.Second); err != nil {
		return err
	}
	if err := d.arrive(ctx); err != nil {
		return err
	}
	overtaken := d.overtaken()
	d.report.figure(figureOvertaken, float64(overtaken))
	d.report.must(overtaken > 0, "no event has overtaken another one without order")
	return nil
}

const figureOvertaken = "events that overtook one of their shipment"

// killDispatchers kills a dispatcher in each round and starts it again. In every second round it is the
// dispatcher that keeps the order.
func (d *inOrder) killDispatchers(ctx context.Context) error {
	for round := range d.rounds {
		if err := wait(ctx, 1500*time.Millisecond, 4*time.Second); err != nil {
			return err
		}
		owner, err := d.owner(ctx)
		if err != nil {
			return fmt.Errorf("round %d: %w", round+1, err)
		}
		p := d.stack.Dispatchers[round/2%len(d.stack.Dispatchers)]
		if round%2 == 0 && owner != nil {
			p = owner
		}
		if p == owner {
			d.owners++
		}
		err = d.broken(func() error {
			if err := p.Kill(); err != nil {
				return err
			}
			if err := wait(ctx, 0, time.Second); err != nil {
				return err
			}
			return p.Start(ctx)
		})
		if err != nil {
			return fmt.Errorf("round %d: %w", round+1, err)
		}
		if err := d.stack.Died(); err != nil {
			return fmt.Errorf("round %d: killing %s took another with it: %w", round+1, p.Name, err)
		}
	}
	d.report.figure(figureRounds, float64(d.rounds))
	return nil
}

// owner is the dispatcher that keeps the order; nil: none does now.
func (d *inOrder) owner(ctx context.Context) (*stack.Process, error) {
	for _, p := range d.stack.Dispatchers {
		waiting, err := d.stack.Metric(ctx, p.Name, "waybill_order_waiting")
		if err != nil || waiting > 0 {
			return p, err
		}
	}
	return nil, nil
}

// arrive ends the load and waits for all that was accepted.
func (d *inOrder) arrive(ctx context.Context) error {
	if err := wait(ctx, 2*time.Second, 3*time.Second); err != nil {
		return err
	}
	ending, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := d.load.end(ending); err != nil {
		return err
	}
	started := time.Now()
	rest, bus := d.load.restAccepted(), d.load.busAcked()
	all := slices.AppendSeq(slices.Collect(maps.Keys(rest)), maps.Keys(bus))
	if err := d.awaitArrival(ctx, all); err != nil {
		return err
	}
	d.report.figure(figureREST, float64(len(rest)))
	d.judgeLoss(figureLostREST, rest)
	if len(bus) > 0 {
		d.report.figure(figureBus, float64(len(bus)))
		d.judgeLoss(figureLostBus, bus)
	}
	d.report.figure("seconds until all had arrived", time.Since(started).Seconds())
	return nil
}

// end waits until all has ended and judges.
func (d *inOrder) end(ctx context.Context) error {
	if err := d.arrive(ctx); err != nil {
		return err
	}
	posts, bad, gaps, wrong := 0, 0, 0, 0
	for _, s := range d.seen {
		s.mu.Lock()
		posts, bad, gaps, wrong = posts+s.posts, bad+s.bad, gaps+s.gaps, wrong+s.wrong
		for _, fault := range s.faults {
			d.report.fail("%s", fault)
		}
		s.mu.Unlock()
	}
	overtaken := d.overtaken()
	d.report.figure("POSTs seen", float64(posts))
	d.report.figure("of these failed, per cent", 100*float64(bad)/float64(max(1, posts)))
	d.report.figure("POSTs out of order", float64(wrong))
	d.report.figure(figureOvertaken, float64(overtaken))
	d.report.figure("gaps, each with its mark", float64(gaps))
	d.report.must(wrong == 0, "%d POSTs are out of order", wrong)
	d.report.must(overtaken == 0, "%d events came before one of their shipment that was accepted before they were sent", overtaken)
	for _, r := range d.receivers() {
		n, first := r.Faults()
		d.report.must(n == 0, "%s got %d wrong callbacks: %q", r.URL, n, first)
	}
	return d.judgeSequences(ctx)
}

// overtaken counts the events that a receiver took before another one of their shipment that had been
// accepted on the same way before they were sent.
func (d *inOrder) overtaken() (n int) {
	for _, times := range [][2]map[string]time.Time{{d.load.firstSent(), d.load.restAccepted()}, {d.load.busSent(), d.load.busAcked()}} {
		sent, accepted := times[0], times[1]
		lines := shipments(sent, accepted)
		for _, s := range d.seen {
			s.mu.Lock()
			at := make(map[string]int, len(s.taken))
			for i, id := range slices.Backward(s.taken) {
				at[id] = i
			}
			s.mu.Unlock()
			for _, line := range lines {
				for i := 1; i < len(line); i++ {
					before, after := line[i-1], line[i]
					if accepted[before].Before(sent[after]) && at[after] < at[before] {
						n++
					}
				}
			}
		}
	}
	return n
}

// shipments are the accepted events of each shipment, as they were sent.
func shipments(sent, accepted map[string]time.Time) map[int64][]string {
	lines := make(map[int64][]string)
	for id := range accepted {
		if !neverTaken(id) {
			shipment := shipmentOf(numberOf(id))
			lines[shipment] = append(lines[shipment], id)
		}
	}
	for _, line := range lines {
		slices.SortFunc(line, func(a, b string) int { return sent[a].Compare(sent[b]) })
	}
	return lines
}

// judgeSequences compares the delivery log with what came: each event is delivered or given up as it
// was meant to be, with the number that its receiver saw.
func (d *inOrder) judgeSequences(ctx context.Context) error {
	open, other, example, err := d.compareLog(ctx)
	d.report.must(open+other == 0, "the log has %d deliveries of another status and %d of another number, such as %s", open, other, example)
	return err
}

// compareLog counts the deliveries in the log that are not as they should be, and those of another number
// than the one that came.
func (d *inOrder) compareLog(ctx context.Context) (open, other int, example string, err error) {
	for deadline := time.Now().Add(finishTime); ; {
		open, other = 0, 0
		for _, r := range d.receivers() {
			numbers := d.seen[r.hook.ID].numbers
			err := patiently(ctx, func() error {
				return d.apis[r.hook.ID].Deliveries(ctx, url.Values{"webhookId": {r.hook.ID}}, func(l client.Delivery) {
					want := domain.StatusDelivered
					if neverTaken(l.EventID) {
						want = domain.StatusFailed
					}
					switch {
					case l.Status != want:
						open++
						example = fmt.Sprintf("%s is %s after %d attempts, with sequence %d", l.EventID, l.Status, l.AttemptCount, l.Sequence)
					case l.Sequence != numbers[l.EventID]:
						other++
						example = fmt.Sprintf("%s has sequence %d, and came with %d", l.EventID, l.Sequence, numbers[l.EventID])
					}
				})
			})
			if err != nil {
				return open, other, example, fmt.Errorf("read the delivery log: %w", err)
			}
		}
		if open+other == 0 || time.Now().After(deadline) {
			break
		}
		if err := wait(ctx, time.Second, 2*time.Second); err != nil {
			return open, other, example, err
		}
	}
	d.report.figure("deliveries that are not as they should be", float64(open))
	d.report.figure("of another number than in the log", float64(other))
	return open, other, example, nil
}
