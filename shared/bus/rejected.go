package bus

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Headers of a rejected message, beside those that it came with.
const (
	HeaderReason  = "Waybill-Reason"
	HeaderSubject = "Waybill-Subject"
	// HeaderSize has the size of a body of which only the first bytes are kept.
	HeaderSize = "Waybill-Body-Bytes"
)

// maxRejected is how much of a rejected body is kept whole: with its headers a larger
// one could exceed what the server takes (1 MiB), and would come again for ever.
// largeRejected is what is kept of such a one.
const (
	maxRejected   = 900 << 10
	largeRejected = 256 << 10
)

// Reject keeps a message that is no event, with the reason, and calls done exactly once.
// Headers that the server would act upon are dropped.
func (b *Bus) Reject(account, subject string, header map[string][]string, body []byte, reason string, done func(error)) {
	kept := nats.Header(maps.Clone(header))
	if kept == nil {
		kept = nats.Header{}
	}
	for _, name := range []string{
		jetstream.MsgIDHeader, jetstream.ExpectedStreamHeader, jetstream.ExpectedLastSeqHeader,
		jetstream.ExpectedLastSubjSeqHeader, jetstream.ExpectedLastMsgIDHeader, jetstream.MsgRollup,
		jetstream.MsgTTLHeader, headerSchedule, headerScheduleTarget, "Nats-Expected-Last-Subject-Sequence-Subject",
	} {
		delete(kept, name)
	}
	kept[HeaderReason] = []string{reason}
	kept[HeaderSubject] = []string{subject}
	if len(body) > maxRejected {
		kept[HeaderSize] = []string{strconv.Itoa(len(body))}
		body = body[:largeRejected]
	}
	msg := &nats.Msg{Subject: RejectedSubject(account), Header: kept, Data: body}
	b.publish(msg, func(_ *jetstream.PubAck, err error) { done(err) })
}

// Rejected is a bus message that was no event.
type Rejected struct {
	Sequence uint64
	Subject  string
	Reason   string
	Time     time.Time // when it was rejected
	Body     []byte
}

// ListRejected returns the messages of account that were rejected, newest first, at
// most limit of them and only such with a sequence below before (0: from the newest).
// next is the value for before to go on with; 0: there are no more.
func (b *Bus) ListRejected(ctx context.Context, account string, limit int, before uint64) (list []Rejected, next uint64, err error) {
	stream, err := b.js.Stream(ctx, StreamRejected)
	if err != nil {
		return nil, 0, unavailable("look up stream "+StreamRejected, err)
	}
	state := stream.CachedInfo().State
	seq := state.LastSeq
	if before > 0 {
		seq = min(seq, before-1)
	}
	subject := RejectedSubject(account)
	for ; seq >= max(state.FirstSeq, 1) && seq > 0; seq-- {
		msg, err := stream.GetMsg(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return nil, 0, unavailable("read rejected messages", err)
		}
		if msg.Subject != subject {
			continue
		}
		if len(list) == limit {
			return list, list[limit-1].Sequence, nil
		}
		list = append(list, Rejected{
			Sequence: seq, Subject: msg.Header.Get(HeaderSubject), Reason: msg.Header.Get(HeaderReason),
			Time: msg.Time.UTC(), Body: msg.Data,
		})
	}
	return list, 0, nil
}
