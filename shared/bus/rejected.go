package bus

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"waybill.dev/shared/domain"
)

// Headers of a rejected message, in addition to its own.
const (
	HeaderReason  = "Waybill-Reason"
	HeaderSubject = "Waybill-Subject"
	// HeaderSize has the size of the whole body if only its first bytes are kept.
	HeaderSize = "Waybill-Body-Bytes"
)

// The limits of what is kept of a rejected message. A stream takes 64 KiB of headers and 1 MiB in
// all, and a message that the stream does not take would come again for ever. So a body that is
// larger than an event may be is cut, and headers beyond 8 KiB are left out.
const (
	maxRejected        = 256 << 10
	largeRejected      = 64 << 10
	maxRejectedHeaders = 8 << 10
	maxReason          = 2 << 10
	maxShownSubject    = 512
)

// maxRejectedEach is how many rejected messages are kept for each account: the newest.
const maxRejectedEach = 1000

// noAccount stands for the account of messages with a subject that names no valid account. No
// account ever has this name.
const noAccount = "_"

// Reject keeps a message that is not a valid event, with the reason, and calls done exactly once.
// Headers that the server would act on are dropped; the reason says what was cut.
func (b *Bus) Reject(account, subject string, header map[string][]string, body []byte, reason string, done func(error)) {
	if !domain.ValidAccount(account) {
		account = noAccount
	}
	reason = cutText(reason, maxReason)
	kept, left := fitHeaders(header)
	if left > 0 {
		reason += "; " + strconv.Itoa(left) + " headers are left out"
	}
	if len(body) > maxRejected {
		kept[HeaderSize] = []string{strconv.Itoa(len(body))}
		reason += "; of " + strconv.Itoa(len(body)) + " bytes of its body the first " + strconv.Itoa(largeRejected) + " are kept"
		body = body[:largeRejected]
	}
	b.keepRejected(account, subject, kept, body, reason, done)
}

// keepRejected puts a message into REJECTED; kept is changed.
func (b *Bus) keepRejected(account, subject string, kept nats.Header, body []byte, reason string, done func(error)) {
	kept[HeaderReason] = []string{reason}
	kept[HeaderSubject] = []string{ShownSubject(subject)}
	b.acks.publish(&nats.Msg{Subject: RejectedSubject(account), Header: kept, Data: body}, func(_ bool, err error) { done(err) })
}

// fitHeaders returns what is kept of a message's headers, and how many did not fit.
func fitHeaders(header map[string][]string) (kept nats.Header, left int) {
	kept = nats.Header{}
	size := 0
	for _, name := range slices.Sorted(maps.Keys(header)) {
		if hasPrefixFold(name, headerPrefixServer) {
			continue
		}
		weight := 0
		for _, value := range header[name] {
			weight += len(name) + len(value) + len(": \r\n")
		}
		if size+weight > maxRejectedHeaders {
			left++
			continue
		}
		size += weight
		kept[name] = header[name]
	}
	return kept, left
}

// ShownSubject returns a subject in a form for logs and lists: valid UTF-8 without control
// characters, at most 512 bytes.
func ShownSubject(subject string) string {
	return cutText(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(subject, "\uFFFD")), maxShownSubject)
}

// cutText cuts a text to most bytes, an ellipsis included.
func cutText(text string, most int) string {
	const ellipsis = "…"
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(ellipsis)], "") + ellipsis
}

// RejectedMessage is a message on the bus that was not a valid event.
type RejectedMessage struct {
	Sequence uint64
	Subject  string
	Reason   string
	Time     time.Time // when it was rejected
	Body     []byte
}

// maxRejectedPage is how many bytes of bodies fill a page. Even with one body more, and with each
// byte written as six in JSON, an answer stays below 4 MiB.
const maxRejectedPage = 384 << 10

// ListRejected returns the messages of account that were rejected since a time, newest first: at
// most limit, fewer when their bodies fill a page, and only messages with a sequence below before
// (0: from the newest). next is the value of before for the next page; 0: there are no more. Each
// message costs a request; messages of other accounts are not read.
func (b *Bus) ListRejected(ctx context.Context, account string, since time.Time, limit int, before uint64) (list []RejectedMessage, next uint64, err error) {
	size := 0
	for before != 1 {
		entry, err := b.Stream(StreamRejected).Last(ctx, RejectedSubject(account), before)
		if err != nil {
			return nil, 0, err
		}
		if entry == nil || entry.Time.Before(since) {
			return list, 0, nil
		}
		if len(list) == limit || size > maxRejectedPage {
			return list, before, nil
		}
		header := nats.Header(entry.Header)
		list = append(list, RejectedMessage{
			Sequence: entry.Sequence, Subject: header.Get(HeaderSubject), Reason: header.Get(HeaderReason), Time: entry.Time, Body: entry.Body,
		})
		size += len(entry.Body)
		before = entry.Sequence
	}
	return list, 0, nil
}
