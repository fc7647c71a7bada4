package pipeline

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
)

// Resend says by their status which deliveries a job sends again: one of the values below, or
// a status of a delivery.
type Resend string

// What is sent again.
const (
	// ResendUndelivered are those that failed and those that are to be tried again, by their
	// schedule or when their webhook's circuit closes.
	ResendUndelivered Resend = "undelivered"
	ResendFailed             = Resend(domain.StatusFailed)
	ResendAll         Resend = "all" // undelivered and delivered ones
)

// ReplayStatuses returns those that a replay can be asked for, the usual one first.
func ReplayStatuses() []Resend { return []Resend{ResendUndelivered, ResendFailed, ResendAll} }

// RetryStatuses returns those that a retry of many can be asked for, the usual one first.
func RetryStatuses() []Resend {
	return []Resend{
		ResendUndelivered, ResendFailed, Resend(domain.StatusRetrying), Resend(domain.StatusHeld),
		Resend(domain.StatusDelivered), Resend(domain.StatusPending), ResendAll,
	}
}

// condition selects the deliveries, in terms that the partial indexes know. An attempt of what
// is pending is under way, so it is not sent again.
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

// JobFilter selects the deliveries of a job: those that the filter of the lists selects, but
// for its status. Limit and Cursor mean nothing here.
type JobFilter struct {
	DeliveryFilter
	Resend Resend
}

// shownFilter is a filter as callers write it, and as it lies in the row of its job.
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

// filter returns what the job selects. It is the same for all of its pages: an event that
// was accepted after the job was made is none of its.
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

// open reports whether none that was delivered is sent.
func (r Resend) open() bool { return r != ResendAll && r != Resend(domain.StatusDelivered) }

// matching returns a query of the deliveries that can be sent again. It leaves out those that are
// already asked for, and those of webhooks that are deleted or read by pull.
func (f JobFilter) matching(tx *gorm.DB, scope deliveryScope) *gorm.DB {
	query := scope.bound(tx.Table("deliveries AS d"), "d", "d.id").
		Where(f.Resend.condition()).
		Where("NOT " + sqlOpen + " AND NOT " + sqlUnsendable)
	for _, c := range slices.Concat(f.indexed(), f.others()) {
		query = query.Where(c.sql, c.args...)
	}
	if f.Shipment != "" && !scope.byEvents() {
		query = query.Where("(d.event_id, d.day) IN (SELECT e.id, e.day FROM events e WHERE e.account = ? AND e.shipment = ?)",
			f.Account, domain.ShipmentKey(f.Account, f.Shipment))
	}
	return query
}

// scope returns the filter's bounds. Where a shipment has so many events that not all are looked up, it is
// without them: then matching selects them.
func (f JobFilter) scope(tx *gorm.DB) (deliveryScope, error) {
	scope, err := newDeliveryScope(tx, f.DeliveryFilter, nil)
	if err != nil || !scope.cut {
		return scope, err
	}
	f.Shipment = ""
	return newDeliveryScope(tx, f.DeliveryFilter, nil)
}

// mostPlanned bounds how many deliveries are looked at to say what a job would do: SQLite looks at 100,000 in a
// second. A job that is made counts all that it selects, and its cost is theirs.
const mostPlanned = 20_000

// cutShort narrows a scope to the oldest mostPlanned of the deliveries that are looked through for the filter,
// and reports whether there are more.
func (f JobFilter) cutShort(tx *gorm.DB, scope *deliveryScope) (bool, error) {
	if scope.byEvents() {
		return false, nil
	}
	var next []string
	if err := f.walked(tx, *scope).Order("d.id").Offset(mostPlanned).Limit(1).Pluck("d.id", &next).Error; err != nil {
		return false, fmt.Errorf("look for the end of a plan: %w", err)
	}
	if len(next) == 0 {
		return false, nil
	}
	scope.to = domain.DeliveryID(next[0])
	return true, nil
}

// walked returns a query of the deliveries that are looked through for the filter.
func (f JobFilter) walked(tx *gorm.DB, scope deliveryScope) *gorm.DB {
	query := scope.walked(tx)
	if f.Resend.open() {
		query = query.Where("d.status <> 'delivered'")
	}
	return query
}

// sqlKept is true where the log has the delivery's event.
const sqlKept = `EXISTS (SELECT 1 FROM events e WHERE e.account = d.account AND e.id = d.event_id AND e.day = d.day)`
