package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
)

// Batches of records are the one thing on the bus that no one but Waybill reads, and each
// delivery is in one: their encoding is positional. JSON took 11 µs an outcome both ways
// together, this takes less than one.
//
// A batch is the version, then four lists (outcomes, events, settled, health), each its
// length and its items. Numbers are varints, times nanoseconds since 1970 in 8 bytes (0:
// none), texts their length and bytes. The first version has attempts without class and
// transcript; the third has outcomes with a sequence, and certificates.
const (
	recordsVersion = 3 // see bus.Formats
	classless      = 1
)

// errRecords is told of what is no batch of records.
var errRecords = errors.New("not a batch of records")

// The flags of an outcome.
const (
	outcomeInLane = 1 << iota
	outcomeTest
	outcomeNoted
	outcomeAttempt
	outcomeOrdered
)

// The flags of a health change.
const (
	healthRecovered = 1 << (iota + 4)
	healthCircuit
	healthAnswer
	healthAlarming // builds without alerts don't look at it
)

// healthCertificate is a flag of a health change, whose first bits are free.
const healthCertificate = 1

// Least sizes of an item of each list: a length that promises more than there are bytes
// is refused before anything is made of it.
const (
	leastOutcome = 34
	leastEvent   = 13
	leastKey     = 10
	leastHealth  = 20
)

// Encode writes the body of a message of RECORDS.
func Encode(batch *domain.RecordBatch) []byte {
	// Some 500 bytes an outcome with an attempt and a short answer.
	return appendRecords(make([]byte, 0, 64+640*len(batch.Outcomes)+64*len(batch.Settled)), batch)
}

// Parse reads a message of RECORDS. What it returns shares body's bytes. bus.ErrVersion:
// another build wrote it.
func Parse(body []byte) (domain.RecordBatch, error) {
	batch, err := parseRecords(body)
	if err != nil {
		return batch, fmt.Errorf("decode records: %w", err)
	}
	return batch, nil
}

func appendRecords(out []byte, batch *domain.RecordBatch) []byte {
	out = append(out, recordsVersion)
	out = binary.AppendUvarint(out, uint64(len(batch.Outcomes)))
	for i := range batch.Outcomes {
		out = appendOutcome(out, &batch.Outcomes[i])
	}
	out = binary.AppendUvarint(out, uint64(len(batch.Events)))
	for i := range batch.Events {
		e := &batch.Events[i]
		out = appendText(out, e.Account, e.ID, string(e.Type), e.Timestamp)
		out = binary.AppendUvarint(out, uint64(len(e.Payload)))
		out = append(out, e.Payload...)
		out = appendTime(out, e.ReceivedAt)
	}
	out = binary.AppendUvarint(out, uint64(len(batch.Settled)))
	for i := range batch.Settled {
		key := &batch.Settled[i]
		out = appendText(out, key.Account, key.ID)
		out = appendTime(out, key.ReceivedAt)
	}
	out = binary.AppendUvarint(out, uint64(len(batch.Health)))
	for i := range batch.Health {
		out = appendHealth(out, &batch.Health[i])
	}
	return out
}

func appendOutcome(out []byte, o *domain.Outcome) []byte {
	var flags byte
	flags = setFlag(flags, outcomeInLane, o.InLane)
	flags = setFlag(flags, outcomeTest, o.Test)
	flags = setFlag(flags, outcomeNoted, o.Noted)
	flags = setFlag(flags, outcomeAttempt, o.Attempt != nil)
	flags = setFlag(flags, outcomeOrdered, o.Sequence > 0)
	out = append(out, flags)
	out = appendText(out, string(o.Delivery), o.Account, string(o.Webhook), o.EventID, string(o.EventType), string(o.Status), o.Reason, o.Request)
	out = binary.AppendUvarint(out, o.EventSeq)
	out = appendNumbers(out, int64(o.Rev), int64(o.Attempts), int64(o.RunAttempts))
	out = appendTime(out, o.RunStartedAt)
	out = appendTime(out, o.NextAttemptAt)
	out = appendTime(out, o.UpdatedAt)
	if o.Sequence > 0 {
		out = appendNumbers(out, o.Sequence, o.Shipment)
	}
	if a := o.Attempt; a != nil {
		out = appendText(out, a.ID, a.Error, a.ResponseBody, string(a.Class))
		out = appendNumbers(out, int64(a.Number), int64(a.Duration), int64(a.Status))
		out = appendTime(out, a.StartedAt)
		out = binary.AppendUvarint(out, uint64(len(a.Transcript)))
		out = append(out, a.Transcript...)
	}
	return out
}

func appendHealth(out []byte, h *domain.HealthChange) []byte {
	flags := setFlag(0, healthRecovered, h.Recovered)
	flags = setFlag(flags, healthCircuit, h.Circuit != nil)
	flags = setFlag(flags, healthAnswer, h.Circuit != nil && h.Circuit.Last != nil)
	flags = setFlag(flags, healthAlarming, h.Circuit != nil && h.Circuit.Alarming)
	flags = setFlag(flags, healthCertificate, h.Certificate != nil)
	out = append(out, flags)
	out = appendText(out, string(h.Webhook), string(h.DisabledReason))
	out = appendNumbers(out, h.DisabledVersion)
	out = appendTime(out, h.FailingSince)
	out = appendTime(out, h.At)
	if c := h.Circuit; c != nil {
		out = appendNumbers(out, int64(c.Failures))
		for _, at := range []time.Time{c.OpenSince, c.FailingSince, c.NextProbeAt, c.SaidAt} {
			out = appendTime(out, at)
		}
		if a := c.Last; a != nil {
			out = appendTime(out, a.At)
			out = appendNumbers(out, int64(a.Status))
			out = appendText(out, string(a.Class), a.Body)
		}
	}
	if c := h.Certificate; c != nil {
		var expires int64 // nanoseconds end in 2262, certificates may not
		if !c.ExpiresAt.IsZero() {
			expires = c.ExpiresAt.Unix()
		}
		out = appendNumbers(out, expires, c.Version)
	}
	return out
}

func setFlag(flags, flag byte, on bool) byte {
	if on {
		return flags | flag
	}
	return flags
}

func appendText(out []byte, texts ...string) []byte {
	for _, text := range texts {
		out = binary.AppendUvarint(out, uint64(len(text)))
		out = append(out, text...)
	}
	return out
}

func appendNumbers(out []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		out = binary.AppendVarint(out, n)
	}
	return out
}

func appendTime(out []byte, at time.Time) []byte {
	var nanos uint64
	if !at.IsZero() {
		nanos = uint64(at.UnixNano())
	}
	return binary.LittleEndian.AppendUint64(out, nanos)
}

func parseRecords(body []byte) (batch domain.RecordBatch, err error) {
	// One copy of the whole, of which all texts are parts.
	r := &recordReader{bytes: body, text: string(body)}
	r.version = r.byte()
	switch {
	case r.failed:
		return batch, errRecords
	case r.version < classless || r.version > recordsVersion:
		return batch, fmt.Errorf("version %d, %w", r.version, bus.ErrVersion)
	}
	batch.Outcomes = readList(r, leastOutcome, (*recordReader).outcome)
	batch.Events = readList(r, leastEvent, (*recordReader).event)
	batch.Settled = readList(r, leastKey, (*recordReader).key)
	batch.Health = readList(r, leastHealth, (*recordReader).health)
	if r.failed || r.at != len(body) {
		return domain.RecordBatch{}, errRecords
	}
	return batch, nil
}

// recordReader reads on until something is missing; what it returns from then on means
// nothing.
type recordReader struct {
	bytes   []byte
	text    string
	at      int
	failed  bool
	version byte // of the batch
}

func readList[T any](r *recordReader, least int, read func(*recordReader, *T)) []T {
	n := r.uvarint()
	if n > uint64((len(r.bytes)-r.at)/least) {
		r.failed = true
	}
	if r.failed || n == 0 {
		return nil
	}
	list := make([]T, n)
	for i := range list {
		read(r, &list[i])
	}
	return list
}

func (r *recordReader) outcome(o *domain.Outcome) {
	flags := r.byte()
	o.InLane, o.Test, o.Noted = flags&outcomeInLane != 0, flags&outcomeTest != 0, flags&outcomeNoted != 0
	o.Delivery, o.Account = domain.DeliveryID(r.string()), r.string()
	o.Webhook, o.EventID = domain.WebhookID(r.string()), r.string()
	o.EventType, o.Status = domain.EventType(r.string()), domain.Status(r.string())
	o.Reason, o.Request = r.string(), r.string()
	o.EventSeq = r.uvarint()
	o.Rev, o.Attempts, o.RunAttempts = domain.Revision(r.number()), r.int(), r.int()
	o.RunStartedAt, o.NextAttemptAt, o.UpdatedAt = r.time(), r.time(), r.time()
	if flags&outcomeOrdered != 0 {
		o.Sequence, o.Shipment = r.number(), r.number()
		r.failed = r.failed || o.Sequence <= 0 // they begin with 1
	}
	if flags&outcomeAttempt != 0 {
		o.Attempt = &domain.Attempt{ID: r.string(), Error: r.string(), ResponseBody: r.string(), Class: r.class()}
		o.Attempt.Number, o.Attempt.Duration, o.Attempt.Status = r.int(), time.Duration(r.number()), r.int()
		o.Attempt.StartedAt = r.time()
		o.Attempt.Transcript = r.transcript()
		if o.Attempt.Class == "" && o.Attempt.Status > 0 {
			o.Attempt.Class = domain.ClassOf(o.Attempt.Status)
		}
	}
}

// transcript reads an attempt's transcript, which the first version has not.
func (r *recordReader) transcript() []byte {
	if r.version == classless {
		return nil
	}
	n := len(r.string())
	if n == 0 {
		return nil
	}
	return slices.Clip(r.bytes[r.at-n : r.at])
}

// class reads an attempt's class, which the first version has not.
func (r *recordReader) class() domain.Class {
	if r.version == classless {
		return ""
	}
	return domain.Class(r.string())
}

func (r *recordReader) event(e *domain.Event) {
	e.Account, e.ID = r.string(), r.string()
	e.Type, e.Timestamp = domain.EventType(r.string()), r.string()
	payload := r.string()
	e.Payload = slices.Clip(r.bytes[r.at-len(payload) : r.at])
	e.ReceivedAt = r.time()
}

func (r *recordReader) key(k *domain.EventKey) {
	k.Account, k.ID, k.ReceivedAt = r.string(), r.string(), r.time()
}

func (r *recordReader) health(h *domain.HealthChange) {
	flags := r.byte()
	h.Recovered = flags&healthRecovered != 0
	h.Webhook, h.DisabledReason = domain.WebhookID(r.string()), domain.DisabledReason(r.string())
	h.DisabledVersion = r.number()
	h.FailingSince, h.At = r.time(), r.time()
	if flags&healthCircuit != 0 {
		h.Circuit = &domain.Circuit{Failures: r.int(), OpenSince: r.time(), FailingSince: r.time(), NextProbeAt: r.time(), SaidAt: r.time()}
		h.Circuit.Alarming = flags&healthAlarming != 0
		if flags&healthAnswer != 0 {
			h.Circuit.Last = &domain.Answer{At: r.time(), Status: r.int(), Class: domain.Class(r.string()), Body: r.string()}
		}
	}
	if flags&healthCertificate != 0 {
		expires := r.number()
		h.Certificate = &domain.Certificate{Version: r.number()}
		if expires != 0 {
			h.Certificate.ExpiresAt = time.Unix(expires, 0).UTC()
		}
	}
}

func (r *recordReader) byte() byte {
	if r.at >= len(r.bytes) {
		r.failed = true
		return 0
	}
	r.at++
	return r.bytes[r.at-1]
}

func (r *recordReader) uvarint() uint64 {
	n, size := binary.Uvarint(r.bytes[r.at:])
	if size <= 0 {
		r.failed = true
		return 0
	}
	r.at += size
	return n
}

func (r *recordReader) number() int64 {
	n, size := binary.Varint(r.bytes[r.at:])
	if size <= 0 {
		r.failed = true
		return 0
	}
	r.at += size
	return n
}

func (r *recordReader) int() int {
	n := r.number()
	if n < math.MinInt32 || n > math.MaxInt32 {
		r.failed = true
		return 0
	}
	return int(n)
}

func (r *recordReader) string() string {
	n := r.uvarint()
	if r.failed || n > uint64(len(r.bytes)-r.at) {
		r.failed = true
		return ""
	}
	from := r.at
	r.at += int(n)
	return r.text[from:r.at]
}

func (r *recordReader) time() time.Time {
	if len(r.bytes)-r.at < 8 {
		r.failed = true
		return time.Time{}
	}
	nanos := int64(binary.LittleEndian.Uint64(r.bytes[r.at:]))
	r.at += 8
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos).UTC()
}
