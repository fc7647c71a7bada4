package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/packed"
)

// Only Waybill reads batches of records, and each delivery is in one. So their encoding is positional:
// JSON took 11 µs an outcome to encode and decode, this encoding takes less than one.
//
// A batch is the version, then four lists (outcomes, events, settled, health). Each list is its length
// and its items, in the encoding of package packed. In the first version, attempts have no class and no
// transcript. In the third, outcomes have a sequence, and there are certificates.
const (
	recordsVersion = 3 // see bus.Formats
	classless      = 1
)

// errRecords is the error for a message that is no batch of records.
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
	healthAlarming // builds without alerts ignore it
)

// healthCertificate is a flag of a health change; the lowest bits of the flags are free.
const healthCertificate = 1

// The least sizes of an item of each list. A length that promises more items than the bytes can
// hold is refused before memory is allocated for it.
const (
	leastOutcome = 34
	leastEvent   = 13
	leastKey     = 10
	leastHealth  = 20
)

// Parse reads a message of RECORDS. The result shares body's bytes. The error is bus.ErrVersion if
// another build wrote the message in a version that this one does not know.
func Parse(body []byte) (domain.RecordBatch, error) {
	batch, err := parseRecords(body)
	if err != nil {
		return batch, fmt.Errorf("decode records: %w", err)
	}
	return batch, nil
}

// The lists of a batch, in their order.
const (
	listOutcomes = iota
	listEvents
	listSettled
	listHealth
	lists
)

// entry is an encoded item, ready for a batch.
type entry struct {
	encoded      []byte     // the item's parts, in the order of the lists
	ends         [lists]int // of each part in encoded
	in           Epoch      // see Item
	outcomeEvent SettlingEvent
	done         func()
}

// part returns what an item adds to a list on the server; empty: nothing. The settlement of an event is left out if its
// epoch does not hold on that server.
func (e *entry) part(list int, server string) []byte {
	from := 0
	if list > 0 {
		from = e.ends[list-1]
	}
	if list == listSettled && !e.in.Holds(server) {
		return nil
	}
	return e.encoded[from:e.ends[list]]
}

// newEntry encodes an item.
func newEntry(item *Item) entry {
	e := entry{in: item.In, outcomeEvent: item.OutcomeEvent, done: item.Done}
	room := 96 // enough for a settlement
	if o := item.Outcome; o != nil {
		room = 240
		if a := o.Attempt; a != nil {
			room += 64 + len(a.Transcript) + len(a.ResponseBody) + len(a.Error)
		}
	}
	if item.Event != nil {
		room += 160 + len(item.Event.Payload)
	}
	out := make([]byte, 0, room)
	if item.Outcome != nil {
		out = appendOutcome(out, item.Outcome)
	}
	e.ends[listOutcomes] = len(out)
	if ev := item.Event; ev != nil {
		out = packed.AppendText(out, ev.Account, ev.ID, string(ev.Type), ev.Timestamp)
		out = packed.AppendTime(packed.AppendBlob(out, ev.Payload), ev.ReceivedAt)
	}
	e.ends[listEvents] = len(out)
	if key := item.Settled; key != nil {
		out = packed.AppendTime(packed.AppendText(out, key.Account, key.ID), key.ReceivedAt)
	}
	e.ends[listSettled] = len(out)
	if item.Health != nil {
		out = appendHealth(out, item.Health)
	}
	e.ends[listHealth] = len(out)
	e.encoded = out
	return e
}

// encode returns the body of a message of RECORDS that will be stored on the server.
func encode(entries []entry, server string) []byte {
	size := 1 + lists*binary.MaxVarintLen64
	for i := range entries {
		size += len(entries[i].encoded)
	}
	out := append(make([]byte, 0, size), recordsVersion)
	for list := range lists {
		n := uint64(0)
		for i := range entries {
			if len(entries[i].part(list, server)) > 0 {
				n++
			}
		}
		out = packed.AppendCounts(out, n)
		for i := range entries {
			out = append(out, entries[i].part(list, server)...)
		}
	}
	return out
}

// Encode writes a batch in the same way as an emitter writes its items.
func Encode(batch *domain.RecordBatch) []byte {
	var entries []entry
	for i := range batch.Outcomes {
		entries = append(entries, newEntry(&Item{Outcome: &batch.Outcomes[i]}))
	}
	for i := range batch.Events {
		entries = append(entries, newEntry(&Item{Event: &batch.Events[i]}))
	}
	for i := range batch.Settled {
		entries = append(entries, newEntry(&Item{Settled: &batch.Settled[i]}))
	}
	for i := range batch.Health {
		entries = append(entries, newEntry(&Item{Health: &batch.Health[i]}))
	}
	return encode(entries, "")
}

func appendOutcome(out []byte, o *domain.Outcome) []byte {
	var flags byte
	flags = setFlag(flags, outcomeInLane, o.InLane)
	flags = setFlag(flags, outcomeTest, o.Test)
	flags = setFlag(flags, outcomeNoted, o.Noted)
	flags = setFlag(flags, outcomeAttempt, o.Attempt != nil)
	flags = setFlag(flags, outcomeOrdered, o.Sequence > 0)
	out = append(out, flags)
	out = packed.AppendText(out, string(o.Delivery), o.Account, string(o.Webhook), o.EventID, string(o.EventType), string(o.Status), o.Reason, o.Request)
	out = packed.AppendCounts(out, o.EventSeq)
	out = packed.AppendNumbers(out, int64(o.Rev), int64(o.Attempts), int64(o.RunAttempts))
	out = packed.AppendTime(out, o.RunStartedAt)
	out = packed.AppendTime(out, o.NextAttemptAt)
	out = packed.AppendTime(out, o.UpdatedAt)
	if o.Sequence > 0 {
		out = packed.AppendNumbers(out, o.Sequence, o.Shipment)
	}
	if a := o.Attempt; a != nil {
		out = packed.AppendText(out, a.ID, a.Error, a.ResponseBody, string(a.Class))
		out = packed.AppendNumbers(out, int64(a.Number), int64(a.Duration), int64(a.Status))
		out = packed.AppendTime(out, a.StartedAt)
		out = packed.AppendBlob(out, a.Transcript)
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
	out = packed.AppendText(out, string(h.Webhook), string(h.DisabledReason))
	out = packed.AppendNumbers(out, h.DisabledVersion)
	out = packed.AppendTime(out, h.FailingSince)
	out = packed.AppendTime(out, h.At)
	if c := h.Circuit; c != nil {
		out = packed.AppendNumbers(out, int64(c.Failures))
		for _, at := range []time.Time{c.OpenSince, c.FailingSince, c.NextProbeAt, c.SaidAt} {
			out = packed.AppendTime(out, at)
		}
		if a := c.Last; a != nil {
			out = packed.AppendTime(out, a.At)
			out = packed.AppendNumbers(out, int64(a.Status))
			out = packed.AppendText(out, string(a.Class), a.Body)
		}
	}
	if c := h.Certificate; c != nil {
		var expires int64 // in seconds: nanoseconds end in 2262, and a certificate may end later
		if !c.ExpiresAt.IsZero() {
			expires = c.ExpiresAt.Unix()
		}
		out = packed.AppendNumbers(out, expires, c.Version)
	}
	return out
}

func setFlag(flags, flag byte, on bool) byte {
	if on {
		return flags | flag
	}
	return flags
}

func parseRecords(body []byte) (batch domain.RecordBatch, err error) {
	r := &recordReader{Reader: packed.NewReader(body)}
	r.version = r.Byte()
	switch {
	case r.Failed():
		return batch, errRecords
	case r.version < classless || r.version > recordsVersion:
		return batch, fmt.Errorf("version %d, %w", r.version, bus.ErrVersion)
	}
	batch.Outcomes = readList(r, leastOutcome, (*recordReader).outcome)
	batch.Events = readList(r, leastEvent, (*recordReader).event)
	batch.Settled = readList(r, leastKey, (*recordReader).key)
	batch.Health = readList(r, leastHealth, (*recordReader).health)
	if !r.Whole() {
		return domain.RecordBatch{}, errRecords
	}
	return batch, nil
}

type recordReader struct {
	packed.Reader

	version byte // of the batch
}

func readList[T any](r *recordReader, least int, read func(*recordReader, *T)) []T {
	n := r.Length(least)
	if n == 0 {
		return nil
	}
	list := make([]T, n)
	for i := range list {
		read(r, &list[i])
	}
	return list
}

func (r *recordReader) outcome(o *domain.Outcome) {
	flags := r.Byte()
	o.InLane, o.Test, o.Noted = flags&outcomeInLane != 0, flags&outcomeTest != 0, flags&outcomeNoted != 0
	o.Delivery, o.Account = domain.DeliveryID(r.Text()), r.Text()
	o.Webhook, o.EventID = domain.WebhookID(r.Text()), r.Text()
	o.EventType, o.Status = domain.EventType(r.Text()), domain.Status(r.Text())
	o.Reason, o.Request = r.Text(), r.Text()
	o.EventSeq = r.Count()
	o.Rev, o.Attempts, o.RunAttempts = domain.Revision(r.Number()), r.Int(), r.Int()
	o.RunStartedAt, o.NextAttemptAt, o.UpdatedAt = r.Time(), r.Time(), r.Time()
	if flags&outcomeOrdered != 0 {
		o.Sequence, o.Shipment = r.Number(), r.Number()
		if o.Sequence <= 0 { // sequences begin with 1
			r.Fail()
		}
	}
	if flags&outcomeAttempt != 0 {
		o.Attempt = &domain.Attempt{ID: r.Text(), Error: r.Text(), ResponseBody: r.Text(), Class: r.class()}
		o.Attempt.Number, o.Attempt.Duration, o.Attempt.Status = r.Int(), time.Duration(r.Number()), r.Int()
		o.Attempt.StartedAt = r.Time()
		o.Attempt.Transcript = r.transcript()
		if o.Attempt.Class == "" && o.Attempt.Status > 0 {
			o.Attempt.Class = domain.ClassOf(o.Attempt.Status)
		}
	}
}

// transcript reads an attempt's transcript; the first version has none.
func (r *recordReader) transcript() []byte {
	if r.version == classless {
		return nil
	}
	if kept := r.Blob(); len(kept) > 0 {
		return kept
	}
	return nil
}

// class reads an attempt's class; the first version has none.
func (r *recordReader) class() domain.Class {
	if r.version == classless {
		return ""
	}
	return domain.Class(r.Text())
}

func (r *recordReader) event(e *domain.Event) {
	e.Account, e.ID = r.Text(), r.Text()
	e.Type, e.Timestamp = domain.EventType(r.Text()), r.Text()
	e.Payload, e.ReceivedAt = r.Blob(), r.Time()
}

func (r *recordReader) key(k *domain.EventKey) {
	k.Account, k.ID, k.ReceivedAt = r.Text(), r.Text(), r.Time()
}

func (r *recordReader) health(h *domain.HealthChange) {
	flags := r.Byte()
	h.Recovered = flags&healthRecovered != 0
	h.Webhook, h.DisabledReason = domain.WebhookID(r.Text()), domain.DisabledReason(r.Text())
	h.DisabledVersion = r.Number()
	h.FailingSince, h.At = r.Time(), r.Time()
	if flags&healthCircuit != 0 {
		h.Circuit = &domain.Circuit{Failures: r.Int(), OpenSince: r.Time(), FailingSince: r.Time(), NextProbeAt: r.Time(), SaidAt: r.Time()}
		h.Circuit.Alarming = flags&healthAlarming != 0
		if flags&healthAnswer != 0 {
			h.Circuit.Last = &domain.Answer{At: r.Time(), Status: r.Int(), Class: domain.Class(r.Text()), Body: r.Text()}
		}
	}
	if flags&healthCertificate != 0 {
		expires := r.Number()
		h.Certificate = &domain.Certificate{Version: r.Number()}
		if expires != 0 {
			h.Certificate.ExpiresAt = time.Unix(expires, 0).UTC()
		}
	}
}
