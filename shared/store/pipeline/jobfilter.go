package pipeline

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
)

// Resend says which deliveries a job sends again, by their status: one of the values below, or a
// status of a delivery.
type Resend string

// Values of Resend that are no status.
const (
	// ResendUndelivered are deliveries that failed, and deliveries that wait for a retry of their
	// schedule or until their webhook's circuit closes.
	ResendUndelivered Resend = "undelivered"
	ResendFailed             = Resend(domain.StatusFailed)
	ResendAll         Resend = "all" // undelivered and delivered deliveries
)

// ReplayStatuses returns the values that a replay may have, the usual one first.
func ReplayStatuses() []Resend { return []Resend{ResendUndelivered, ResendFailed, ResendAll} }

// RetryStatuses returns the values that a retry of many may have, the usual one first.
func RetryStatuses() []Resend {
	return []Resend{
		ResendUndelivered, ResendFailed, Resend(domain.StatusRetrying), Resend(domain.StatusHeld),
		Resend(domain.StatusDelivered), Resend(domain.StatusPending), ResendAll,
	}
}

// condition selects the deliveries, with conditions that the partial indexes have. A pending
// delivery has an attempt in flight, so it is not sent again.
func (r Resend) condition() string {
	switch r {
	case ResendFailed, Resend(domain.StatusRetrying), Resend(domain.StatusHeld):
		return "d.status <> 'delivered' AND d.status = '" + string(r) + "'"
	case Resend(domain.StatusDelivered):
		return "d.status = 'delivered'"
	case Resend(domain.StatusPending):
		return "1 = 0"
	case ResendAll:
		return "d.status IN ('delivered', 'failed', 'retrying')"
	}
	return "d.status <> 'delivered' AND d.status IN ('failed', 'retrying')"
}

// JobFilter selects the deliveries of a job: those that the filter of the lists selects, except
// that Resend replaces its status. Limit and Cursor are not used.
type JobFilter struct {
	DeliveryFilter
	Resend Resend
}

// shownFilter is a filter as callers write it, and as the row of its job has it.
type shownFilter struct {
	Webhook    domain.WebhookID `json:"webhookId,omitempty"`
	EventID    string           `json:"eventId,omitempty"`
	Type       domain.EventType `json:"eventType,omitempty"`
	Shipment   string           `json:"shipmentId,omitempty"`
	Status     Resend           `json:"status"`
	Reason     string           `json:"reason,omitempty"`
	Class      domain.Class     `json:"class,omitempty"`
	StatusCode int              `json:"statusCode,omitempty"`
	Test       *bool            `json:"test,omitempty"`
	Since      *time.Time       `json:"since,omitempty"`
	Until      *time.Time       `json:"until,omitempty"`
}

func (f JobFilter) encode() (string, error) {
	shown := shownFilter{
		Webhook: f.Webhook, EventID: f.EventID, Type: f.Type, Shipment: f.Shipment, Status: f.Resend, Reason: f.Reason,
		Class: f.Class, StatusCode: f.StatusCode, Test: f.Test,
	}
	if !f.Since.IsZero() {
		shown.Since = new(f.Since.UTC())
	}
	if !f.Until.IsZero() {
		shown.Until = new(f.Until.UTC())
	}
	text, err := json.Marshal(shown)
	if err != nil {
		return "", fmt.Errorf("encode filter: %w", err)
	}
	return string(text), nil
}

// filter returns the filter of the job. It is the same for all pages of the job: it never selects
// an event that was accepted after the job was made.
func (r jobRow) filter() (JobFilter, error) {
	var shown shownFilter
	if err := json.Unmarshal([]byte(r.Filter), &shown); err != nil {
		return JobFilter{}, fmt.Errorf("decode filter: %w", err)
	}
	f := JobFilter{Resend: shown.Status, DeliveryFilter: DeliveryFilter{
		Account: r.Account, Webhook: shown.Webhook, EventID: shown.EventID, Type: shown.Type, Shipment: shown.Shipment,
		Reason: shown.Reason, Class: shown.Class, StatusCode: shown.StatusCode, Test: shown.Test,
	}}
	if shown.Since != nil {
		f.Since = *shown.Since
	}
	if shown.Until != nil {
		f.Until = *shown.Until
	}
	return f, nil
}

// open reports whether delivered deliveries are left out.
func (r Resend) open() bool { return r != ResendAll && r != Resend(domain.StatusDelivered) }

// matching returns a query of the deliveries that can be sent again. It leaves out those with an
// open request, and those of webhooks that are deleted or read by pull.
func (f JobFilter) matching(tx *gorm.DB, scope deliveryScope) *gorm.DB {
	query := scope.bound(tx.Table("deliveries AS d"), "d", "d.id").
		Where(f.Resend.condition()).
		Where("NOT " + sqlOpen + " AND NOT " + sqlUnsendable)
	for _, c := range slices.Concat(f.indexedConditions(), f.checkedConditions()) {
		query = query.Where(c.sql, c.args...)
	}
	if f.Shipment != "" && !scope.byEvents() {
		query = query.Where("(d.event_id, d.day) IN (SELECT e.id, e.day FROM events e WHERE e.account = ? AND e.shipment = ?)",
			f.Account, domain.ShipmentKey(f.Account, f.Shipment))
	}
	return query
}

// scope returns the filter's bounds. If a shipment has so many events that not all are looked up, the
// bounds leave the events out, and matching selects them.
func (f JobFilter) scope(tx *gorm.DB) (deliveryScope, error) {
	scope, err := newDeliveryScope(tx, f.DeliveryFilter, nil)
	if err != nil || !scope.olderExist {
		return scope, err
	}
	f.Shipment = ""
	return newDeliveryScope(tx, f.DeliveryFilter, nil)
}

// mostPlanned bounds how many deliveries are checked to plan a job: SQLite checks 100,000 in a second. A job
// that is made counts all deliveries that it selects, so its cost grows with them.
const mostPlanned = 20_000

// cutShort narrows a scope to the oldest mostPlanned deliveries among those that are checked for the filter,
// and reports whether there are more.
func (f JobFilter) cutShort(tx *gorm.DB, scope *deliveryScope) (bool, error) {
	if scope.byEvents() {
		return false, nil
	}
	var next []string
	if err := f.walkQuery(tx, *scope).Order("d.id").Offset(mostPlanned).Limit(1).Pluck("d.id", &next).Error; err != nil {
		return false, fmt.Errorf("look for the end of a plan: %w", err)
	}
	if len(next) == 0 {
		return false, nil
	}
	scope.to = domain.DeliveryID(next[0])
	return true, nil
}

// walkQuery returns a query of the deliveries that are checked for the filter.
func (f JobFilter) walkQuery(tx *gorm.DB, scope deliveryScope) *gorm.DB {
	query := scope.walkQuery(tx)
	if f.Resend.open() {
		query = query.Where("d.status <> 'delivered'")
	}
	return query
}

// sqlKept holds if the log has the delivery's event.
const sqlKept = `EXISTS (SELECT 1 FROM events e WHERE e.account = d.account AND e.id = d.event_id AND e.day = d.day)`
