package explanations

import (
	"context"
	"encoding/json"
	"fmt"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
)

// The search for the delivery that is waited for reads shipmentPages pages of shipmentPage
// deliveries of the shipment. A shipment has some dozens of events.
const (
	shipmentPage  = 1000
	shipmentPages = 3
)

// aheadOf returns the first delivery of the same shipment and webhook that has not ended and comes
// before d; nil: there is none any more.
func (h *handlers) aheadOf(ctx context.Context, account string, d *domain.Delivery) (*domain.Delivery, error) {
	event, err := h.Log.GetEvent(ctx, account, d.EventID)
	if exists, err := there(err, "event"); err != nil || !exists {
		return nil, err
	}
	var payload struct {
		Data struct {
			ShipmentID string `json:"shipmentId"`
		} `json:"data"`
	}
	if err := json.Unmarshal(event.Payload, &payload); err != nil {
		return nil, fmt.Errorf("explain: read the shipment of an event: %w", err)
	}
	if payload.Data.ShipmentID == "" {
		return nil, nil
	}
	filter := pipeline.DeliveryFilter{
		Account: account, Webhook: d.Webhook, Shipment: payload.Data.ShipmentID, Limit: shipmentPage,
	}
	var ahead *domain.Delivery
	for range shipmentPages {
		page, next, err := h.Log.ListDeliveries(ctx, filter)
		if err != nil {
			return nil, fmt.Errorf("explain: read deliveries of the shipment: %w", err)
		}
		for i := range page {
			other := &page[i]
			if other.Sequence > 0 && other.Sequence < d.Sequence && !ended(other.Status) && (ahead == nil || other.Sequence < ahead.Sequence) {
				ahead = other
			}
		}
		if filter.Cursor = next; next == "" {
			break
		}
	}
	return ahead, nil
}

func ended(s domain.Status) bool { return s == domain.StatusDelivered || s == domain.StatusFailed }

// behind explains a delivery that waits for another one of its shipment.
func (e *Explanation) behind(f facts) {
	d := f.delivery
	if f.ahead == nil {
		e.step(checkOrder, waiting, "number %d of its shipment; those before it are done", d.Sequence)
		e.conclude(behindShipment, "It waited for an earlier delivery of its shipment, which is done. It goes out in its turn.", "Ask again in a moment.")
		return
	}
	state := string(f.ahead.Status)
	if f.ahead.Attempts > 0 {
		state += fmt.Sprintf(" after %d attempts", f.ahead.Attempts)
	}
	if !f.ahead.NextAttemptAt.IsZero() {
		state += ", tried again at " + *web.Stamp(f.ahead.NextAttemptAt)
	}
	e.step(checkOrder, waiting, "number %d of its shipment waits for number %d, delivery %s, which is %s", d.Sequence, f.ahead.Sequence, f.ahead.ID, state)
	s := &e.Chain[len(e.Chain)-1]
	s.WaitsFor, s.Since = &f.ahead.ID, d.UpdatedAt
	until := ""
	if f.maxWait > 0 {
		until = f.told(" After %v s of waiting it goes out without it.", f.maxWait.Seconds())
	}
	e.conclude(behindShipment, fmt.Sprintf("The webhook gets the events of a shipment one after the other. Since %s this one waits for delivery %s, which is %s.%s",
		web.Value(d.UpdatedAt), f.ahead.ID, state, until),
		"Find out why delivery "+string(f.ahead.ID)+" is not delivered: explain it.",
		"To send this one now, out of order, retry it.")
}
