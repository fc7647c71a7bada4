package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Room is how full EVENTS is.
type Room struct {
	Bytes, MaxBytes uint64 // MaxBytes 0: no limit
	Dropped         uint64 // events that were done and were dropped to make room
}

// needsRoom reports whether room must be made: from three quarters on.
func (r Room) needsRoom() bool { return r.MaxBytes > 0 && r.Bytes >= r.MaxBytes/4*3 }

// MakeRoom drops the oldest done events of EVENTS, half of the done events at a time, while the
// stream is three quarters full. It drops later events last, because a server that starts reads
// from them which ids were published a moment ago. Events that are not done always stay; when they
// fill the stream, it refuses new events.
func (b *Bus) MakeRoom(ctx context.Context) (Room, error) {
	var room Room
	for {
		info, err := b.info(ctx, StreamEvents)
		if err != nil {
			return room, err
		}
		room.Bytes, room.MaxBytes = info.State.Bytes, uint64(max(info.Config.MaxBytes, 0))
		if !room.needsRoom() {
			return room, nil
		}
		all, err := b.EventsState(ctx)
		if err != nil {
			return room, err
		}
		first, done := info.State.FirstSeq, min(all.Acknowledged, info.State.LastSeq)
		if info.State.Msgs == 0 || done < first {
			return room, nil
		}
		stream, err := b.js.Stream(ctx, StreamEvents)
		if err == nil {
			err = stream.Purge(ctx, jetstream.WithPurgeSequence(first+(done-first)/2+1))
		}
		if err != nil {
			return room, unavailable("make room in "+StreamEvents, err)
		}
		room.Dropped += (done-first)/2 + 1
	}
}

// The least sizes of the streams that have a limit. REJECTED needs little, because only people read it.
const (
	leastEvents   = 64 << 20
	leastRejected = 1 << 20
)

// leastOf returns the least size of a stream in bytes; 0: the stream has no limit, and the server reserves nothing for it.
func leastOf(config jetstream.StreamConfig) int64 {
	switch config.Name {
	case StreamEvents:
		return leastEvents
	case StreamRejected:
		return leastRejected
	}
	return 0
}

// NoRoomError says that the server has less storage left than a stream needs. Without the stream
// nothing is delivered.
type NoRoomError struct {
	Stream string
	Bytes  int64 // how many the stream needs at least
	err    error
}

// Error implements error.
func (e *NoRoomError) Error() string {
	return fmt.Sprintf("stream %s needs %d MiB, and the NATS server has less left for streams", e.Stream, e.Bytes>>20)
}

// Unwrap implements errors.Unwrap.
func (e *NoRoomError) Unwrap() error { return e.err }

// Missing returns a NoRoomError if the last Ensure found no room for a stream, otherwise nil.
func (b *Bus) Missing() *NoRoomError { return b.missing.Load() }

// noSpace and noStorage are the codes with which a server refuses a stream that is larger than the
// server's limit, by default three quarters of the disk.
const (
	noSpace   jetstream.ErrorCode = 10047
	noStorage jetstream.ErrorCode = 10023
)

// noRoom reports whether err is such a refusal.
func noRoom(err error) bool {
	var refused *jetstream.APIError
	return errors.As(err, &refused) && (refused.ErrorCode == noSpace || refused.ErrorCode == noStorage)
}

// ensureSized makes a stream with the configured size or, if the server refuses that, with a half, a quarter and so on.
func (b *Bus) ensureSized(ctx context.Context, config jetstream.StreamConfig) error {
	set, least := config.MaxBytes, leastOf(config)
	for {
		err := b.ensureStream(ctx, config)
		if noRoom(err) && least > 0 && config.MaxBytes >= 2*least {
			config.MaxBytes /= 2
			continue
		}
		if noRoom(err) && least > 0 {
			return &NoRoomError{Stream: config.Name, Bytes: least, err: err}
		}
		if err == nil && b.noteSize(config) && config.MaxBytes < set {
			b.log.Warn("the bus has no space for a stream of the size that is set; the stream is smaller", "stream", config.Name, "bytes", config.MaxBytes, "set", set)
		}
		return err
	}
}

// giveWay makes REJECTED, if it exists, as small as possible, because EVENTS needs the room. Later REJECTED gets as
// much as EVENTS has left.
func (b *Bus) giveWay(ctx context.Context) error {
	stream, err := b.js.Stream(ctx, StreamRejected)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err == nil {
		config := stream.CachedInfo().Config
		config.MaxBytes = leastRejected
		_, err = b.js.UpdateStream(ctx, config)
	}
	if err != nil {
		return unavailable("make "+StreamRejected+" smaller", err)
	}
	return nil
}

// noteSize notes the size of a stream; false: the size was known.
func (b *Bus) noteSize(config jetstream.StreamConfig) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sizes[config.Name] == config.MaxBytes {
		return false
	}
	b.sizes[config.Name] = config.MaxBytes
	return true
}
