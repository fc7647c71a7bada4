package bus

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"waybill.dev/shared/domain"
)

// Headers that schedule a message (ADR-51). They are written by hand, because the client's helper
// cuts the time to whole seconds, so that a schedule would fire up to a second early.
const (
	headerSchedule       = "Nats-Schedule"
	headerScheduleTarget = "Nats-Schedule-Target"
)

// early is how long before its time the bus hands out a scheduled delivery. nats-server looks at
// schedules every 250 ms, so otherwise a delivery could come 250 ms late. The process that consumes
// the delivery waits until DueAt.
const early = 250 * time.Millisecond

// headerDue is the header with the time at which a delivery is due: microseconds since 1970.
const headerDue = "Waybill-Due"

// Schedule stores task so that it becomes due at the given time, and calls done exactly once. A
// delivery has one schedule: a later one replaces an earlier one. The bus hands the delivery out up
// to 250 ms before its time, see DueAt. A delivery that is due within 250 ms gets no schedule: the
// bus hands it out at once.
func (b *Bus) Schedule(task *domain.Task, at time.Time, done func(error)) {
	msg := taskMessage(scheduleSubject(task.Webhook, task.Delivery), task)
	left := time.Until(at)
	if left > 0 {
		msg.Header[headerDue] = []string{strconv.FormatInt(at.UnixMicro(), 10)}
	}
	if left > 0 && left <= early {
		msg.Subject = dueSubject(task.Webhook)
		// The stream keeps only one message with this id if it is published twice.
		msg.Header[jetstream.MsgIDHeader] = []string{string(task.Delivery) + "." + strconv.FormatInt(int64(task.Rev), 36)}
	} else {
		setSchedule(msg.Header, task.Webhook, at.Add(-early))
	}
	b.publishTask(b.schedules, msg, done)
}

// setSchedule makes the server move a message to its webhook's due deliveries at a time. If that
// time is past, the server moves it at its next look.
func setSchedule(header nats.Header, webhook domain.WebhookID, at time.Time) {
	header[headerSchedule] = []string{"@at " + at.UTC().Format(time.RFC3339Nano)}
	header[headerScheduleTarget] = []string{dueSubject(webhook)}
}

// DueAt returns when the delivery in a message of RETRIES is due; zero: now.
func DueAt(header map[string][]string) time.Time {
	values := header[headerDue]
	if len(values) != 1 {
		return time.Time{}
	}
	micros, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// Hold appends task to its webhook's hold queue and calls done exactly once.
func (b *Bus) Hold(task *domain.Task, done func(error)) {
	b.publishTask(b.holds, taskMessage(HoldSubject(task.Webhook), task), done)
}

// publishTask publishes a message when the stream's window allows it, and calls done exactly once.
func (b *Bus) publishTask(w *window, msg *nats.Msg, done func(error)) {
	w.enter(func() {
		b.acks.publish(msg, func(_ bool, err error) {
			w.leave(err)
			done(err)
		})
	}, done)
}

// taskVersion is the first field of a task; see Formats.
const taskVersion = "1"

const (
	flagTest = 1 << iota
	flagOverflowed
	flagWrongSecret
	flagOldTime
)

func taskMessage(subject string, t *domain.Task) *nats.Msg {
	text := make([]byte, 0, 256)
	field := func(s string) {
		if s == "" {
			s = "-"
		}
		text = append(text, s...)
		text = append(text, ' ')
	}
	number := func(n int64) {
		text = strconv.AppendInt(text, n, 10)
		text = append(text, ' ')
	}
	field(taskVersion)
	field(string(t.Delivery))
	field(t.Account)
	field(t.Webhook.Token())
	field(t.EventID)
	field(string(t.EventType))
	number(int64(t.EventSeq))
	number(millis(t.ReceivedAt))
	number(int64(t.Attempts))
	number(int64(t.RunAttempts))
	number(millis(t.RunStartedAt))
	number(int64(t.Rev))
	flags := int64(0)
	if t.Test {
		flags |= flagTest
	}
	if t.Overflowed {
		flags |= flagOverflowed
	}
	switch t.Forge {
	case domain.ForgeWrongSecret:
		flags |= flagWrongSecret
	case domain.ForgeOldTime:
		flags |= flagOldTime
	}
	number(flags)
	field(t.Request)
	number(millis(t.HeldAt))
	header := nats.Header{headerTask: {string(text[:len(text)-1])}}
	if t.TraceParent != "" {
		header[headerTraceParent] = []string{t.TraceParent}
	}
	return &nats.Msg{Subject: subject, Header: header, Data: t.Body}
}

// ErrTask is returned for a message in RETRIES or HOLD that has no task.
var ErrTask = errors.New("not a task")

// ParseTask reads the task in a message of RETRIES or HOLD. The error is ErrTask or ErrVersion.
func ParseTask(header map[string][]string, body []byte) (*domain.Task, error) {
	values := header[headerTask]
	if len(values) != 1 {
		return nil, fmt.Errorf("read task header: %w", ErrTask)
	}
	parts := strings.Split(values[0], " ")
	if _, err := strconv.ParseUint(parts[0], 10, 32); err == nil && parts[0] != taskVersion {
		return nil, fmt.Errorf("read task: version %s, %w", parts[0], ErrVersion)
	}
	if len(parts) != 15 || parts[0] != taskVersion {
		return nil, fmt.Errorf("read task version: %w", ErrTask)
	}
	webhook, ok := domain.WebhookFromToken(parts[3])
	if !ok {
		return nil, fmt.Errorf("read task webhook: %w", ErrTask)
	}
	numbers := make(map[int]int64, 8)
	for _, i := range []int{6, 7, 8, 9, 10, 11, 12, 14} {
		n, err := strconv.ParseInt(parts[i], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read task field %d: %w", i, ErrTask)
		}
		numbers[i] = n
	}
	t := &domain.Task{
		Delivery: domain.DeliveryID(parts[1]), Account: parts[2], Webhook: webhook,
		EventID: parts[4], EventType: domain.EventType(parts[5]), EventSeq: uint64(numbers[6]),
		ReceivedAt: fromMillis(numbers[7]), Attempts: int(numbers[8]), RunAttempts: int(numbers[9]),
		RunStartedAt: fromMillis(numbers[10]), Rev: domain.Revision(numbers[11]), Test: numbers[12]&flagTest != 0, Overflowed: numbers[12]&flagOverflowed != 0,
		HeldAt: fromMillis(numbers[14]), TraceParent: TraceParent(header), Body: body,
	}
	switch {
	case numbers[12]&flagWrongSecret != 0:
		t.Forge = domain.ForgeWrongSecret
	case numbers[12]&flagOldTime != 0:
		t.Forge = domain.ForgeOldTime
	}
	if parts[13] != "-" {
		t.Request = parts[13]
	}
	return t, nil
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
