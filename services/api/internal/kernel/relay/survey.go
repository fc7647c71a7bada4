package relay

import (
	"context"
	"time"

	"waybill.dev/services/api/internal/kernel/loss"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
)

// Surveyed is the bus, with the questions that the relay asks about all of its streams.
type Surveyed struct{ *bus.Bus }

// Streams returns the state of each of Waybill's streams, at or after the time that is noted for
// all of them. So messages stored while the streams are read are not missed.
func (s Surveyed) Streams(ctx context.Context) (map[string]loss.State, error) {
	states := make(map[string]loss.State)
	seen := time.Now().UTC().Truncate(time.Microsecond)
	for _, name := range []string{bus.StreamEvents, bus.StreamRetries, bus.StreamHold, bus.StreamOrder, bus.StreamRecords} {
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

// Backlog is the work that the bus still has.
type Backlog struct {
	Events, Records uint64    // waiting messages, including those in flight
	OldestEvent     time.Time // publication of the oldest unacknowledged event; zero: none waits
	OldestRecord    time.Time // time of the oldest unwritten record; zero: none waits
	Scheduled, Held uint64
	Ordered         uint64 // deliveries that wait for their turn among those of their shipment
}

// Backlog asks the server for the positions of the consumers.
func (s Surveyed) Backlog(ctx context.Context) (b Backlog, err error) {
	events, err := s.EventsState(ctx)
	if err != nil {
		return b, err
	}
	b.Events = events.Pending + uint64(events.Unacknowledged)
	if b.OldestEvent, err = s.oldest(ctx, b.Events, bus.StreamEvents, bus.SubjectsEvents, events.Acknowledged); err != nil {
		return b, err
	}
	records, err := s.Stream(bus.StreamRecords).ConsumerState(ctx, bus.ConsumerRecord)
	if err != nil {
		return b, err
	}
	b.Records = records.Pending + uint64(records.Unacknowledged)
	if b.OldestRecord, err = s.oldest(ctx, b.Records, bus.StreamRecords, bus.SubjectRecords, records.Acknowledged); err != nil {
		return b, err
	}
	for stream, waiting := range map[string]*uint64{bus.StreamHold: &b.Held, bus.StreamRetries: &b.Scheduled, bus.StreamOrder: &b.Ordered} {
		state, err := s.Stream(stream).State(ctx)
		if err != nil {
			return b, err
		}
		*waiting = state.Messages
	}
	return b, nil
}

// oldest returns the age of the oldest message that was not acknowledged, if any waits.
func (s Surveyed) oldest(ctx context.Context, waiting uint64, stream, subject string, acknowledged uint64) (time.Time, error) {
	if waiting == 0 {
		return time.Time{}, nil
	}
	entry, err := s.Stream(stream).Read(ctx, subject, acknowledged+1)
	if err != nil || entry == nil {
		return time.Time{}, err
	}
	return entry.Time, nil
}
