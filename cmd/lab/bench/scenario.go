package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"waybill.dev/cmd/lab/internal/load"
)

// The two forms that Waybill ships in.
const (
	formSplit    = "split"
	formAllInOne = "all-in-one"
)

// scenario is one way to use Waybill.
type scenario struct {
	name     string
	what     string
	way      string
	webhooks int // each gets every event
	// rate is in events a second; 0: as many as are accepted.
	rate        float64
	connections int
	// perSecond bounds what is published as fast as it is accepted, for what is accepted
	// much faster than it can be delivered would be a backlog and nothing else.
	perSecond int
	delay     time.Duration // of the receiver's answer
	inFlight  int           // of each webhook; 0: the default
}

const (
	batchEvents  = 100
	busPending   = 4096
	maxPerSecond = 100_000 // events, of what is not bounded otherwise
	// quickDeliveries bound a scenario of a quick run, whatever is accepted in its second.
	quickDeliveries = 20_000
)

func scenarios() []scenario {
	return []scenario{
		{
			name: "rest-1", what: "REST one by one to 1 webhook", way: load.WayREST, webhooks: 1, connections: 64,
		},
		{
			name: "rest-10", what: "REST one by one to 10 webhooks", way: load.WayREST, webhooks: 10, connections: 64, perSecond: 10_000,
		},
		{
			name: "batch-1", what: fmt.Sprintf("REST batches of %d to 1 webhook", batchEvents), way: load.WayBatch, webhooks: 1, connections: 8,
			perSecond: 40_000,
		},
		{
			name: "batch-10", what: fmt.Sprintf("REST batches of %d to 10 webhooks", batchEvents), way: load.WayBatch, webhooks: 10, connections: 8,
			perSecond: 10_000,
		},
		{
			name: "nats-1", what: "NATS to 1 webhook", way: load.WayNATS, webhooks: 1, connections: 1, perSecond: 40_000,
		},
		{
			name: "nats-10", what: "NATS to 10 webhooks", way: load.WayNATS, webhooks: 10, connections: 1, perSecond: 10_000,
		},
		{
			name: "latency-100", what: "100 events/s over REST to 1 webhook", way: load.WayREST, webhooks: 1, rate: 100, connections: 8,
		},
		{
			name: "latency-1000", what: "1000 events/s over REST to 10 webhooks", way: load.WayREST, webhooks: 10, rate: 1000, connections: 32,
		},
		{
			name: "slow", what: "REST one by one to 1 webhook that takes 100 ms, 2000 in flight", way: load.WayREST, webhooks: 1, connections: 64,
			delay: 100 * time.Millisecond, inFlight: 2000,
		},
	}
}

// events is how many events a scenario publishes at most.
func (s scenario) events(o options) int {
	perSecond := maxPerSecond
	if s.perSecond > 0 {
		perSecond = s.perSecond
	}
	most := int(float64(perSecond) * o.duration.Seconds())
	if o.quick {
		most = min(most, quickDeliveries/max(1, s.webhooks))
	}
	return most
}

func scenarioNames() []string {
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	return names
}

// choose returns the elements of all whose names are in a list separated by commas; an
// empty list, or «all», takes all.
func choose[T any](all []T, list string, name func(T) string) ([]T, error) {
	if list == "" || list == "all" {
		return all, nil
	}
	var chosen []T
	for wanted := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(all, func(one T) bool { return name(one) == wanted })
		if i < 0 {
			var names []string
			for _, one := range all {
				names = append(names, name(one))
			}
			return nil, fmt.Errorf("there is no %q; there are %s", wanted, strings.Join(names, ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}
