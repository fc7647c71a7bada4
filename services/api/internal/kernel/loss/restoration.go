package loss

import (
	"hash/maphash"
	"time"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
)

// settleTime is how long after streams were made anew their restoration is completed by a
// second pass: by then every outcome that took effect on the lost streams has been
// published to RECORDS, whose content the second pass waits for.
const settleTime = 10 * time.Second

// tailClocks is by how much the clock of a dispatcher may be ahead of this one's, besides
// the time that the server was away: what reached its state later than that after the
// restart was found is on the restarted server. After a long outage that is what filled
// the hold queues at once; given back, it would be sent twice.
const tailClocks = time.Second

// Restoration is what a bus that lost something is being given back, in two passes: the first
// at once, the second when every outcome from before the loss is written.
type Restoration struct {
	// Found is what was lost.
	Found
	At       time.Time // when it was found
	seed     maphash.Seed
	begun    bool                       // the first pass is done
	restored map[uint64]domain.Revision // deliveries that were given back
}

// Begin begins to give back what was found lost now. What is lost while an earlier loss is
// being given back (earlier; nil: there is none) makes one loss with it, from the start,
// as far as the streams are still those of that loss.
func Begin(found Found, states map[string]State, earlier *Restoration, now time.Time) *Restoration {
	if earlier != nil {
		for name, at := range earlier.Streams {
			if _, again := found.Streams[name]; !again && states[name].Created.Equal(at) {
				found.Streams[name] = at
			}
		}
		if found.Tail.IsZero() || (!earlier.Tail.IsZero() && earlier.Tail.Before(found.Tail)) {
			found.Tail = earlier.Tail
		}
	}
	return &Restoration{
		Found: found, At: now, seed: maphash.MakeSeed(), restored: make(map[uint64]domain.Revision),
		// With the server alone restarted most likely nothing is missing: the records are waited for.
		begun: len(found.Streams) == 0,
	}
}

// has reports whether the contents of a stream that was made at a time were restored already.
func (r *Restoration) has(stream string, made time.Time) bool {
	if r == nil {
		return false
	}
	at, ok := r.Streams[stream]
	return ok && at.Equal(made)
}

// Begun says that the first pass is done, or is not needed.
func (r *Restoration) Begun() bool { return r.begun }

// SetBegun notes that the first pass is done.
func (r *Restoration) SetBegun() { r.begun = true }

// Ready reports whether the second pass may begin, given the age of the oldest record that is
// to be written (zero: none is): outcomes from before the loss are all written.
func (r *Restoration) Ready(now, oldestRecord time.Time) bool {
	return now.Sub(r.At) >= settleTime && (oldestRecord.IsZero() || !oldestRecord.Before(r.At.Add(settleTime)))
}

// Events says when EVENTS was made anew: what was accepted before is not on it.
func (r *Restoration) Events() (made time.Time, lost bool) {
	made, lost = r.Streams[bus.StreamEvents]
	return made, lost
}

// Deliveries reports whether deliveries that wait are to be given back.
func (r *Restoration) Deliveries() bool {
	return r.scheduled() || r.held() || r.ordered() || !r.Tail.IsZero()
}

// scheduled, held and ordered report whether the bus must be given back all retries, all held
// deliveries, or all deliveries that wait in the order of their shipment.
// When RECORDS was lost, what the database knows may be behind the other streams: all is
// given back then, and the dispatchers drop what is outdated.
func (r *Restoration) scheduled() bool { return r.lost(bus.StreamRetries, bus.StreamRecords) }
func (r *Restoration) held() bool      { return r.lost(bus.StreamHold, bus.StreamRecords) }

func (r *Restoration) ordered() bool { return r.lost(bus.StreamOrder, bus.StreamRecords) }

func (r *Restoration) lost(streams ...string) bool {
	for _, name := range streams {
		if _, ok := r.Streams[name]; ok {
			return true
		}
	}
	return false
}

// Since is the time before which no delivery that waits is missing; zero: all may be.
func (r *Restoration) Since() time.Time {
	if r.scheduled() || r.held() || r.ordered() {
		return time.Time{}
	}
	return r.Tail
}

// Waiting is a delivery that waits, as the database knows it.
type Waiting struct {
	Delivery  domain.DeliveryID
	Revision  domain.Revision
	Held      bool      // in a hold queue; otherwise it is scheduled
	Ordered   bool      // it waits in the order of its shipment, whatever else is set
	UpdatedAt time.Time // when it reached this state
}

// Missing reports whether a delivery is to be given back.
func (r *Restoration) Missing(w Waiting) bool {
	whole := r.scheduled()
	switch {
	case w.Ordered:
		whole = r.ordered()
	case w.Held:
		whole = r.held()
	}
	return !r.gaveBack(w) && (whole || r.inTail(w))
}

// gaveBack reports whether the state of a delivery was given back already. One that was
// recorded between the passes and reached before the loss is missing, too: of the older one
// that was given back nothing may come, for the log is ahead of it. What was reached
// since is on the new streams.
func (r *Restoration) gaveBack(w Waiting) bool {
	revision, ok := r.restored[r.hash(w.Delivery)]
	return ok && (revision >= w.Revision || w.UpdatedAt.After(r.At.Add(settleTime)))
}

// inTail reports whether the state of a delivery may have been among what a restarted
// server stored last.
func (r *Restoration) inTail(w Waiting) bool {
	return !r.Tail.IsZero() && !w.UpdatedAt.Before(r.Tail) && !w.UpdatedAt.After(r.At.Add(tailClocks))
}

// GaveBack notes that a delivery is back on the bus.
func (r *Restoration) GaveBack(id domain.DeliveryID, revision domain.Revision) {
	r.restored[r.hash(id)] = revision
}

// Restored counts the deliveries that were given back.
func (r *Restoration) Restored() int { return len(r.restored) }

func (r *Restoration) hash(id domain.DeliveryID) uint64 { return maphash.String(r.seed, string(id)) }
