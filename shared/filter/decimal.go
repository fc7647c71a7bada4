package filter

import (
	"bytes"
	"cmp"
	"math/big"
	"strconv"
	"strings"
)

// decimal is the exact value of a number: sign × 0.digits × 10^exponent. It takes as much memory as
// the text of the number, however large the exponent is.
type decimal struct {
	sign     int    // -1, 0 or 1
	digits   []byte // without zeros at either end
	exponent exponent
}

// newDecimal reads a number that is known to be valid JSON.
func newDecimal(raw []byte) decimal {
	d := decimal{sign: 1}
	if raw[0] == '-' {
		d.sign, raw = -1, raw[1:]
	}
	mantissa, power := raw, []byte(nil)
	if at := bytes.IndexAny(raw, "eE"); at >= 0 {
		mantissa, power = raw[:at], raw[at+1:]
	}
	whole, fraction, _ := bytes.Cut(mantissa, []byte("."))
	digits := whole
	if len(fraction) > 0 {
		digits = append(append(make([]byte, 0, len(mantissa)), whole...), fraction...)
	}
	d.digits = bytes.TrimLeft(digits, "0")
	zeros := len(digits) - len(d.digits)
	d.digits = bytes.TrimRight(d.digits, "0")
	if len(d.digits) == 0 {
		return decimal{}
	}
	d.exponent = newExponent(power, int64(len(whole)-zeros))
	return d
}

func (d decimal) compare(other decimal) int {
	if order := cmp.Compare(d.sign, other.sign); order != 0 || d.sign == 0 {
		return order
	}
	order := cmp.Or(d.exponent.compare(other.exponent), bytes.Compare(d.digits, other.digits))
	return d.sign * order
}

// text returns the same text for equal numbers, and different texts for others.
func (d decimal) text() string {
	if d.sign == 0 {
		return "0"
	}
	var b strings.Builder
	if d.sign < 0 {
		b.WriteByte('-')
	}
	b.Write(d.digits)
	b.WriteByte('e')
	b.WriteString(d.exponent.whole().String())
	return b.String()
}

// exponent is an integer. If wide is nil, its value is small.
type exponent struct {
	small int64
	wide  *big.Int
}

const (
	narrow = 17 // an exponent with so many digits stays small after an addition
	// widest bounds the digits of an exponent: larger exponents count as equal, so that
	// no event costs more than its text.
	widest = 1000
)

// newExponent returns the written number plus another number, which is at most as large as a text is long.
func newExponent(written []byte, plus int64) exponent {
	sign, digits := "", written
	if len(written) > 0 && (written[0] == '-' || written[0] == '+') {
		sign, digits = string(written[:1]), written[1:]
	}
	digits = bytes.TrimLeft(digits, "0")
	if len(digits) > widest {
		digits = bytes.Repeat([]byte{'9'}, widest)
		plus = 0
	}
	if len(digits) <= narrow {
		n, _ := strconv.ParseInt(sign+"0"+string(digits), 10, 64)
		return exponent{small: n + plus}
	}
	n, _ := new(big.Int).SetString(sign+string(digits), 10)
	n.Add(n, big.NewInt(plus))
	if n.IsInt64() {
		return exponent{small: n.Int64()}
	}
	return exponent{wide: n}
}

func (e exponent) compare(other exponent) int {
	if e.wide == nil && other.wide == nil {
		return cmp.Compare(e.small, other.small)
	}
	return e.whole().Cmp(other.whole())
}

func (e exponent) whole() *big.Int {
	if e.wide == nil {
		return big.NewInt(e.small)
	}
	return e.wide
}
