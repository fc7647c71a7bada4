package dispatcher

import (
	"waybill.dev/services/dispatcher/internal/admission"
)

const (
	// defaultMemory is what deliveries in flight may take unless the options say otherwise.
	defaultMemory = 256 << 20
	// LeastMemory is the least that they can do with: the largest message fits everywhere.
	LeastMemory = 64 << 20
	// webhookShare of what events may take is the most that is in flight to one webhook:
	// those of one account that hang can't take what all others need.
	webhookShare = 16
)

// memory divides what deliveries in flight may take, so that no stage waits for another's:
// what makes room in one never needs room in it.
type memory struct {
	events  *admission.Budget // first attempts
	order   *admission.Budget // of those: of accounts that use order
	turns   *admission.Budget // what is known of deliveries that wait for their turn; it comes on top
	due     *admission.Budget // retries, tests and replays
	drains  *admission.Budget // what goes out of hold queues
	probes  *admission.Budget // what else is read of hold queues
	records *admission.Budget // on their way to the database
	emitter int64             // on their way to the bus
}

func divide(total int64) memory {
	events := admission.NewBudget(total / 4)
	return memory{
		events: events, order: events.Part(total / 8), turns: admission.NewBudget(total / 2), due: admission.NewBudget(total / 4),
		drains: admission.NewBudget(total / 8), probes: admission.NewBudget(total / 8),
		records: admission.NewBudget(total / 8), emitter: total / 8,
	}
}

// tight tells that first attempts or retries take more than half of their share.
func (m memory) tight() bool { return m.events.Tight() || m.due.Tight() }
