package order

import "time"

// places puts events that REST accepted into the order of their places. An event without a place stays
// behind all that came before it.
type places struct {
	next    int64            // that is taken in
	early   map[int64]*taken // by place
	arrived []*taken         // all that wait, as they came
	since   time.Time        // when the wait for next began; zero: nothing waits
	asked   time.Time        // when the relay was last asked for it
	first   int64            // that next has been
	missed  []span           // were waited for in vain
	late    map[int64]bool   // of these have come since
}

// span has the places from one on and below another.
type span struct{ from, below int64 }

// begin begins with a place: all before it are settled.
func (p *places) begin(next int64) {
	*p = places{next: next, first: next, early: make(map[int64]*taken)}
}

// copied reports whether this session has an event already, or goes on behind its end: the message is a copy of
// another one. The relay makes copies of what an API is slow to publish.
func (p *places) copied(place int64) bool {
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

// add takes an event and returns those that may be taken in now, in order.
func (p *places) add(now time.Time, t *taken) []*taken {
	place := t.event.Place
	switch {
	case len(p.arrived) == 0 && place == p.next && place > 0:
		p.next++
		return []*taken{t}
	case len(p.arrived) == 0 && place < p.next: // without one, or one that came before
		return []*taken{t}
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

// miss goes on at a place without the events before it, which may still come.
func (p *places) miss(now time.Time, to int64) []*taken {
	p.missed = append(p.missed, span{p.next, to})
	if p.late == nil {
		p.late = make(map[int64]bool)
	}
	return p.skip(now, to)
}

// skip goes on at a place, as no event with an earlier place will come.
func (p *places) skip(now time.Time, to int64) []*taken {
	p.next = to
	return p.ready(now)
}

// ready returns the events whose turn it is. The event that came first goes first unless it waits for its place, so
// that the order does not depend on how many events were waiting.
func (p *places) ready(now time.Time) (list []*taken) {
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
