package rollup

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"

	"waybill.dev/shared/domain"
)

// errDamaged is told of bytes that are not what this package writes.
var errDamaged = errors.New("counts are damaged")

// formatDelta begins the counts of a delta.
const formatDelta = 1

// Tally collects the counts of one transaction.
type Tally struct{ counts map[Key]*Counts }

// Event counts an event that was accepted.
func (t *Tally) Event(account string, eventType domain.EventType, at time.Time) {
	t.of(Key{Account: account, Type: eventType, Minute: minuteOf(at)}).Events++
}

// Attempt counts an attempt of a delivery, in the minute in which it began.
func (t *Tally) Attempt(account string, webhook domain.WebhookID, eventType domain.EventType, a *domain.Attempt) {
	class := cmp.Or(a.Class, domain.ClassOf(a.Status)) // the first version of records has none
	c := t.of(Key{account, webhook, eventType, class, minuteOf(a.StartedAt)})
	c.Attempts++
	if a.Number == 1 {
		c.Deliveries++
	}
	if end := a.StartedAt.Add(a.Duration).Truncate(time.Millisecond); end.After(c.Last) {
		c.Last = end
	}
	c.Latency = c.Latency.Observe(a.Duration)
}

func (t *Tally) of(key Key) *Counts {
	c := t.counts[key]
	if c == nil {
		if t.counts == nil {
			t.counts = make(map[Key]*Counts)
		}
		c = &Counts{}
		t.counts[key] = c
	}
	return c
}

// Empty tells whether nothing was counted.
func (t *Tally) Empty() bool { return len(t.counts) == 0 }

// Encode returns the counts as a delta keeps them: groups of what differs in the webhook
// alone. A group is account, type, class and minute, and its entries. Texts begin with their
// length, numbers are varints.
func (t *Tally) Encode() []byte {
	keys := make([]Key, 0, len(t.counts))
	for key := range t.counts {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(compareGroup(a, b), cmp.Compare(a.Webhook, b.Webhook))
	})
	out := append(make([]byte, 0, 64+56*len(keys)), formatDelta)
	for start := 0; start < len(keys); {
		end := start + 1
		for end < len(keys) && compareGroup(keys[start], keys[end]) == 0 {
			end++
		}
		group := keys[start]
		out = appendText(out, group.Account)
		out = appendText(out, string(group.Type))
		out = appendText(out, string(group.Class))
		out = binary.AppendVarint(out, group.Minute)
		out = binary.AppendUvarint(out, uint64(end-start))
		for _, key := range keys[start:end] {
			out = appendText(out, string(key.Webhook))
			out = t.counts[key].append(out, key.Minute)
		}
		start = end
	}
	return out
}

func compareGroup(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Minute, b.Minute))
}

func appendText(out []byte, text string) []byte {
	return append(binary.AppendUvarint(out, uint64(len(text))), text...)
}

// append writes counts; the end of the last attempt is in milliseconds after the minute, plus 1.
func (c *Counts) append(out []byte, minute int64) []byte {
	out = binary.AppendUvarint(out, uint64(c.Events))
	out = binary.AppendUvarint(out, uint64(c.Deliveries))
	out = binary.AppendUvarint(out, uint64(c.Attempts))
	last := int64(0)
	if !c.Last.IsZero() {
		last = c.Last.UnixMilli() - minute*60_000 + 1
	}
	out = binary.AppendVarint(out, last)
	return c.Latency.append(out)
}

// reader reads on until something is missing; what it returns from then on means nothing.
type reader struct {
	bytes  []byte
	failed bool
}

// decode hands out what Encode wrote.
func decode(encoded []byte, each func(Key, *Counts)) error {
	r := &reader{bytes: encoded}
	if len(encoded) == 0 || encoded[0] != formatDelta {
		return errDamaged
	}
	r.bytes = encoded[1:]
	for len(r.bytes) > 0 && !r.failed {
		key := Key{Account: r.text(), Type: domain.EventType(r.text()), Class: domain.Class(r.text()), Minute: r.varint()}
		for n := r.uvarint(); n > 0 && !r.failed; n-- {
			key.Webhook = domain.WebhookID(r.text())
			counts := Counts{Events: r.count(), Deliveries: r.count(), Attempts: r.count()}
			if last := r.varint(); last > 0 {
				counts.Last = time.UnixMilli(key.Minute*60_000 + last - 1).UTC()
			}
			counts.Latency = r.histogram()
			if !r.failed {
				each(key, &counts)
			}
		}
	}
	if r.failed {
		return errDamaged
	}
	return nil
}

// decodeHistogram reads what Histogram.append wrote.
func decodeHistogram(encoded []byte) (Histogram, error) {
	r := &reader{bytes: encoded}
	h := r.histogram()
	if r.failed || len(r.bytes) > 0 {
		return nil, errDamaged
	}
	return h, nil
}

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.bytes)
	if size <= 0 {
		r.failed = true
		return 0
	}
	r.bytes = r.bytes[size:]
	return n
}

func (r *reader) varint() int64 {
	n, size := binary.Varint(r.bytes)
	if size <= 0 {
		r.failed = true
		return 0
	}
	r.bytes = r.bytes[size:]
	return n
}

func (r *reader) count() int64 {
	n := r.uvarint()
	if n > math.MaxInt64 {
		r.failed = true
		return 0
	}
	return int64(n)
}

func (r *reader) text() string {
	n := r.uvarint()
	if n > uint64(len(r.bytes)) {
		r.failed = true
		return ""
	}
	text := string(r.bytes[:n])
	r.bytes = r.bytes[n:]
	return text
}

func (r *reader) histogram() Histogram {
	n := r.uvarint()
	if n > uint64(len(r.bytes)/2) {
		r.failed = true
	}
	if r.failed || n == 0 {
		return nil
	}
	h := make(Histogram, n)
	bucket := uint64(0)
	for i := range h {
		bucket += r.uvarint()
		count := r.uvarint()
		if bucket > math.MaxUint16 || count > math.MaxUint32 {
			r.failed = true
			return nil
		}
		h[i] = bin{uint16(bucket), uint32(count)}
	}
	return h
}
