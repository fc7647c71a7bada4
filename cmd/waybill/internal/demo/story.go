package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"waybill.dev/cmd/internal/receiver"
	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/shared/domain"
)

// chapter is one event: how it is published, and the path of its callback.
type chapter struct {
	kind     domain.EventType
	how      string
	path     string
	attempts int // until the delivery succeeds
	publish  func(ctx context.Context, d *demo, id string, body []byte) (answer string, err error)
}

// story publishes the four events one after the other and waits for the callbacks of each.
func (d *demo) story(ctx context.Context) error {
	chapters := []chapter{
		{domain.ShipmentCreated, "over REST", steady, 1, overREST},
		{domain.ShipmentInTransit, "over NATS", steady, 1, overNATS},
		{domain.ShipmentDelivered, "in a batch, twice with one id", steady, 1, inBatch},
		{domain.ShipmentException, "over REST, to the receiver that fails twice", flaky, 3, overREST},
	}
	for _, c := range chapters {
		if err := d.tell(ctx, c); err != nil {
			return fmt.Errorf("%s, %s: %w", c.kind, c.how, err)
		}
	}
	return d.confirm(ctx)
}

func (d *demo) tell(ctx context.Context, c chapter) error {
	d.step++
	id, body, data, err := event(c.kind)
	if err != nil {
		return err
	}
	d.note("%s  %s %s", d.Style.Bold(strconv.Itoa(d.step)), d.Style.Bold(string(c.kind)), c.how)
	answer, err := c.publish(ctx, d, id, body)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	d.note("   %s", d.Style.Dim(answer))
	verifier, err := standardwebhooks.NewWebhook(d.hooks[c.path].Secret)
	if err != nil {
		return fmt.Errorf("read webhook's secret: %w", err)
	}
	for {
		var got receiver.Callback
		select {
		case got = <-d.callbacks:
		case <-ctx.Done():
			return fmt.Errorf("wait for its callback: %w", ctx.Err())
		}
		if got.EventID() != id {
			continue // a repeat of an earlier callback: delivery is at least once
		}
		if err := d.show(c.kind, got, verifier, data); err != nil {
			return err
		}
		if got.Status == http.StatusOK {
			if got.Attempt() < c.attempts {
				return fmt.Errorf("it arrived on attempt %d, not on attempt %d", got.Attempt(), c.attempts)
			}
			d.verified++
			return nil
		}
	}
}

// show prints a callback and checks it.
func (d *demo) show(kind domain.EventType, c receiver.Callback, verifier *standardwebhooks.Webhook, data []byte) error {
	verifyErr := verifier.Verify(c.Body, c.Header)
	same := bytes.HasSuffix(c.Body, append(append([]byte(`"data":`), data...), '}'))
	mark, status := d.Style.Good("✓"), d.Style.Good(strconv.Itoa(c.Status))
	if c.Status != http.StatusOK {
		mark, status = d.Style.Warn("↻"), d.Style.Warn(strconv.Itoa(c.Status))
	}
	if verifyErr != nil || !same {
		mark = d.Style.Bad("✗")
	}
	fmt.Fprintf(d.Out, "   %s %s to %s, attempt %d, answered %s\n", mark, kind, c.Path, c.Attempt(), status)
	line := func(name, value string) {
		fmt.Fprintf(d.Out, "     %s %s\n", d.Style.Dim(fmt.Sprintf("%-20s", name)), terminal.Clean(value))
	}
	for _, name := range []string{
		"webhook-id", "webhook-timestamp", "webhook-signature", "Waybill-Delivery-Id", "Waybill-Attempt",
		"Content-Type", "User-Agent", "traceparent",
	} {
		if value := c.Header.Get(name); value != "" {
			line(name, value)
		}
	}
	if same {
		line("body", fmt.Sprintf("%d bytes, data byte for byte as published", len(c.Body)))
	}
	if verifyErr == nil {
		line("signature", "verified by the standard-webhooks library")
	}
	fmt.Fprintln(d.Out)
	switch {
	case verifyErr != nil:
		return fmt.Errorf("its signature does not verify: %w", verifyErr)
	case !same:
		return errors.New("its data is not what was published, byte for byte")
	}
	return nil
}

// confirm waits until the delivery log says the same.
func (d *demo) confirm(ctx context.Context) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		delivered, third := 0, false
		for _, hook := range d.hooks {
			list, _, err := d.client.Deliveries(ctx, url.Values{"webhookId": {hook.ID}})
			if err != nil {
				return fmt.Errorf("read delivery log: %w", err)
			}
			for _, one := range list {
				if one.Status == domain.StatusDelivered {
					delivered++
					third = third || one.AttemptCount >= 3
				}
			}
		}
		if delivered == 4 && third {
			d.note("The delivery log (GET /v1/deliveries) says the same.\n")
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the delivery log shows %d of 4 deliveries: %w", delivered, ctx.Err())
		case <-ticker.C:
		}
	}
}

func overREST(ctx context.Context, d *demo, _ string, body []byte) (string, error) {
	_, err := d.client.Publish(ctx, body)
	return "POST /v1/events → 202 accepted", err
}

func inBatch(ctx context.Context, d *demo, _ string, body []byte) (string, error) {
	batch := bytes.Join([][]byte{[]byte("["), body, []byte(","), body, []byte("]")}, nil)
	published, err := d.client.Publish(ctx, batch)
	if err != nil {
		return "", err
	}
	if len(published) != 2 || published[0].Duplicate || !published[1].Duplicate {
		return "", errors.New("the repeat was not recognised")
	}
	return "POST /v1/events with 2 events → 202 accepted, the second is a duplicate", nil
}

func overNATS(ctx context.Context, d *demo, _ string, body []byte) (string, error) {
	if !d.own { // other dispatchers may not know of the webhooks yet
		timer := time.NewTimer(spread)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	options := []nats.Option{nats.Name("waybill demo"), nats.Timeout(5 * time.Second)}
	if u, err := url.Parse(d.NATSURL.Reveal()); err == nil && u.User != nil {
		options = append(options, nats.CustomInboxPrefix("_INBOX_"+u.User.Username()))
	}
	conn, err := nats.Connect(d.NATSURL.Reveal(), options...)
	if err != nil {
		return "", fmt.Errorf("connect to NATS: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return "", fmt.Errorf("open JetStream: %w", err)
	}
	subject := "events." + domain.DefaultAccount + "." + string(domain.ShipmentInTransit)
	ack, err := js.Publish(ctx, subject, body)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s → stream %s, sequence %d", subject, ack.Stream, ack.Sequence), nil
}
