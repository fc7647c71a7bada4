package domain

import (
	"slices"
	"time"
)

// Status is where a delivery stands.
type Status string

// The statuses of a delivery. What leads from one to another is a Change.
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

// Reasons that a delivery may carry beside an attempt's error.
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

// Forgery is why a good receiver refuses a test; empty: it is signed as events are. A forged test is sent once. It
// carries its forgery as the reason, and says nothing of its webhook's health.
type Forgery string

// The forgeries.
const (
	ForgeWrongSecret Forgery = "wrongSecret"
	ForgeOldTime     Forgery = "oldTime" // by ForgedAge
)

// Refused is what becomes of a test that was forged so, unless the receiver accepts it.
func (f Forgery) Refused() Change {
	if f == ForgeOldTime {
		return ChangeOldTime
	}
	return ChangeWrongSecret
}

// ForgedAge is how old a callback is that was forged to be old.
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

// Task is one delivery on its way: what is kept on the bus between two attempts.
type Task struct {
	Delivery   DeliveryID
	Account    string
	Webhook    WebhookID
	EventID    string
	EventType  EventType
	EventSeq   uint64    // in the EVENTS stream; 0: restored from the database
	ReceivedAt time.Time // of the event
	// Attempts counts attempts ever made, RunAttempts those of the present run.
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
	// HeldAt is when it entered the hold queue; zero: it is not there.
	HeldAt time.Time
	// Overflowed: it is in the hold queue only because more came than the webhook takes.
	Overflowed bool
	// Sequence is the delivery's number among those of its webhook and Shipment; 0: its webhook has no
	// order, or the attempt passes the order by. Gap: what was before it did not arrive. The bus keeps
	// these beside the task.
	Sequence    int64
	Shipment    int64
	Gap         bool
	TraceParent string
	Body        []byte
}

// Attempt is one POST and its end.
type Attempt struct {
	ID        string
	Number    int
	StartedAt time.Time
	Duration  time.Duration
	Status    int    // HTTP status; 0: no answer
	Class     Class  // empty: recorded before there were classes, without an answer
	Error     string // empty when an answer came
	// ResponseBody has at most 4 KiB of the answer, valid UTF-8 without NUL.
	ResponseBody string
	// Transcript is the rest of what was sent and came back, see package transcript; nil:
	// it was not kept.
	Transcript []byte
}

// Phases are how long the parts of an attempt took; zero: it did not happen, as on a
// connection that was there.
type Phases struct {
	DNS, Connect, TLS time.Duration
	FirstByte         time.Duration // from the request until the answer began
	Body              time.Duration // from there to the end of the answer's body
}

// Outcome is the state that a delivery has reached, with the attempt that led there.
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
	Noted    bool     // a note of the delivery was recorded before its first outcome
	Request  string   // request that is answered hereby; empty: none
	Attempt  *Attempt // nil: no attempt was made
}

// HealthChange is a webhook's health as one dispatcher saw it change. Zero fields
// are not touched.
type HealthChange struct {
	Webhook         WebhookID
	FailingSince    time.Time // it began to fail then
	Recovered       bool      // it succeeded
	DisabledVersion int64     // it was disabled while at this version
	DisabledReason  DisabledReason
	// DisabledUntil is when the period ends whose quota is used up. It is never on the bus: the
	// record stage alone knows it.
	DisabledUntil time.Time
	Circuit       *Circuit // what its owner says of its circuit; nil: nothing
	// Certificate is what a connection saw of the receiver's certificate; nil: nothing new.
	Certificate *Certificate
	At          time.Time
}

// RecordBatch is what dispatchers hand to the record stage, in one bus message.
// Its parts are written in one transaction.
type RecordBatch struct {
	Outcomes []Outcome
	Events   []Event    // that came over the bus and are not in the database yet
	Settled  []EventKey // every delivery has an outcome that is stored somewhere durable
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
	// Sequence is its number among its webhook's deliveries of its shipment, from 1; 0: the
	// webhook had no ordering.
	Sequence int64
	// LastClass and LastStatus are those of the last attempt; zero: none has been made, or what
	// recorded it knew no classes.
	LastClass  Class
	LastStatus int
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

// StreamMark is how far a stream of the bus was when the database last heard of it. What
// lies behind a mark proves that a stream has lost something: it was made anew, or its
// server came back without all that it had acknowledged.
type StreamMark struct {
	Created time.Time
	LastSeq uint64
	Server  string    // the server's id, another one after each start; of a cluster its name
	SeenAt  time.Time // when LastSeq was read
}
