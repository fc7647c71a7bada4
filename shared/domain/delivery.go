package domain

import (
	"slices"
	"time"
)

// Status is the status of a delivery.
type Status string

// The statuses of a delivery. A Change leads from one to another.
const (
	StatusPending   Status = "pending"   // accepted, no attempt has ended yet
	StatusDelivered Status = "delivered" // the receiver answered 2xx
	StatusRetrying  Status = "retrying"  // an attempt failed, or its circuit is open; another comes
	StatusFailed    Status = "failed"    // schedule exhausted, webhook deleted or read by pull, or retention over
	StatusHeld      Status = "held"      // its webhook is inactive
)

// Statuses returns every status.
func Statuses() []Status {
	return []Status{StatusPending, StatusDelivered, StatusRetrying, StatusFailed, StatusHeld}
}

// Reasons that a delivery may have in addition to an attempt's error.
const (
	ReasonWebhookDeleted = "webhookDeleted"
	ReasonExhausted      = "scheduleExhausted"
	ReasonRetention      = "retentionOver"
	ReasonCircuitOpen    = "circuitOpen"
	ReasonInactive       = "webhookInactive"
	ReasonUnreadable     = "webhookUnreadable"
	ReasonOverCap        = "overCapacity"
	ReasonBehindShipment = "behindShipment"
	ReasonPull           = "pull"
	ReasonCancelled      = "jobCancelled"
	ReasonWrongSecret    = string(ForgeWrongSecret)
	ReasonOldTime        = string(ForgeOldTime)
)

// Forgery is why a good receiver refuses a test; empty: the test is signed like an event. A forged test is sent
// once. Its reason is its forgery, and it does not affect its webhook's health.
type Forgery string

// The forgeries.
const (
	ForgeWrongSecret Forgery = "wrongSecret"
	ForgeOldTime     Forgery = "oldTime" // by ForgedAge
)

// Refused returns the change of a test with this forgery that the receiver does not accept.
func (f Forgery) Refused() Change {
	if f == ForgeOldTime {
		return ChangeOldTime
	}
	return ChangeWrongSecret
}

// ForgedAge is the age of a callback that is forged to be old.
const ForgedAge = time.Hour

// Forgeries returns every forgery.
func Forgeries() []Forgery { return []Forgery{ForgeWrongSecret, ForgeOldTime} }

// Forged reports whether a reason is that of a forged test.
func Forged(reason string) bool { return slices.Contains(Forgeries(), Forgery(reason)) }

// Reasons returns every reason.
func Reasons() []string {
	return []string{
		ReasonWebhookDeleted, ReasonExhausted, ReasonRetention, ReasonCircuitOpen, ReasonInactive, ReasonUnreadable, ReasonOverCap, ReasonPull,
		ReasonBehindShipment, ReasonCancelled, ReasonWrongSecret, ReasonOldTime,
	}
}

// Task is one delivery on its way: the data that the bus keeps between two attempts.
type Task struct {
	Delivery   DeliveryID
	Account    string
	Webhook    WebhookID
	EventID    string
	EventType  EventType
	EventSeq   uint64    // in the EVENTS stream; 0: restored from the database
	ReceivedAt time.Time // of the event
	// Attempts counts all attempts, RunAttempts those of the present run.
	Attempts    int
	RunAttempts int
	// RunStartedAt is when the run's schedule began to count; zero: not yet.
	RunStartedAt time.Time
	// Rev orders the delivery's states.
	Rev Revision
	// Test marks a test event: it is sent even to an inactive webhook.
	Test  bool
	Forge Forgery // of a test
	// Request is the id of the request (test, retry, replay) that this task answers.
	Request string
	// HeldAt is when the delivery entered the hold queue; zero: it is not there.
	HeldAt time.Time
	// Overflowed: the delivery is in the hold queue only because more came than the webhook takes.
	Overflowed bool
	// Sequence is the delivery's number among those of its webhook and Shipment; 0: its webhook has
	// no order, or the attempt is out of order. Gap: the delivery before it did not arrive. The bus
	// keeps these fields apart from the task.
	Sequence    int64
	Shipment    int64
	Gap         bool
	TraceParent string
	Body        []byte
}

// Attempt is one POST and its result.
type Attempt struct {
	ID        string
	Number    int
	StartedAt time.Time
	Duration  time.Duration
	Status    int    // HTTP status; 0: no answer
	Class     Class  // empty: the attempt had no answer, and was recorded before there were classes
	Error     string // empty when an answer came
	// ResponseBody has at most 4 KiB of the answer, valid UTF-8 without NUL.
	ResponseBody string
	// Transcript is the rest of what was sent and received, see package transcript; nil: it was not kept.
	Transcript []byte
}

// Phases are how long the parts of an attempt took; zero: the part did not
// happen, as on an existing connection.
type Phases struct {
	DNS, Connect, TLS time.Duration
	FirstByte         time.Duration // from the request until the answer began
	Body              time.Duration // from there to the end of the answer's body
}

// Outcome is the state that a delivery has reached, with the attempt that led to it.
type Outcome struct {
	Delivery      DeliveryID
	Account       string
	Webhook       WebhookID
	EventID       string
	EventType     EventType
	EventSeq      uint64
	Status        Status
	Rev           Revision
	Attempts      int
	RunAttempts   int
	RunStartedAt  time.Time
	NextAttemptAt time.Time // zero: none is set
	InLane        bool
	Reason        string
	UpdatedAt     time.Time
	Test          bool
	// Sequence is the delivery's number among those of its webhook and Shipment; 0: its webhook has
	// no order.
	Sequence int64
	Shipment int64    // see ShipmentKey
	Noted    bool     // a note about the delivery was recorded before its first outcome
	Request  string   // the request that this answers; empty: none
	Attempt  *Attempt // nil: no attempt was made
}

// HealthChange is a change of a webhook's health that one dispatcher has seen. Zero fields change nothing.
type HealthChange struct {
	Webhook         WebhookID
	FailingSince    time.Time // when it began to fail
	Recovered       bool      // an attempt succeeded
	DisabledVersion int64     // it was disabled at this version
	DisabledReason  DisabledReason
	// DisabledUntil is the end of the period whose quota is used up. It is never on the bus: only
	// the record stage knows it.
	DisabledUntil time.Time
	Circuit       *Circuit // the state of its circuit, from its owner; nil: not given
	// Certificate is what a connection saw of the receiver's certificate; nil: nothing new.
	Certificate *Certificate
	At          time.Time
}

// RecordBatch is what dispatchers pass to the record stage in one bus message. Its parts are
// written in one transaction.
type RecordBatch struct {
	Outcomes []Outcome
	Events   []Event    // published on NATS, and not in the database yet
	Settled  []EventKey // each of the event's deliveries has an outcome that is stored durably
	Health   []HealthChange
}

// Delivery is a delivery as the log shows it.
type Delivery struct {
	ID            DeliveryID
	Account       string
	Webhook       WebhookID
	EventID       string
	EventType     EventType
	Status        Status
	Attempts      int
	NextAttemptAt time.Time
	Reason        string
	Test          bool
	// Sequence is the delivery's number among its webhook's deliveries of its shipment, from 1; 0:
	// the webhook had no ordering.
	Sequence int64
	// LastClass and LastStatus are those of the last attempt; zero: there was none, or it was
	// recorded before there were classes.
	LastClass  Class
	LastStatus int
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

// StreamMark is how far a stream of the bus was when the database last heard of it. A stream that
// is behind its mark has lost messages: it was made again, or its server came back without
// everything that it had acknowledged.
type StreamMark struct {
	Created time.Time
	LastSeq uint64
	Server  string    // the server's id, which changes with each start; of a cluster its name
	SeenAt  time.Time // when LastSeq was read
}
