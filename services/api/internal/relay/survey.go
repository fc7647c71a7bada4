package relay

import (
	"context"
	"time"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/loss"
)

// Surveyed is the bus with what the relay asks about all of its streams.
type Surveyed struct{ *bus.Bus }

// Streams returns how far each of Waybill's streams is, or was after the time at which all
// of them are noted as seen: what is stored while they are asked for is not passed over.
func (s Surveyed) Streams(ctx context.Context) (map[string]loss.State, error) {
	states := make(map[string]loss.State)
	seen := time.Now().UTC().Truncate(time.Microsecond)
	for _, name := range []string{bus.StreamEvents, bus.StreamRetries, bus.StreamHold, bus.StreamRecords} {
		state, err := s.Stream(name).State(ctx)
		if err != nil {
			return nil, err
		}
		states[name] = loss.State{
			StreamMark: domain.StreamMark{Created: state.Created, LastSeq: state.LastSeq, Server: state.Server, SeenAt: seen},
			FirstSeq:   state.FirstSeq, FirstTime: state.FirstTime,
		}
	}
	return states, nil
}

// Backlog is what the bus still has to do.
type Backlog struct {
	Events, Records uint64    // messages that wait, those in flight included
	OldestEvent     time.Time // publication of the oldest unacknowledged event; zero: none waits
	OldestRecord    time.Time // of the oldest unwritten records; zero: none waits
	Scheduled, Held uint64
}

// Backlog asks the server how far the consumers are.
func (s Surveyed) Backlog(ctx context.Context) (b Backlog, err error) {
	if b.Events, b.OldestEvent, err = s.behind(ctx, bus.StreamEvents, bus.ConsumerFanout, bus.SubjectsEvents); err != nil {
		return b, err
	}
	if b.Records, b.OldestRecord, err = s.behind(ctx, bus.StreamRecords, bus.ConsumerRecord, bus.SubjectRecords); err != nil {
		return b, err
	}
	hold, err := s.Stream(bus.StreamHold).State(ctx)
	if err != nil {
		return b, err
	}
	retries, err := s.Stream(bus.StreamRetries).State(ctx)
	b.Held, b.Scheduled = hold.Messages, retries.Messages
	return b, err
}

// behind says how many messages a consumer has not acknowledged, and how old the oldest of
// them is.
func (s Surveyed) behind(ctx context.Context, stream, consumer, subject string) (waiting uint64, oldest time.Time, err error) {
	state, err := s.Stream(stream).ConsumerState(ctx, consumer)
	if err != nil {
		return 0, time.Time{}, err
	}
	if waiting = state.Pending + uint64(state.Unacknowledged); waiting == 0 {
		return 0, time.Time{}, nil
	}
	entry, err := s.Stream(stream).Read(ctx, subject, state.Acknowledged+1)
	if err != nil || entry == nil {
		return waiting, time.Time{}, err
	}
	return waiting, entry.Time, nil
}
