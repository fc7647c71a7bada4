package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/judge"
)

// answered is how long to wait for the answer to a forged test: a webhook's maximum timeout, and the time on the
// way.
const answered = 35 * time.Second

// verdict is the result of a forged test.
type verdict struct {
	DeliveryID string         `json:"deliveryId"`
	Finding    *judge.Finding `json:"finding"` // null: no attempt ended in time
}

// judge waits for the answer to a forged test, and shows what it means for the receiver.
func (a *app) judge(ctx context.Context, c *client.Client, act *action, answer []byte) error {
	var v verdict
	if err := json.Unmarshal(answer, &v); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if *act.form == asTable {
		if err := a.show(act, answer, nil); err != nil {
			return err
		}
	}
	last, err := a.lastAttempt(ctx, c, v.DeliveryID)
	if last != nil {
		found := judge.Forged(domain.Forgery(act.input.Text("forge")), judge.Answer{
			Status: last.Status, Error: last.Error, Took: time.Duration(last.DurationMS) * time.Millisecond,
		})
		v.Finding = &found
	}
	if *act.form == asJSON {
		if err := terminal.JSON(a.stdout, v); err != nil {
			return err
		}
	}
	switch {
	case err != nil:
		a.note("What the receiver answered can't be read: %s. See: %s deliveries explain %s", terminal.Clean(short(err)), a.binary, terminal.Clean(v.DeliveryID))
	case last == nil:
		a.note("There is no answer yet. See: %s deliveries explain %s", a.binary, terminal.Clean(v.DeliveryID))
	case *act.form == asTable:
		fmt.Fprintf(a.stdout, "ANSWER    %s\nVERDICT   %s\n", terminal.Clean(v.Finding.Found), terminal.Clean(v.Finding.Means))
		if v.Finding.Do != "" {
			fmt.Fprintf(a.stdout, "          → %s\n", terminal.Clean(v.Finding.Do))
		}
	}
	return nil
}

// lastAttempt waits for the first attempt of a delivery; nil: none has ended in time.
func (a *app) lastAttempt(ctx context.Context, c *client.Client, id string) (*client.Attempt, error) {
	ctx, cancel := context.WithTimeout(ctx, answered)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		d, err := c.Delivery(ctx, id)
		switch {
		case ctx.Err() != nil:
			return nil, nil
		case err != nil && !client.MayPass(err):
			return nil, err
		case err == nil && len(d.Attempts) > 0:
			return &d.Attempts[len(d.Attempts)-1], nil
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-tick.C:
		}
	}
}
