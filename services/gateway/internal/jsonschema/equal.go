package jsonschema

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/maphash"
	"strconv"

	"waybill.dev/shared/jsonscan"
)

// equal reports whether the value that r is at is one of a schema's.
func (v *run) equal(want any, r jsonscan.Reader) bool {
	if !v.spend(perCompare) {
		return false
	}
	switch want := want.(type) {
	case nil:
		return r.Kind() == 'n'
	case bool:
		return r.Kind() == 't' && want || r.Kind() == 'f' && !want
	case json.Number:
		return r.Kind() == '0' && decimalOf(v.skipValue(&r)).equal(decimalOf([]byte(want)))
	case string:
		return r.Kind() == '"' && v.isText(v.skipValue(&r), want)
	case []any:
		return r.Kind() == '[' && v.equalArray(want, r)
	case map[string]any:
		return r.Kind() == '{' && v.equalObject(want, r)
	}
	return false
}

// isText reports whether a string is a text.
func (v *run) isText(raw jsonscan.Value, text string) bool {
	const longest = len(`\u0000`) // the longest encoding of a character
	if len(raw) > longest*len(text)+len(`""`) {
		return false
	}
	v.name = raw.AppendText(v.name[:0])
	return string(v.name) == text
}

func (v *run) equalArray(want []any, r jsonscan.Reader) bool {
	r.Enter()
	for _, one := range want {
		if !r.Element() || !v.equal(one, r) {
			return false
		}
		v.skipValue(&r)
	}
	return !r.Element()
}

func (v *run) equalObject(want map[string]any, r jsonscan.Reader) bool {
	r.Enter()
	count := 0
	for name, ok := r.Member(); ok; name, ok = r.Member() {
		v.name = name.AppendText(v.name[:0])
		one, known := want[string(v.name)]
		if !known || !v.equal(one, r) {
			return false
		}
		v.skipValue(&r)
		count++
	}
	return count == len(want) // all names are different
}

// allUnique reports whether all elements of the array at r differ. They are compared by hashes of 64
// bits with a secret seed: for 131,072 elements, the most that fit into a body of 1 MiB, a false
// match happens once in a thousand million times.
func (v *run) allUnique(r jsonscan.Reader) bool {
	h := hasher{run: v}
	h.SetSeed(maphash.MakeSeed())
	table, count := make([]uint64, 32), 0
	r.Enter()
	for r.Element() && !v.stopped() {
		sum := h.sum(&r) | 1 // 0 is a free entry
		if !put(table, sum) {
			return false
		}
		count++
		if count*4 > len(table)*3 {
			larger := make([]uint64, 2*len(table))
			for _, sum := range table {
				if sum != 0 {
					put(larger, sum)
				}
			}
			table = larger
		}
	}
	return true
}

func put(table []uint64, sum uint64) bool {
	mask := uint64(len(table) - 1)
	at := (sum >> 1) & mask
	for ; table[at] != 0; at = (at + 1) & mask {
		if table[at] == sum {
			return false
		}
	}
	table[at] = sum
	return true
}

// hasher makes hashes. Equal values have equal hashes.
type hasher struct {
	maphash.Hash
	run *run
}

// sum returns the hash of the next value, and goes past it.
func (h *hasher) sum(r *jsonscan.Reader) uint64 {
	var parts uint64
	of := r.Kind()
	switch of {
	case '[':
		r.Enter()
		for r.Element() && !h.run.stopped() {
			parts = h.mix('[', parts, h.sum(r))
		}
	case '{':
		r.Enter()
		for name, ok := r.Member(); ok && !h.run.stopped(); name, ok = r.Member() {
			h.run.name = name.AppendText(h.run.name[:0])
			key := h.scalar('"', h.run.name)
			parts += h.mix(':', key, h.sum(r)) // the order does not matter
		}
	case '"':
		raw := h.run.skipValue(r)
		h.run.spend((perHash - 1) * len(raw))
		h.run.name = raw.AppendText(h.run.name[:0])
		return h.scalar('"', h.run.name)
	case '0':
		raw := h.run.skipValue(r)
		h.run.spend(perHash*len(raw) + visit)
		h.run.name = decimalOf(raw).append(h.run.name[:0])
		return h.scalar('0', h.run.name)
	default:
		h.run.skipValue(r)
	}
	h.run.spend(visit)
	return h.mix(of, parts, 0)
}

func (h *hasher) scalar(of byte, text []byte) uint64 {
	h.Reset()
	_ = h.WriteByte(of)
	_, _ = h.Write(text)
	return h.Sum64()
}

func (h *hasher) mix(of byte, a, b uint64) uint64 {
	var both [17]byte
	both[0] = of
	binary.LittleEndian.PutUint64(both[1:], a)
	binary.LittleEndian.PutUint64(both[9:], b)
	h.Reset()
	_, _ = h.Write(both[:])
	return h.Sum64()
}

// decimal is a number as digits × 10^exponent, without zeros at either end of the digits: two
// numbers are equal when their decimals are.
type decimal struct {
	negative bool
	digits   []byte // digits, in two parts at most
	fraction []byte
	exponent int
}

// decimalOf reads a number that jsonscan has found fit for exact arithmetic.
func decimalOf(number []byte) decimal {
	var d decimal
	number, d.negative = bytes.CutPrefix(number, []byte("-"))
	if i := bytes.IndexAny(number, "eE"); i >= 0 {
		d.exponent, _ = strconv.Atoi(string(number[i+1:]))
		number = number[:i]
	}
	d.digits, d.fraction, _ = bytes.Cut(number, []byte("."))
	d.exponent -= len(d.fraction)
	for len(d.fraction) > 0 && d.fraction[len(d.fraction)-1] == '0' {
		d.fraction = d.fraction[:len(d.fraction)-1]
		d.exponent++
	}
	for len(d.fraction) == 0 && len(d.digits) > 0 && d.digits[len(d.digits)-1] == '0' {
		d.digits = d.digits[:len(d.digits)-1]
		d.exponent++
	}
	d.digits = bytes.TrimLeft(d.digits, "0")
	if len(d.digits) == 0 {
		d.fraction = bytes.TrimLeft(d.fraction, "0")
	}
	if len(d.digits)+len(d.fraction) == 0 {
		return decimal{} // 0 and -0
	}
	return d
}

func (d decimal) isInteger() bool { return d.exponent >= 0 }

// size returns about how many digits the number has when it is written out.
func (d decimal) size() int { return len(d.digits) + len(d.fraction) + max(d.exponent, -d.exponent) }

func (d decimal) equal(other decimal) bool {
	return d.negative == other.negative && d.exponent == other.exponent && bytes.Equal(d.append(nil), other.append(nil))
}

// append appends a text that is the same for equal numbers.
func (d decimal) append(b []byte) []byte {
	if d.negative {
		b = append(b, '-')
	}
	b = append(append(b, d.digits...), d.fraction...)
	return strconv.AppendInt(append(b, 'e'), int64(d.exponent), 10)
}

func (v *run) isInteger(r jsonscan.Reader) bool { return decimalOf(v.skipValue(&r)).isInteger() }
