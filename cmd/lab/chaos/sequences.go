package main

import (
	"fmt"
	"sync"
)

// sequences is what one receiver that gets events in order has seen, judged as it came.
type sequences struct {
	// never tells of an event that this receiver never takes.
	never func(id string) bool

	mu      sync.Mutex
	lines   map[int64]*line
	numbers map[string]int64 // sequence by event
	taken   []string         // events as they were first answered well
	gaps    int              // that were marked
	posts   int
	bad     int // that were not answered well
	wrong   int
	faults  []string
}

// line is what came of one shipment.
type line struct {
	last  int64 // the highest sequence that was answered well
	ids   map[int64]string
	taken map[int64]bool
}

func newSequences(never func(id string) bool) *sequences {
	return &sequences{never: never, lines: make(map[int64]*line), numbers: make(map[string]int64)}
}

// post judges a POST that is answered well, or not. An event that was taken may come again. An event
// that was not taken must not come after a later one was taken. It must not come before an earlier one,
// either, unless that one will never be taken and the POST has the mark of a gap.
func (s *sequences) post(id string, shipment, sequence int64, marked, well bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.posts++
	if !well {
		s.bad++
	}
	l := s.lines[shipment]
	if l == nil {
		l = &line{ids: make(map[int64]string), taken: make(map[int64]bool)}
		s.lines[shipment] = l
	}
	if fault := s.judge(l, id, sequence, marked); fault != "" {
		s.wrong++
		if len(s.faults) < shown {
			s.faults = append(s.faults, fmt.Sprintf("shipment %d: %s with sequence %d %s", shipment, id, sequence, fault))
		}
	}
	if !well || l.taken[sequence] && l.ids[sequence] == id {
		return
	}
	s.taken = append(s.taken, id)
	if marked {
		s.gaps++
	}
	l.taken[sequence] = true
	l.last = max(l.last, sequence)
}

func (s *sequences) judge(l *line, id string, sequence int64, marked bool) string {
	number, known := s.numbers[id]
	other, given := l.ids[sequence]
	if !known {
		s.numbers[id] = sequence
	}
	if !given {
		l.ids[sequence] = id
	}
	switch {
	case sequence < 1:
		return "has no sequence"
	case known && number != sequence:
		return fmt.Sprintf("had %d before", number)
	case given && other != id:
		return "has that of " + other
	case l.taken[sequence]:
		return "" // a repeat
	case sequence < l.last:
		return fmt.Sprintf("comes after %d was taken", l.last)
	case sequence == l.last+1 && marked:
		return "has the mark of a gap, and there is none"
	case sequence > l.last+1 && !marked:
		return fmt.Sprintf("comes after %d without the mark of a gap", l.last)
	}
	for n := l.last + 1; n < sequence; n++ {
		if before, came := l.ids[n]; !came || !s.never(before) {
			return fmt.Sprintf("has the mark of a gap, but %d (%q) is still to come", n, before)
		}
	}
	return ""
}
