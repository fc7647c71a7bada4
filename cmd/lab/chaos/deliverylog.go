package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/shared/domain"
)

// deliveryLog is what the delivery log tells in sum.
type deliveryLog struct {
	recorded              map[string]int                 // attempts, by webhook
	attempted             map[string]map[string]struct{} // events with an attempt, by webhook
	sum, open, deliveries int
	examples              []string // of what is open
}

// note counts a delivery that is open, and keeps what says why.
func (l *deliveryLog) note(r receiver, d *client.Delivery) {
	l.open++
	if len(l.examples) == shown {
		return
	}
	text := fmt.Sprintf("%s to %s is %s after %d attempts", d.EventID, strings.TrimPrefix(r.URL, "http://"), d.Status, d.AttemptCount)
	if d.Reason != nil {
		text += ", " + *d.Reason
	}
	if !d.NextAttemptAt.IsZero() {
		text += ", due at " + d.NextAttemptAt.Format(clock)
	}
	receipt := r.Receipts()[d.EventID]
	l.examples = append(l.examples, fmt.Sprintf("%s (%s); it was POSTed %d times, the last time at %s", text, d.ID, receipt.Posts, receipt.Last.Format(clock)))
}

// readLog reads the delivery log of all receivers.
func (f *field) readLog(ctx context.Context) (log deliveryLog, err error) {
	err = patiently(ctx, func() error {
		log = deliveryLog{recorded: make(map[string]int), attempted: make(map[string]map[string]struct{})}
		for _, r := range f.receivers() {
			attempted := make(map[string]struct{})
			log.attempted[r.hook.ID] = attempted
			err := f.api.Deliveries(ctx, url.Values{"webhookId": {r.hook.ID}}, func(d client.Delivery) {
				log.deliveries++
				log.sum += d.AttemptCount
				log.recorded[r.hook.ID] += d.AttemptCount
				if d.AttemptCount > 0 {
					attempted[d.EventID] = struct{}{}
				}
				if d.Status != domain.StatusDelivered {
					log.note(r, &d)
				}
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return log, fmt.Errorf("read the delivery log: %w", err)
	}
	return log, nil
}

// judgeLog compares the delivery log with what the receivers saw, when it has caught up.
func (f *field) judgeLog(ctx context.Context) error {
	var log deliveryLog
	sum := 0
	for deadline := time.Now().Add(finishTime); ; {
		var err error
		if log, err = f.readLog(ctx); err != nil {
			return err
		}
		if log.open == 0 && log.sum >= f.posts(f.receivers()...) || time.Now().After(deadline) {
			break
		}
		// What is missing may be on its way; but what a kill has lost never comes, so the
		// log is given up soon after nothing is open any more and nothing more has come.
		if soon := time.Now().Add(10 * time.Second); log.open == 0 && (log.sum > sum || deadline.After(soon)) {
			deadline = soon
		}
		sum = log.sum
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Second):
		}
	}
	unrecorded := f.posts(f.receivers()...) - log.sum
	f.report.figure("POSTs seen", float64(f.posts(f.receivers()...)))
	f.report.figure("attempts recorded", float64(log.sum))
	f.report.figure(figureUnrecorded, float64(unrecorded))
	f.report.figure("deliveries logged", float64(log.deliveries))
	f.report.must(log.open == 0, "%d deliveries are not delivered in the log although all arrived", log.open)
	for _, text := range log.examples {
		f.report.fail("open: %s", text)
	}
	if log.open > 0 {
		f.report.fail("the bus holds %s", f.load.busHolds(ctx))
	}
	f.report.must(unrecorded >= 0, "the log has attempts that no receiver saw")
	// A POST whose record was lost with a process or the bus is followed by another one. Of
	// the flaky receiver that can't be known: the other one may have been due anyway.
	lost, extra := f.goneWithTheBus(log), f.extra()
	if f.has(f.flaky) {
		lost += f.posts(f.flaky) - log.recorded[f.flaky.hook.ID]
	}
	f.report.must(unrecorded-lost <= extra, "%d POSTs are not in the log, but only %d were repeats", unrecorded-lost, extra)
	if len(f.faults) == 0 {
		f.report.must(unrecorded == 0, "POSTs seen and attempts recorded differ without a fault")
	}
	return nil
}

// goneWithTheBus counts the POSTs, repeats left out, of deliveries that are not in the log
// and whose events were published on NATS: a power cut takes from the bus what it had
// handed out, and the records with it.
func (f *field) goneWithTheBus(log deliveryLog) int {
	if !f.busMayLose {
		return 0
	}
	posts := 0
	published := f.load.busSent()
	for _, r := range f.well() {
		for id := range r.Receipts() {
			_, onBus := published[id]
			if _, known := log.attempted[r.hook.ID][id]; onBus && !known {
				posts++
			}
		}
	}
	f.report.figure("POSTs of deliveries that the bus alone had and lost", float64(posts))
	return posts
}

// patiently does what a client does with a 503: it asks again. What a fault has left to
// catch up with may take the store's time.
func patiently(ctx context.Context, ask func() error) error {
	for deadline := time.Now().Add(time.Minute); ; {
		err := ask()
		if !client.IsStatus(err, http.StatusServiceUnavailable) || time.Now().After(deadline) {
			return err
		}
		if err := wait(ctx, time.Second, 2*time.Second); err != nil {
			return err
		}
	}
}
