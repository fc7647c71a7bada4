package domain

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"
)

// EventType names what happened to a shipment.
type EventType string

// The four event types; no other is accepted.
const (
	ShipmentCreated   EventType = "shipment.created"
	ShipmentInTransit EventType = "shipment.in_transit"
	ShipmentDelivered EventType = "shipment.delivered"
	ShipmentException EventType = "shipment.exception"
)

// EventTypes returns the four event types in the order of a shipment's life.
func EventTypes() []EventType {
	return []EventType{ShipmentCreated, ShipmentInTransit, ShipmentDelivered, ShipmentException}
}

// Valid reports whether t is one of the four event types, which publishers may use.
func (t EventType) Valid() bool { return slices.Contains(EventTypes(), t) }

// The alerts: events that Waybill itself makes, about webhooks, deliveries and custom
// domains. No one else may publish them.
const (
	WebhookFailing       EventType = "waybill.webhook.failing"        // FailingFrom failures in a row
	WebhookRecovered     EventType = "waybill.webhook.recovered"      // the first success after that
	WebhookCircuitOpened EventType = "waybill.webhook.circuit_opened" // only probes are sent
	WebhookDisabled      EventType = "waybill.webhook.disabled"       // a dispatcher made it inactive
	DeliveryExhausted    EventType = "waybill.delivery.exhausted"     // its schedule is exhausted
	DomainContested      EventType = "waybill.domain.contested"       // another account has a newer proof of the hostname
	DomainMoved          EventType = "waybill.domain.moved"           // that account has the hostname now
)

// AlertTypes returns the types of alerts.
func AlertTypes() []EventType {
	return []EventType{WebhookFailing, WebhookRecovered, WebhookCircuitOpened, WebhookDisabled, DeliveryExhausted, DomainContested, DomainMoved}
}

// Alert reports whether t is a type of alerts.
func (t EventType) Alert() bool { return slices.Contains(AlertTypes(), t) }

// WebhookTypes returns the types that a webhook may be registered for: those of events, then
// those of alerts.
func WebhookTypes() []EventType { return append(EventTypes(), AlertTypes()...) }

// DefaultAccount is the account of a new installation.
const DefaultAccount = "default"

// ValidEventID reports whether id may name an event: 1 to 64 of A-Z a-z 0-9 _ -.
// A dot would break the signed content of Standard Webhooks (id.timestamp.body).
func ValidEventID(id string) bool {
	if id == "" || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// Source is the way on which an event came.
type Source string

// The sources of events.
const (
	SourceREST Source = "rest" // over HTTP, tests among them
	SourceNATS Source = "nats" // published on NATS
	// SourceWaybill is the source of alerts: Waybill makes them.
	SourceWaybill Source = "waybill"
)

// Sources returns all sources.
func Sources() []Source { return []Source{SourceREST, SourceNATS, SourceWaybill} }

// MaxShipmentID is how many characters a shipment's id has at most.
const MaxShipmentID = 128

// ShipmentKey returns the key by which the events of an account's shipment are found: 8 bytes of a
// SHA-256, which take half as much of an index as the text. Among a million shipments of one
// account, two have the same key with a chance of some 1 in 10^7.
func ShipmentKey(account, shipment string) int64 {
	var in [256]byte
	sum := sha256.Sum256(append(append(append(in[:0], account...), 0), shipment...))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// Event is a shipment event as it was accepted.
type Event struct {
	Account string
	ID      string
	Type    EventType
	// Timestamp is when the event happened, in RFC 3339 exactly as the publisher wrote it.
	Timestamp string
	// Payload is the body of the callback: {"id","type","timestamp","data"}, where data
	// has the bytes that were published. It is never parsed and written again.
	Payload []byte
	// ReceivedAt is when the event was accepted, in UTC with millisecond precision. Its day is the
	// partition in which the event and its deliveries are kept.
	ReceivedAt time.Time
}

// Key returns what identifies the event in the store.
func (e Event) Key() EventKey {
	return EventKey{Account: e.Account, ID: e.ID, ReceivedAt: e.ReceivedAt}
}

// EventKey identifies a stored event. It contains the time of acceptance, because an id may come
// again after 24 hours.
type EventKey struct {
	Account    string
	ID         string
	ReceivedAt time.Time
}

// Compare orders keys by the time of acceptance, then by account and id.
func (k EventKey) Compare(other EventKey) int {
	return cmp.Or(k.ReceivedAt.Compare(other.ReceivedAt), cmp.Compare(k.Account, other.Account), cmp.Compare(k.ID, other.ID))
}

// DedupeWindow is how long a repeated event id of one account is recognised.
const DedupeWindow = 24 * time.Hour

// Day returns the UTC day of t, which is the partition for rows accepted at t.
func Day(t time.Time) time.Time {
	return t.UTC().Truncate(24 * time.Hour)
}
