package filter

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"
)

// decimal is a number as it was written, exactly: sign × 0.digits × 10^exponent. It takes as
// much memory as the text of the number, however large its exponent is.
type decimal struct {
	sign     int    // -1, 0 or 1
	digits   []byte // without zeros at either end
	exponent exponent
}

// newDecimal reads a number that is known to be good JSON.
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

// text is the same for equal numbers, and for no others.
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
	d.exponent.write(&b)
	return b.String()
}

// exponent is a whole number of any size. From wideFrom on, it is kept as text.
type exponent struct {
	small    int64
	wide     string // its digits without the sign; empty: it is small
	negative bool   // it is wide, and below zero
}

const (
	narrow = 17 // an exponent with so many digits stays small, whatever is added
	// tail is how many digits of a wide exponent what is added to it can change but for a carry.
	tail     = 12
	tailSize = 1_000_000_000_000
	small    = 18 // digits that an int64 holds
)

// newExponent returns the number that was written, plus another, which is as large as a text is
// long.
func newExponent(written []byte, plus int64) exponent {
	negative := false
	if len(written) > 0 && (written[0] == '-' || written[0] == '+') {
		negative, written = written[0] == '-', written[1:]
	}
	written = bytes.TrimLeft(written, "0")
	if len(written) <= narrow {
		n, _ := strconv.ParseInt("0"+string(written), 10, 64)
		if negative {
			n = -n
		}
		return exponent{small: n + plus}
	}
	if negative {
		plus = -plus
	}
	sum := added(written, plus)
	if len(sum) > small {
		return exponent{wide: sum, negative: negative}
	}
	n, _ := strconv.ParseInt(sum, 10, 64)
	if negative {
		n = -n
	}
	return exponent{small: n}
}

// added returns a number of more than narrow digits plus a small one.
func added(digits []byte, plus int64) string {
	head := append([]byte{'0'}, digits[:len(digits)-tail]...)
	n, _ := strconv.ParseInt(string(digits[len(digits)-tail:]), 10, 64)
	n += plus
	switch {
	case n < 0:
		n += tailSize
		carry(head, '0', '9', -1)
	case n >= tailSize:
		n -= tailSize
		carry(head, '9', '0', 1)
	}
	end := strconv.FormatInt(n+tailSize, 10)[1:]
	return string(bytes.TrimLeft(append(head, end...), "0"))
}

// carry adds 1 or takes 1 from a number: each last digit becomes next, and the one before the
// last of them is changed.
func carry(digits []byte, last, next byte, by int) {
	i := len(digits) - 1
	for ; digits[i] == last; i-- {
		digits[i] = next
	}
	digits[i] = byte(int(digits[i]) + by)
}

func (e exponent) compare(other exponent) int {
	if e.wide == "" && other.wide == "" {
		return cmp.Compare(e.small, other.small)
	}
	if order := cmp.Compare(e.side(), other.side()); order != 0 {
		return order
	}
	return e.side() * cmp.Or(cmp.Compare(len(e.wide), len(other.wide)), strings.Compare(e.wide, other.wide))
}

// side is where an exponent stands among others: a wide one is beyond all small ones.
func (e exponent) side() int {
	switch {
	case e.wide == "":
		return 0
	case e.negative:
		return -1
	}
	return 1
}

func (e exponent) write(b *strings.Builder) {
	if e.wide == "" {
		b.WriteString(strconv.FormatInt(e.small, 10))
		return
	}
	if e.negative {
		b.WriteByte('-')
	}
	b.WriteString(e.wide)
}
