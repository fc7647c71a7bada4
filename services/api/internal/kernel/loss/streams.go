package loss

import (
	"time"

	"waybill.dev/shared/domain"
)

// clocks is by how much the clocks of server and database may differ.
const clocks = 2 * time.Second

// tailMargin is how much older than the last look at the streams the state of a delivery may
// be that is brought back after a restart of the server: what is stored is on the disk
// within the server's sync interval, and marks are set once a second.
const tailMargin = 5 * time.Second

// State is how far a stream is.
type State struct {
	domain.StreamMark
	FirstSeq  uint64
	FirstTime time.Time // of the message FirstSeq; zero: the stream is empty
}

// Lost reports whether the stream has lost what it held when known was marked: it was made
// at another time, it is not as far as it was, or what it holds from before the mark
// was stored after it. The last two are what a power cut leaves behind.
func (s State) Lost(known domain.StreamMark) bool {
	return !known.Created.Equal(s.Created) || s.LastSeq < known.LastSeq ||
		(s.Server != known.Server && s.FirstSeq <= known.LastSeq && s.FirstTime.After(known.SeenAt.Add(clocks)))
}

// Found is what a comparison of the streams with their marks has found.
type Found struct {
	// Streams are those that have lost what they held, with the time at which they were made.
	Streams map[string]time.Time
	// Tail is since when the others may have lost what they stored; zero: they have not.
	Tail time.Time
}

// Compare compares streams with their marks. Those that being gives back already are left out
// (nil: there is none).
func Compare(states map[string]State, known map[string]domain.StreamMark, being *Restoration) Found {
	found := Found{Streams: make(map[string]time.Time)}
	restarted := false
	for name, state := range states {
		if being.has(name, state.Created) {
			continue
		}
		mark, marked := known[name]
		switch {
		case !marked: // a build that did not know it set the marks
		case state.Lost(mark):
			found.Streams[name] = state.Created
		case state.Server != mark.Server:
			restarted = true
		}
	}
	if restarted {
		found.Tail = lastLook(known).Add(-tailMargin)
	}
	return found
}

// lastLook returns when the streams were last known to be as far as their marks say. All of
// them are looked at each time, and only the marks of those that went on are set anew: one
// that is idle for days has an old mark, and nothing to lose since.
func lastLook(known map[string]domain.StreamMark) time.Time {
	var last time.Time
	for _, mark := range known {
		if mark.SeenAt.After(last) {
			last = mark.SeenAt
		}
	}
	return last
}

// Marks returns the marks that are to be set, where they are not known yet.
func Marks(states map[string]State, known map[string]domain.StreamMark) map[string]domain.StreamMark {
	marks := make(map[string]domain.StreamMark, len(states))
	for name, state := range states {
		old := known[name]
		if old.LastSeq != state.LastSeq || old.Server != state.Server || !old.Created.Equal(state.Created) {
			marks[name] = state.StreamMark
		}
	}
	return marks
}
