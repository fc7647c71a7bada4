package bus

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"waybill.dev/shared/domain"
)

// headerAccepted marks an event that api published after its commit. It has the event id, the time of
// acceptance (Unix ms), the configuration version of that commit, the round of publication, and a MAC over
// these, the subject and the body. If the header is valid, a dispatcher takes the body as it is; otherwise
// the message is that of a publisher on NATS, and is checked like a REST body.
const (
	headerAccepted    = "Waybill-Accepted"
	headerTraceParent = "traceparent"
	// headerPlace has an event's place among those of its account, and a MAC over the place and
	// headerAccepted. Only events of accounts that use order have it, and only the code that keeps
	// that order reads it.
	headerPlace = "Waybill-Place"
	headerTask  = "Waybill-Task"
)

// AcceptedEvent is an event that REST accepted, on its way through EVENTS.
type AcceptedEvent struct {
	Event domain.Event
	// Version is the configuration version that was read in the event's commit. No dispatcher may
	// fan the event out with an older index.
	Version     int64
	TraceParent string
	// Round is 0 for the first publication. The relay adds 1 when the bus has lost the event; then
	// some of its deliveries may have been made already.
	Round int
	// Place is the number of the event among those of an account that uses order, in the order of
	// commits: from 1 on and without a gap. 0: the event has none.
	Place int64
	// Unknown: another build has accepted the event, and the header has more than this build can
	// read. The event must be left to a process that can read it; no other field is set.
	Unknown bool
}

// PublishEvent publishes an accepted event with <account>.<id> as its message id, and calls done
// exactly once. Later rounds have message ids of their own, so that an event that the bus has lost
// is not taken for a repeat. A repeat on round 0 means that another publisher has used the message
// id: done gets duplicate true and nothing was stored.
func (b *Bus) PublishEvent(a AcceptedEvent, round int, done func(duplicate bool, err error)) {
	a.Round = round
	subject := EventSubject(a.Event.Account, a.Event.Type)
	id := a.Event.Account + "." + a.Event.ID
	if round > 0 {
		id += "." + strconv.FormatInt(a.Event.ReceivedAt.UnixMilli(), 36) + "." + strconv.Itoa(round)
	}
	header := nats.Header{
		jetstream.MsgIDHeader: {id},
		headerAccepted:        {b.acceptanceMAC(subject, a)},
	}
	if a.Place > 0 {
		header[headerPlace] = []string{b.placeHeader(subject, header[headerAccepted][0], a.Place)}
	}
	if a.TraceParent != "" {
		header[headerTraceParent] = []string{a.TraceParent}
	}
	msg := &nats.Msg{Subject: subject, Header: header, Data: a.Event.Payload}
	b.acks.publish(msg, done)
}

func (b *Bus) acceptanceMAC(subject string, a AcceptedEvent) string {
	text := make([]byte, 0, 160)
	text = append(text, a.Event.ID...)
	text = append(text, ' ')
	text = strconv.AppendInt(text, a.Event.ReceivedAt.UnixMilli(), 10)
	text = append(text, ' ')
	text = strconv.AppendInt(text, a.Version, 10)
	text = append(text, ' ')
	text = strconv.AppendInt(text, int64(a.Round), 10)
	var room [sha256.Size]byte
	mac := b.macs[0].append(room[:0], subject, string(text), a.Event.Payload)
	text = append(text, ' ')
	return string(base64.RawURLEncoding.AppendEncode(text, mac))
}

// ParseAccepted returns the event in a message of EVENTS that api published; ok is
// false for any other message.
func (b *Bus) ParseAccepted(subject string, header map[string][]string, body []byte) (a AcceptedEvent, ok bool) {
	values := header[headerAccepted]
	if len(values) != 1 {
		return a, false
	}
	cut := strings.LastIndexByte(values[0], ' ')
	if cut < 0 {
		return a, false
	}
	text := values[0][:cut]
	mac, err := base64.RawURLEncoding.DecodeString(values[0][cut+1:])
	if err != nil || !b.validMAC(mac, subject, text, body) {
		return a, false
	}
	parts := strings.Split(text, " ")
	account, kind, okSubject := ParseEventSubject(subject)
	if !okSubject {
		return a, false
	}
	if len(parts) != 4 { // the MAC is right, so the header is not forged
		return AcceptedEvent{Unknown: true}, true
	}
	received, err1 := strconv.ParseInt(parts[1], 10, 64)
	version, err2 := strconv.ParseInt(parts[2], 10, 64)
	round, err3 := strconv.Atoi(parts[3])
	if errors.Join(err1, err2, err3) != nil {
		return a, false
	}
	a.Event = domain.Event{Account: account, ID: parts[0], Type: kind, Payload: body, ReceivedAt: time.UnixMilli(received).UTC()}
	a.Version, a.Round = version, round
	a.Place = b.placeOf(subject, values[0], header)
	a.TraceParent = TraceParent(header)
	return a, true
}

// placeHeader returns the value of headerPlace: the number, and a MAC over it and the value of
// headerAccepted, which has a MAC over the body.
func (b *Bus) placeHeader(subject, accepted string, number int64) string {
	text := strconv.FormatInt(number, 10)
	var room [sha256.Size]byte
	return text + " " + base64.RawURLEncoding.EncodeToString(b.macs[0].append(room[:0], subject, text, []byte(accepted)))
}

// placeOf reads headerPlace; 0: the header is missing or wrong.
func (b *Bus) placeOf(subject, accepted string, header map[string][]string) int64 {
	values := header[headerPlace]
	if len(values) != 1 {
		return 0
	}
	text, sum, _ := strings.Cut(values[0], " ")
	mac, err := base64.RawURLEncoding.DecodeString(sum)
	if err != nil || !b.validMAC(mac, subject, text, []byte(accepted)) {
		return 0
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return number
}

func (b *Bus) validMAC(mac []byte, subject, text string, body []byte) bool {
	var room [sha256.Size]byte
	for _, key := range b.macs {
		if hmac.Equal(mac, key.append(room[:0], subject, text, body)) {
			return true
		}
	}
	return false
}

// eventMAC authenticates with one key. The part of the hash that depends on the key alone is computed once.
type eventMAC struct{ hashes sync.Pool }

func newEventMAC(key []byte) *eventMAC {
	return &eventMAC{hashes: sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
}

// append appends the 16 bytes for a message.
func (m *eventMAC) append(to []byte, subject, text string, body []byte) []byte {
	h := m.hashes.Get().(hash.Hash) //nolint:errcheck // the pool holds nothing else
	defer m.hashes.Put(h)
	h.Reset()
	var room [256]byte
	prefix := binary.BigEndian.AppendUint64(room[:0], uint64(len(subject)))
	prefix = append(prefix, subject...)
	prefix = binary.BigEndian.AppendUint64(prefix, uint64(len(text)))
	prefix = append(prefix, text...)
	h.Write(prefix)
	h.Write(body)
	start := len(to)
	return h.Sum(to)[:start+macSize]
}

// macSize is how many bytes of the hash are sent.
const macSize = 16

// maxTraceParent is more than the 55 bytes of a trace context today. A longer one is a mistake of
// its publisher, and could make a delivery too large to be stored.
const maxTraceParent = 128

// TraceParent returns the W3C trace context of a message; empty: none.
func TraceParent(header map[string][]string) string {
	if values := header[headerTraceParent]; len(values) > 0 && len(values[0]) <= maxTraceParent {
		return values[0]
	}
	return ""
}

// GivenID returns the id that an event without an id got when it was published on NATS; empty: it
// has none, or the id is not valid.
func GivenID(header map[string][]string) string {
	if values := header[headerID]; len(values) == 1 && domain.ValidEventID(values[0]) {
		return values[0]
	}
	return ""
}
