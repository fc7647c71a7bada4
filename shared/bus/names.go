package bus

import (
	"strconv"
	"strings"

	"waybill.dev/shared/domain"
)

// The streams.
const (
	StreamEvents   = "EVENTS"   // events as published, over REST and on NATS
	StreamRetries  = "RETRIES"  // one schedule for each delivery that waits for its next attempt
	StreamHold     = "HOLD"     // the hold queues: deliveries of inactive, broken or overfull webhooks
	StreamOrder    = "ORDER"    // deliveries that wait for their turn among those of their shipment
	StreamRecords  = "RECORDS"  // outcomes on their way to the database
	StreamRejected = "REJECTED" // messages that are not valid events, with the reason
)

// The durable consumers.
const (
	ConsumerFanout = "fanout" // of EVENTS
	ConsumerRecord = "record" // of RECORDS
	consumerDue    = "due-"   // and the shard, of RETRIES
	consumerHold   = "lane-"  // and the webhook, of HOLD
	consumerOrder  = "order-" // and the account and a number, of EVENTS
	// PinGroup is the one priority group of pinned consumers. A pinned consumer serves only one
	// process at a time; another process takes over within seconds after that one is gone.
	PinGroup = "owner"
)

// Core subjects on which processes notify each other. A notification may be lost; the change that
// it announces is also found by polling.
const (
	SubjectConfig      = "waybill.config"      // a webhook changed; body: the configuration version
	SubjectHealth      = "waybill.health"      // a webhook was disabled or recovered; body: JSON
	SubjectRelay       = "waybill.relay"       // a request waits in the database
	SubjectDispatchers = "waybill.dispatchers" // heartbeat of a dispatcher; body: JSON
	SubjectHold        = "waybill.lane"        // a hold queue has content; body: the webhook's id
	SubjectCircuit     = "waybill.circuit"     // a circuit opened or closed; body: JSON
	SubjectOrder       = "waybill.order"       // the order of an account begins, or what waits in it was restored; body: see ParseOrderNews
	SubjectJobs        = "waybill.jobs"        // a job was cancelled; body: its id
	SubjectKeys        = "waybill.keys"        // API keys changed; body: the process that says so
	SubjectGateway     = "waybill.gateway"     // what gateways serve has changed, or a build waits; body: empty
	SubjectWatch       = "waybill.watch"       // a client watches an account for the next seconds; body: the account's name
)

// The subjects of messages that are acknowledged.
const (
	SubjectsEvents = subjectEvents + ">"
	SubjectRecords = "records"
)

const (
	subjectEvents   = "events."
	subjectRejected = "rejected."
	subjectDue      = "d."
	subjectSchedule = "r."
	subjectHold     = "hold."
	subjectOrder    = "order."
	subjectLive     = "waybill.live."
	// Answers to announcements go here and not to an inbox: each user may publish under
	// waybill.>, but only its owner may use an inbox.
	subjectAnswer = "waybill.answer."
)

// DueConsumer returns the name of the consumer of a shard's due deliveries.
func DueConsumer(shard int) string { return consumerDue + strconv.Itoa(shard) }

// HoldConsumer returns the name of the consumer through which a webhook's hold queue is drained.
func HoldConsumer(w domain.WebhookID) string { return consumerHold + w.Token() }

// OrderConsumer returns the name of the consumer that hands out the events of an account in order. Each
// owner makes the next generation of that consumer, from 1 on.
func OrderConsumer(account string, generation uint64) string {
	return consumerOrder + account + "-" + strconv.FormatUint(generation, 10)
}

// parseOrderConsumer reads the account and the generation from the name of such a consumer.
func parseOrderConsumer(name string) (account string, generation uint64, ok bool) {
	rest, ok := strings.CutPrefix(name, consumerOrder)
	cut := strings.LastIndexByte(rest, '-')
	if !ok || cut < 1 {
		return "", 0, false
	}
	generation, err := strconv.ParseUint(rest[cut+1:], 10, 64)
	return rest[:cut], generation, err == nil
}

// OrderSubject returns the subject that a delivery is kept on while it waits for its turn.
func OrderSubject(t *domain.Task) string {
	return subjectOrder + t.Account + "." + t.Webhook.Token() + "." + string(t.Delivery)
}

// orderSubjects returns the pattern of the subjects of an account's deliveries that wait for their turn.
func orderSubjects(account string) string { return subjectOrder + account + ".>" }

// EventSubject returns the subject that events of account and type t are published on.
func EventSubject(account string, t domain.EventType) string {
	return subjectEvents + account + "." + string(t)
}

// ParseEventSubject splits an event subject into account and type. Neither is checked: callers
// check the type.
func ParseEventSubject(subject string) (account string, t domain.EventType, ok bool) {
	rest, ok := strings.CutPrefix(subject, subjectEvents)
	if !ok {
		return "", "", false
	}
	account, kind, ok := strings.Cut(rest, ".")
	return account, domain.EventType(kind), ok && account != ""
}

// LiveSubject returns the core subject for changes in an account; body: JSON, the ids of what
// changed, by kind.
func LiveSubject(account string) string { return subjectLive + account }

// RejectedSubject returns the subject that rejected messages of account are kept on.
func RejectedSubject(account string) string { return subjectRejected + account }

func shardOf(w domain.WebhookID) string { return strconv.Itoa(w.Shard()) }

func dueSubject(w domain.WebhookID) string {
	return subjectDue + shardOf(w) + "." + w.Token()
}

func scheduleSubject(w domain.WebhookID, d domain.DeliveryID) string {
	return subjectSchedule + shardOf(w) + "." + w.Token() + "." + string(d)
}

// HoldSubject returns the hold queue of a webhook.
func HoldSubject(w domain.WebhookID) string {
	return subjectHold + shardOf(w) + "." + w.Token()
}

// dueSubjects returns the pattern of the subjects of a shard's due deliveries.
func dueSubjects(shard int) string { return subjectDue + strconv.Itoa(shard) + ".>" }

// HoldSubjects returns the pattern of the subjects of a shard's hold queues.
func HoldSubjects(shard int) string { return subjectHold + strconv.Itoa(shard) + ".>" }

// WebhookOfSubject returns the webhook that a subject of RETRIES or HOLD names.
func WebhookOfSubject(subject string) (domain.WebhookID, bool) {
	parts := strings.Split(subject, ".")
	if len(parts) < 3 {
		return "", false
	}
	return domain.WebhookFromToken(parts[2])
}
