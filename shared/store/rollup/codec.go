package rollup

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/packed"
)

// errDamaged is the error for bytes that this package did not write.
var errDamaged = errors.New("counts are damaged")

// formatDelta begins the counts of a delta.
const formatDelta = 1

// Tally collects the counts of one transaction.
type Tally struct{ counts map[Key]*Counts }

// Event counts an event that was accepted.
func (t *Tally) Event(account string, eventType domain.EventType, at time.Time) {
	t.countsOf(Key{Account: account, Type: eventType, Minute: minuteOf(at)}).Events++
}

// Attempt counts an attempt of a delivery, in the minute in which it began.
func (t *Tally) Attempt(account string, webhook domain.WebhookID, eventType domain.EventType, a *domain.Attempt) {
	class := cmp.Or(a.Class, domain.ClassOf(a.Status)) // the first version of records has no class
	c := t.countsOf(Key{account, webhook, eventType, class, minuteOf(a.StartedAt)})
	c.Attempts++
	if a.Number == 1 {
		c.Deliveries++
	}
	if end := a.StartedAt.Add(a.Duration).Truncate(time.Millisecond); end.After(c.Last) {
		c.Last = end
	}
	c.Latency = c.Latency.Observe(a.Duration)
}

func (t *Tally) countsOf(key Key) *Counts {
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

// Empty reports whether nothing was counted.
func (t *Tally) Empty() bool { return len(t.counts) == 0 }

// Encode returns the counts in the form of a delta: in groups of keys that differ only in the
// webhook. A group is account, type, class and minute, and its entries. Texts begin with their
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
		out = packed.AppendText(out, group.Account, string(group.Type), string(group.Class))
		out = packed.AppendNumbers(out, group.Minute)
		out = packed.AppendCounts(out, uint64(end-start))
		for _, key := range keys[start:end] {
			out = packed.AppendText(out, key.Webhook)
			out = t.counts[key].append(out, key.Minute)
		}
		start = end
	}
	return out
}

func compareGroup(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Minute, b.Minute))
}

// append appends counts; the end of the last attempt is in milliseconds after the minute, plus 1.
func (c *Counts) append(out []byte, minute int64) []byte {
	out = packed.AppendCounts(out, uint64(c.Events), uint64(c.Deliveries), uint64(c.Attempts))
	last := int64(0)
	if !c.Last.IsZero() {
		last = c.Last.UnixMilli() - minute*60_000 + 1
	}
	return c.Latency.append(packed.AppendNumbers(out, last))
}

type reader struct{ packed.Reader }

// decode calls each for the counts of one account in the result of Encode; empty: of all accounts. Counts of
// other accounts are skipped without being decoded.
func decode(encoded []byte, account string, each func(Key, *Counts)) error {
	if len(encoded) == 0 || encoded[0] != formatDelta {
		return errDamaged
	}
	r := &reader{packed.NewReader(encoded[1:])}
	for r.More() {
		of := r.Blob()
		if account != "" && string(of) != account {
			r.skipGroup()
			continue
		}
		key := Key{Account: string(of), Type: domain.EventType(r.Blob()), Class: domain.Class(r.Blob()), Minute: r.Number()}
		for n := r.Count(); n > 0 && !r.Failed(); n-- {
			key.Webhook = domain.WebhookID(r.Blob())
			counts := Counts{Events: r.count(), Deliveries: r.count(), Attempts: r.count()}
			if last := r.Number(); last > 0 {
				counts.Last = time.UnixMilli(key.Minute*60_000 + last - 1).UTC()
			}
			if counts.Latency = r.histogram(); !r.Failed() {
				each(key, &counts)
			}
		}
	}
	if r.Failed() {
		return errDamaged
	}
	return nil
}

// skipGroup skips a group after its account was read.
func (r *reader) skipGroup() {
	r.Blob()
	r.Blob()
	r.Number()
	for n := r.Count(); n > 0 && !r.Failed(); n-- {
		r.Blob()
		for range 4 {
			r.Count()
		}
		for range 2 * r.Length(2) {
			r.Count()
		}
	}
}

// decodeHistogram reads the result of Histogram.append.
func decodeHistogram(encoded []byte) (Histogram, error) {
	r := &reader{packed.NewReader(encoded)}
	h := r.histogram()
	if !r.Whole() {
		return nil, errDamaged
	}
	return h, nil
}

func (r *reader) count() int64 {
	n := r.Count()
	if n > math.MaxInt64 {
		r.Fail()
		return 0
	}
	return int64(n)
}

func (r *reader) histogram() Histogram {
	n := r.Length(2)
	if n == 0 {
		return nil
	}
	h := make(Histogram, n)
	bucket := uint64(0)
	for i := range h {
		bucket += r.Count()
		count := r.Count()
		if bucket > math.MaxUint16 || count > math.MaxUint32 {
			r.Fail()
			return nil
		}
		h[i] = bin{uint16(bucket), uint32(count)}
	}
	return h
}
