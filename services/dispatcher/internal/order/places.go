package order

import "time"

// places puts events that REST accepted into the order of their places. An event without a place stays
// behind all events that came before it.
type places struct {
	next    int64                 // the place of the event that is taken next
	early   map[int64]*takenEvent // by place
	arrived []*takenEvent         // all events that wait, in the order of their arrival
	since   time.Time             // when the wait for next began; zero: nothing waits
	asked   time.Time             // when the relay was last asked for the event with the place next
	first   int64                 // the first value of next
	missed  []span                // places that were waited for in vain
	late    map[int64]bool        // places of missed whose event has come since
}

// span is a range of places: from is in it, below is not.
type span struct{ from, below int64 }

// begin begins at a place: all events with lower places are settled.
func (p *places) begin(next int64) {
	*p = places{next: next, first: next, early: make(map[int64]*takenEvent)}
}

// isCopy reports whether a message is a copy: this session has taken the event with that place already, or has gone
// past the place because the event has ended. The relay makes copies of events that an API is slow to publish.
func (p *places) isCopy(place int64) bool {
	switch {
	case place >= p.next:
		return p.early[place] != nil
	case place < p.first:
		return false
	}
	for _, s := range p.missed {
		if s.from <= place && place < s.below {
			come := p.late[place]
			p.late[place] = true
			return come
		}
	}
	return true
}

// add takes an event and returns the events whose deliveries may be made now, in order.
func (p *places) add(now time.Time, t *takenEvent) []*takenEvent {
	place := t.event.Place
	switch {
	case len(p.arrived) == 0 && place == p.next && place > 0:
		p.next++
		return []*takenEvent{t}
	case len(p.arrived) == 0 && place < p.next: // it has no place, or a lower place than next
		return []*takenEvent{t}
	}
	if len(p.arrived) == 0 {
		p.since = now
	}
	p.arrived = append(p.arrived, t)
	if place >= p.next {
		p.early[place] = t
	}
	return p.ready(now)
}

// passOver goes on at the place to without the missing events before it, which may still come.
func (p *places) passOver(now time.Time, to int64) []*takenEvent {
	p.missed = append(p.missed, span{p.next, to})
	if p.late == nil {
		p.late = make(map[int64]bool)
	}
	return p.skip(now, to)
}

// skip goes on at the place to, because no event with a lower place will come.
func (p *places) skip(now time.Time, to int64) []*takenEvent {
	p.next = to
	return p.ready(now)
}

// ready returns the events whose turn it is. The event that arrived first goes first unless it waits for its place,
// so that the order does not depend on how many events were waiting.
func (p *places) ready(now time.Time) (list []*takenEvent) {
	for {
		for len(p.arrived) > 0 && p.arrived[0].out {
			p.arrived = p.arrived[1:]
		}
		t := p.early[p.next]
		switch {
		case len(p.arrived) > 0 && p.arrived[0].event.Place < p.next:
			t = p.arrived[0]
		case t != nil:
			delete(p.early, p.next)
			p.next++
		}
		if t == nil {
			break
		}
		t.out = true
		list = append(list, t)
	}
	if len(list) > 0 {
		p.since, p.asked = now, time.Time{}
	}
	if len(p.arrived) == 0 {
		p.arrived, p.since = nil, time.Time{}
	}
	return list
}

// lowest returns the lowest place that waits.
func (p *places) lowest() int64 {
	low := int64(0)
	for place := range p.early {
		if low == 0 || place < low {
			low = place
		}
	}
	return low
}
