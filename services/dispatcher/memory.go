package dispatcher

import (
	"waybill.dev/services/dispatcher/internal/admission"
)

const (
	// defaultMemory is how many bytes deliveries in flight may take unless the options say otherwise.
	defaultMemory = 256 << 20
	// LeastMemory is the least memory that deliveries in flight need, so that the
	// largest message fits everywhere.
	LeastMemory = 64 << 20
	// webhookShare: one webhook has at most this part of the memory for events in flight, so that
	// webhooks of one account that hang can't take the memory that all others need.
	webhookShare = 16
)

// memory divides the memory for deliveries in flight among the stages, so that no stage waits for
// another one: the work that frees memory in one stage never needs memory of that stage.
type memory struct {
	events  *admission.Budget // for first attempts
	order   *admission.Budget // part of events: for accounts that use order
	turns   *admission.Budget // for the state of deliveries that wait for their turn; in addition to Options.Memory
	due     *admission.Budget // for retries, tests and replays
	drains  *admission.Budget // for deliveries that hold queues drain
	probes  *admission.Budget // for deliveries that are read from hold queues otherwise
	records *admission.Budget // for records on their way to the database
	emitter int64             // for records on their way to the bus
}

func divide(total int64) memory {
	events := admission.NewBudget(total / 4)
	return memory{
		events: events, order: events.Part(total / 8), turns: admission.NewBudget(total / 2), due: admission.NewBudget(total / 4),
		drains: admission.NewBudget(total / 8), probes: admission.NewBudget(total / 8),
		records: admission.NewBudget(total / 8), emitter: total / 8,
	}
}

// tight reports whether first attempts or retries take more than half of their share.
func (m memory) tight() bool { return m.events.Tight() || m.due.Tight() }
