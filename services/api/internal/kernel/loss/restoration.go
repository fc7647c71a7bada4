package loss

import (
	"hash/maphash"
	"time"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
)

// settleTime is the time between the creation of new streams and the second pass, which completes
// their restoration: by then every outcome that took effect on the lost streams has been published to
// RECORDS, and the second pass waits for the content of RECORDS.
const settleTime = 10 * time.Second

// tailClocks is how far the clock of a dispatcher may be ahead of this one's, in addition to the time
// that the server was away. A state that was reached later than that after the restart was noticed is
// on the restarted server. After a long outage these states fill the hold queues at once; if they
// were given back, they would be sent twice.
const tailClocks = time.Second

// Restoration is the restoration of what the bus has lost, in two passes: the first at once, the
// second when every outcome from before the loss is written.
type Restoration struct {
	// Found is what was lost.
	Found
	At       time.Time // when the loss was found
	seed     maphash.Seed
	begun    bool                       // the first pass is done
	restored map[uint64]domain.Revision // deliveries that were given back
}

// Begin begins to restore a loss that was found now. If an earlier loss is still being restored
// (earlier; nil: there is none), both are restored together from the start, as far as the streams are
// still those of the earlier loss.
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
		// If only the server was restarted, most likely nothing is missing: the restoration waits for
		// the records.
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

// Ready reports whether the second pass may begin: whether all outcomes from before the loss are
// written. oldestRecord is the age of the oldest unwritten record; zero: there is none.
func (r *Restoration) Ready(now, oldestRecord time.Time) bool {
	return now.Sub(r.At) >= settleTime && (oldestRecord.IsZero() || !oldestRecord.Before(r.At.Add(settleTime)))
}

// Events returns when EVENTS was made again: the stream does not have events that were accepted
// before.
func (r *Restoration) Events() (made time.Time, lost bool) {
	made, lost = r.Streams[bus.StreamEvents]
	return made, lost
}

// Deliveries reports whether waiting deliveries have to be restored.
func (r *Restoration) Deliveries() bool {
	return r.scheduled() || r.held() || r.ordered() || !r.Tail.IsZero()
}

// scheduled, held and ordered report whether all retries, all held deliveries, or all deliveries that
// wait in the order of their shipment must be restored. When RECORDS was lost, the database may be
// behind the other streams: then everything is restored, and the dispatchers drop outdated states.
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

// Since is the time before which no waiting delivery is missing; zero: all may be missing.
func (r *Restoration) Since() time.Time {
	if r.scheduled() || r.held() || r.ordered() {
		return time.Time{}
	}
	return r.Tail
}

// Waiting is a waiting delivery, as the database knows it.
type Waiting struct {
	Delivery  domain.DeliveryID
	Revision  domain.Revision
	Held      bool      // in a hold queue; otherwise it is scheduled
	Ordered   bool      // it waits in the order of its shipment, whatever the other fields say
	UpdatedAt time.Time // when it reached its state
}

// Missing reports whether a delivery has to be restored.
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

// gaveBack reports whether the state of a delivery has been restored already. A state that was
// reached before the loss and recorded between the passes is missing, too: the older state that was
// restored may have no effect, because the log is ahead of it. States that were reached after the
// loss are on the new streams.
func (r *Restoration) gaveBack(w Waiting) bool {
	revision, ok := r.restored[r.hash(w.Delivery)]
	return ok && (revision >= w.Revision || w.UpdatedAt.After(r.At.Add(settleTime)))
}

// inTail reports whether the state of a delivery may be among the last ones that a restarted server
// stored.
func (r *Restoration) inTail(w Waiting) bool {
	return !r.Tail.IsZero() && !w.UpdatedAt.Before(r.Tail) && !w.UpdatedAt.After(r.At.Add(tailClocks))
}

// GaveBack notes that a delivery is back on the bus.
func (r *Restoration) GaveBack(id domain.DeliveryID, revision domain.Revision) {
	r.restored[r.hash(id)] = revision
}

// Restored returns the number of restored deliveries.
func (r *Restoration) Restored() int { return len(r.restored) }

func (r *Restoration) hash(id domain.DeliveryID) uint64 { return maphash.String(r.seed, string(id)) }
