// Package packed writes and reads values one after the other, in few bytes: numbers as varints, texts as their length and
// bytes. The encoding does not contain the types of values, so readers must know them.
package packed

import (
	"encoding/binary"
	"math"
	"slices"
	"time"
)

// AppendText appends texts.
func AppendText[T ~string](out []byte, texts ...T) []byte {
	for _, text := range texts {
		out = append(binary.AppendUvarint(out, uint64(len(text))), text...)
	}
	return out
}

// AppendBlob appends bytes in the same way as a text.
func AppendBlob(out, blob []byte) []byte {
	return append(binary.AppendUvarint(out, uint64(len(blob))), blob...)
}

// AppendNumbers appends numbers that may be negative.
func AppendNumbers(out []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		out = binary.AppendVarint(out, n)
	}
	return out
}

// AppendCounts appends numbers that are not negative.
func AppendCounts(out []byte, counts ...uint64) []byte {
	for _, n := range counts {
		out = binary.AppendUvarint(out, n)
	}
	return out
}

// AppendTime appends nanoseconds since 1970 in 8 bytes; 0: the zero time.
func AppendTime(out []byte, at time.Time) []byte {
	var nanos uint64
	if !at.IsZero() {
		nanos = uint64(at.UnixNano())
	}
	return binary.LittleEndian.AppendUint64(out, nanos)
}

// Reader reads values until one is missing. After that its results are meaningless.
type Reader struct {
	raw    []byte
	text   string // one copy of raw that contains all texts; empty: no text was read yet
	pos    int
	failed bool
}

// NewReader returns a reader of raw, which must not change during the reading.
func NewReader(raw []byte) Reader { return Reader{raw: raw} }

// Failed reports whether a value was missing.
func (r *Reader) Failed() bool { return r.failed }

// Fail notes that the values that were read can't be right.
func (r *Reader) Fail() { r.failed = true }

// More reports whether there is more to read.
func (r *Reader) More() bool { return !r.failed && r.pos < len(r.raw) }

// Whole reports whether everything was read and no value was missing.
func (r *Reader) Whole() bool { return !r.failed && r.pos == len(r.raw) }

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if part := r.Bytes(1); part != nil {
		return part[0]
	}
	return 0
}

// Bytes reads n bytes. The result is a part of raw; nil: there are fewer bytes.
func (r *Reader) Bytes(n uint64) []byte {
	if r.failed || n > uint64(len(r.raw)-r.pos) {
		r.failed = true
		return nil
	}
	from := r.pos
	r.pos += int(n)
	return slices.Clip(r.raw[from:r.pos])
}

// Count reads a number that is not negative.
func (r *Reader) Count() uint64 {
	n, size := binary.Uvarint(r.raw[r.pos:])
	return r.number(n, size)
}

// Number reads a number that may be negative.
func (r *Reader) Number() int64 {
	n, size := binary.Varint(r.raw[r.pos:])
	return int64(r.number(uint64(n), size))
}

func (r *Reader) number(n uint64, size int) uint64 {
	if size <= 0 {
		r.failed = true
		return 0
	}
	r.pos += size
	return n
}

// Int reads a number that may be negative, of 32 bits at most.
func (r *Reader) Int() int {
	n := r.Number()
	if n < math.MinInt32 || n > math.MaxInt32 {
		r.failed = true
		return 0
	}
	return int(n)
}

// Length reads the number of items that follow. Each item has least bytes or more, so no memory is allocated for
// a number that is too large.
func (r *Reader) Length(least int) int {
	n := r.Count()
	if r.failed || n > uint64((len(r.raw)-r.pos)/least) {
		r.failed = true
		return 0
	}
	return int(n)
}

// Text reads a text.
func (r *Reader) Text() string {
	n := len(r.Blob())
	if n == 0 {
		return ""
	}
	if r.text == "" {
		r.text = string(r.raw)
	}
	return r.text[r.pos-n : r.pos]
}

// Blob reads what AppendBlob or AppendText has written. The result is a part of raw.
func (r *Reader) Blob() []byte { return r.Bytes(r.Count()) }

// Time reads a time.
func (r *Reader) Time() time.Time {
	raw := r.Bytes(8)
	if raw == nil {
		return time.Time{}
	}
	nanos := int64(binary.LittleEndian.Uint64(raw))
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos).UTC()
}
