package hold

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"waybill.dev/services/dispatcher/internal/admission"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
)

// Streams keeps hold queues.
type Streams interface {
	Stream(name string) *bus.Stream
	SetAside(e *bus.Entry, cause error, done func(error))
}

const (
	// readBytes bounds the bytes of a hold queue that are read at once.
	readBytes = 1 << 20
	// unused is the time after which the bus deletes a consumer that was not closed. A worker that
	// drains asks more often.
	unused = time.Minute
)

// reader reads and drains the hold queues, which are subjects of HOLD.
type reader struct {
	streams Streams
	log     *slog.Logger
}

func (r reader) stream() *bus.Stream { return r.streams.Stream(bus.StreamHold) }

// queues returns the webhooks of a shard that have deliveries in their hold queue, with the number
// of deliveries of each.
func (r reader) queues(ctx context.Context, shard int) (map[domain.WebhookID]uint64, error) {
	subjects, err := r.stream().Subjects(ctx, bus.HoldSubjects(shard))
	if err != nil {
		return nil, err
	}
	queues := make(map[domain.WebhookID]uint64, len(subjects))
	for subject, n := range subjects {
		if id, ok := bus.WebhookOfSubject(subject); ok {
			queues[id] = n
		}
	}
	return queues, nil
}

// delivery is a delivery in a hold queue: it stays there until it is deleted.
type delivery struct {
	task     *domain.Task
	sequence uint64
}

// read returns up to most deliveries of a webhook's hold queue, in its order, from a sequence on. It
// returns fewer when their bodies take more than 1 MiB. It stops after the first delivery for which
// more returns false; a nil more never stops it. A delivery that can't be read is set aside. Each
// delivery costs a request.
func (r reader) read(ctx context.Context, id domain.WebhookID, from uint64, most int, more func(*domain.Task) bool) ([]delivery, error) {
	stream := r.stream()
	var list []delivery
	for size := 0; len(list) < most && size < readBytes; {
		entry, err := stream.Read(ctx, bus.HoldSubject(id), from)
		if err != nil {
			return nil, err
		}
		if entry == nil {
			break
		}
		from = entry.Sequence + 1
		task, cause := bus.ParseTask(entry.Header, entry.Body)
		if cause != nil {
			if err := r.setAside(ctx, entry, cause); err != nil {
				return nil, err
			}
			continue
		}
		list = append(list, delivery{task, entry.Sequence})
		size += len(entry.Body)
		if more != nil && !more(task) {
			break
		}
	}
	return list, nil
}

// setAside moves a message that can't be read to another stream, and waits until the message is there.
func (r reader) setAside(ctx context.Context, entry *bus.Entry, cause error) error {
	r.log.Error("held delivery can't be read and is set aside", "sequence", entry.Sequence, "error", cause)
	stored := make(chan error, 1)
	r.streams.SetAside(entry, cause, func(err error) { stored <- err })
	select {
	case err := <-stored:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return errors.Join(domain.ErrUnavailable, ctx.Err())
	}
	return r.remove(ctx, entry.Sequence)
}

// remove removes deliveries from their hold queues. It is no error if a delivery is gone already.
func (r reader) remove(ctx context.Context, sequences ...uint64) error {
	stream := r.stream()
	failed := make([]error, len(sequences))
	var deleting sync.WaitGroup
	for i, sequence := range sequences {
		deleting.Go(func() { failed[i] = stream.Delete(ctx, sequence) })
	}
	deleting.Wait()
	return errors.Join(failed...)
}

// queueConsumer is the consumer through which a hold queue is drained.
type queueConsumer struct {
	stream   *bus.Stream
	name     string
	consumer *bus.Consumer
}

// open starts to drain a hold queue. unacknowledged is how many deliveries are handed out at once at most.
func (r reader) open(ctx context.Context, id domain.WebhookID, unacknowledged int) (*queueConsumer, error) {
	o := &queueConsumer{stream: r.stream(), name: bus.HoldConsumer(id)}
	var err error
	o.consumer, err = o.stream.CreateConsumer(ctx, o.name, bus.HoldSubject(id), unacknowledged, unused)
	if err != nil {
		return nil, err
	}
	return o, nil
}

// fetch takes up to n deliveries, as many as there is room for. It waits for room, and then at most wait
// for the first delivery. If it returns an error and deliveries, the deliveries are in flight, too.
func (o *queueConsumer) fetch(ctx context.Context, inFlight *admission.Messages, n int, wait time.Duration) (list []*bus.Message, err error) {
	room, err := inFlight.ReserveTasks(ctx)
	if err != nil {
		return nil, err // told to stop
	}
	defer inFlight.Give(room)
	// A message that the server sends until the wait is over is in flight, and must not come again.
	err = o.consumer.Fetch(context.WithoutCancel(ctx), n, bus.FetchOptions{Wait: wait, Bytes: room}, func(m *bus.Message) {
		inFlight.Add(m)
		list = append(list, m)
	})
	if errors.Is(err, bus.ErrAway) {
		return nil, nil
	}
	return list, err
}

// close ends the draining. Deliveries that were not acknowledged stay in the hold queue.
func (o *queueConsumer) close(ctx context.Context) error {
	o.consumer.Close()
	return o.stream.DeleteConsumer(ctx, o.name)
}
