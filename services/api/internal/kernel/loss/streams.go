package loss

import (
	"time"

	"waybill.dev/shared/domain"
)

// clocks is the maximum difference between the clocks of server and database.
const clocks = 2 * time.Second

// tailMargin is how much older than the last check of the streams a state of a delivery may be to
// be restored after a restart of the server: stored messages reach the disk within the server's
// sync interval, and marks are set once a second.
const tailMargin = 5 * time.Second

// State is how far a stream is.
type State struct {
	domain.StreamMark
	FirstSeq  uint64
	FirstTime time.Time // of the message FirstSeq; zero: the stream is empty
}

// Lost reports whether the stream has lost messages that it held at the mark known: it was made at
// another time, it is not as far as the mark, or its messages from before the mark were stored
// after it. The last two happen at a power cut.
func (s State) Lost(known domain.StreamMark) bool {
	return !known.Created.Equal(s.Created) || s.LastSeq < known.LastSeq ||
		(s.Server != known.Server && s.FirstSeq <= known.LastSeq && s.FirstTime.After(known.SeenAt.Add(clocks)))
}

// Found is the result of comparing the streams with their marks.
type Found struct {
	// Streams are the streams that have lost their content, with the time at which they were made.
	Streams map[string]time.Time
	// Tail is since when the other streams may have lost messages; zero: they have not.
	Tail time.Time
}

// Compare compares streams with their marks. It leaves out losses that being already restores (nil:
// there is none).
func Compare(states map[string]State, known map[string]domain.StreamMark, being *Restoration) Found {
	found := Found{Streams: make(map[string]time.Time)}
	restarted := false
	for name, state := range states {
		if being.has(name, state.Created) {
			continue
		}
		mark, marked := known[name]
		switch {
		case !marked: // the marks were set by a build that did not know the stream
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

// lastLook returns when the streams were last known to match their marks. All of them are checked
// each time, but only the marks of those that have advanced are set again: a stream that is idle
// for days has an old mark, and nothing to lose since.
func lastLook(known map[string]domain.StreamMark) time.Time {
	var last time.Time
	for _, mark := range known {
		if mark.SeenAt.After(last) {
			last = mark.SeenAt
		}
	}
	return last
}

// Marks returns the marks to set: those that differ from the known ones.
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
