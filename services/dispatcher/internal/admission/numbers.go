package admission

import "time"

// All numbers of the package. The metric after a number shows how close a dispatcher is to it.
const (
	// maxAttempts is the highest number of attempts at once: waybill_bounded{what="attempts"}. Each has a
	// connection and a goroutine, some 25 KiB. Attempts that hang don't count. It is also the limit for
	// deliveries of wide events, {what="wide"}: more than the 10,000 of the largest event, so that
	// further events are taken beside one such event. And it is the limit for all deliveries in the
	// short queues of slow webhooks, {what="queued"}.
	maxAttempts = 16384
	// pressure is the number of attempts in flight above which a webhook with hanging attempts may
	// have only one: waybill_attempts_in_flight. That number includes attempts that hang, which must
	// not take all of maxAttempts.
	pressure = maxAttempts / 2
	// maxFast limits the deliveries of fast webhooks that are queued, or in flight for less than
	// a second: waybill_bounded{what="fast"}. At the limit no more events are taken. Slow webhooks and
	// hanging attempts don't count, because they must not slow down the reading of events.
	maxFast = maxAttempts / 4

	// HangAfter is how long an attempt takes until it hangs, and the longest that a delivery waits in
	// the short queue of a webhook that is not fast: waybill_attempts_hanging.
	HangAfter = time.Second
	// LookEvery is how often the process checks which attempts hang, which deliveries have waited
	// too long, and whether it is overloaded.
	LookEvery = 250 * time.Millisecond

	// WideFrom is the number of deliveries from which on an event is wide. While others wait, wide
	// events get every second place of the limiter only.
	WideFrom = 256
)

// The short queue of a webhook: waybill_deliveries_queued. Deliveries that overflow:
// waybill_deliveries_held_total{reason="overCapacity"}.
const (
	// The short queue may hold queueFactor times the webhook's limit of attempts: at most that for a
	// slow webhook, at least that for a fast one.
	queueFactor = 4
	// A webhook that takes fastRate deliveries a second from all dispatchers together is fast: it may
	// slow down the reading of events, and its short queue may hold what goes out in fastWait.
	// Storing a delivery in a hold queue and draining it costs more than twice as much as the delivery.
	fastRate = 1000
	fastWait = 500 * time.Millisecond
	// During overload, overloadRate and overloadWait are used instead.
	overloadRate = 50
	overloadWait = 2 * time.Second
	// durationWeight is the weight of the last attempt in the average of how long attempts take.
	durationWeight = 1.0 / 8
)

// The limiter: waybill_bounded{what="attempts"} and waybill_bounded_waiting{what="attempts"}.
const (
	// limitPerCore is how many attempts for each core may be in flight at once, so that they end before
	// they look like attempts that hang. On two cores, events for 1000 webhooks went out equally fast
	// with a limit of 1024 to 4096, and mostly at a tenth of that speed without a limit. Slow receivers
	// need a high limit.
	limitPerCore = 2048
	// roomLookInterval is how often the limiter looks whether outcomes can be stored again.
	roomLookInterval = 20 * time.Millisecond
)

// Overload: waybill_overloaded.
const (
	// The process is overloaded if, since the last look, one in overloadShare of its goroutines
	// waited for overloadAfter or longer until it ran, with at least overloadLeast goroutines in
	// the sample. On two cores that share was one in 6 at full load, with the database and the bus
	// on the same machine, and less than one in 10 at a hundredth of that load.
	overloadAfter = 0.0005 // seconds
	overloadShare = 8
	overloadLeast = 200
	// The process is also overloaded if its threads waited for a core that others used: on average
	// overloadThreads for each core that it may use, and overloadTimes as long as they ran. With
	// one to four dispatchers at full load on two cores, 0.7 to 2 threads a core waited, and 3 to
	// 10 times as long as they ran. The goroutines that run on these threads don't notice that.
	overloadThreads = 0.5
	overloadTimes   = 1.5
)

// The pacer: waybill_deliveries_paced.
const (
	// Every paceEvery a 125th of the waiting deliveries starts, at least one, so that a burst is
	// spread over about paceOver however large it is.
	paceEvery = 4 * time.Millisecond
	paceOver  = 500 * time.Millisecond
)
