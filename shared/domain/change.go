package domain

// Change is an event that sets a delivery's next status. The changes are all that can happen to a
// delivery; docs/deliveries.md draws them.
type Change int

// The changes. Dispatchers make them, except the first two, which the API makes. The API and the
// relay's maintenance of the log also make the last two.
const (
	ChangeAccepted    Change = iota // an event was accepted, or a test
	ChangeRequested                 // another run was asked for: a retry or a replay
	ChangeDelivered                 // the receiver answered 2xx
	ChangeFailed                    // an attempt failed, and another follows
	ChangeExhausted                 // the schedule has no further attempt
	ChangeGone                      // the receiver answered 410
	ChangeInactive                  // the delivery came due while its webhook was inactive
	ChangeUnreadable                // the delivery came due while its webhook could not be read
	ChangeCircuit                   // the delivery came due while its webhook's circuit was open
	ChangeOverflow                  // more came than its webhook takes, before the first attempt
	ChangePutOff                    // the same after an attempt
	ChangeBehind                    // an earlier delivery of its shipment has not ended yet
	ChangeDeleted                   // its webhook was deleted
	ChangeRetention                 // its event is older than the retention
	ChangePull                      // its webhook is read by pull: the event is in the feed
	ChangeCancelled                 // the job that asked for it was cancelled before an attempt
	ChangeWrongSecret               // a test with a wrong secret was not accepted
	ChangeOldTime                   // a test of an hour ago was not accepted
)

// Changes returns every change.
func Changes() []Change {
	list := make([]Change, 0, ChangeOldTime+1)
	for c := ChangeAccepted; c <= ChangeOldTime; c++ {
		list = append(list, c)
	}
	return list
}

// From returns the statuses in which a delivery can undergo c; none: the delivery begins with c.
func (c Change) From() []Status {
	switch c {
	case ChangeAccepted:
		return nil
	case ChangeRequested:
		return []Status{StatusDelivered, StatusRetrying, StatusHeld, StatusFailed}
	case ChangeInactive, ChangeUnreadable, ChangeCircuit, ChangePutOff:
		return []Status{StatusPending, StatusRetrying} // a held delivery stays where it is
	case ChangeOverflow, ChangeBehind:
		return []Status{StatusPending}
	}
	return []Status{StatusPending, StatusRetrying, StatusHeld}
}

// To returns the status that a delivery has after c.
func (c Change) To() Status {
	switch c {
	case ChangeDelivered:
		return StatusDelivered
	case ChangeFailed, ChangeCircuit, ChangePutOff:
		return StatusRetrying
	case ChangeGone, ChangeInactive, ChangeUnreadable:
		return StatusHeld
	case ChangeExhausted, ChangeDeleted, ChangeRetention, ChangePull, ChangeCancelled, ChangeWrongSecret, ChangeOldTime:
		return StatusFailed
	}
	return StatusPending
}

// Reason returns the reason that a delivery has after c; empty: the attempt shows the reason.
func (c Change) Reason() string {
	switch c {
	case ChangeExhausted:
		return ReasonExhausted
	case ChangeGone, ChangeInactive:
		return ReasonInactive
	case ChangeUnreadable:
		return ReasonUnreadable
	case ChangeCircuit:
		return ReasonCircuitOpen
	case ChangeOverflow, ChangePutOff:
		return ReasonOverCap
	case ChangeBehind:
		return ReasonBehindShipment
	case ChangeDeleted:
		return ReasonWebhookDeleted
	case ChangeRetention:
		return ReasonRetention
	case ChangePull:
		return ReasonPull
	case ChangeCancelled:
		return ReasonCancelled
	case ChangeWrongSecret:
		return ReasonWrongSecret
	case ChangeOldTime:
		return ReasonOldTime
	}
	return ""
}

// String returns the name of c in the picture in docs/deliveries.md.
func (c Change) String() string {
	switch c {
	case ChangeAccepted:
		return "event or test accepted"
	case ChangeRequested:
		return "retry or replay"
	case ChangeDelivered:
		return "2xx"
	case ChangeFailed:
		return "attempt failed"
	case ChangeExhausted:
		return "schedule exhausted"
	case ChangeGone:
		return "410"
	case ChangeInactive:
		return "webhook inactive"
	case ChangeUnreadable:
		return "webhook unreadable"
	case ChangeCircuit:
		return "circuit open"
	case ChangeOverflow, ChangePutOff:
		return "over capacity"
	case ChangeBehind:
		return "behind its shipment"
	case ChangeDeleted:
		return "webhook deleted"
	case ChangeRetention:
		return "retention over"
	case ChangePull:
		return "read by pull"
	case ChangeCancelled:
		return "job cancelled"
	case ChangeWrongSecret, ChangeOldTime:
		return "forged test refused"
	}
	return "unknown"
}
