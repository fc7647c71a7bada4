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
}

func (p *places) reset() { p.early = make(map[int64]*taken) }

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

// skip goes on at a place: no event with an earlier one will come.
func (p *places) skip(now time.Time, to int64) []*taken {
	p.next = to
	return p.ready(now)
}

// ready returns the events whose turn it is.
func (p *places) ready(now time.Time) (list []*taken) {
	for {
		if t := p.early[p.next]; t != nil {
			delete(p.early, p.next)
			p.next++
			t.out = true
			list = append(list, t)
			continue
		}
		for len(p.arrived) > 0 && p.arrived[0].out {
			p.arrived = p.arrived[1:]
		}
		if len(p.arrived) == 0 || p.arrived[0].event.Place >= p.next {
			break
		}
		delete(p.early, p.arrived[0].event.Place)
		p.arrived[0].out = true
		list = append(list, p.arrived[0])
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
