package envelope

import (
	"bytes"
	"strconv"
	"time"
	"unicode/utf8"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/jsonscan"
	"waybill.dev/shared/rfc3339"
)

// validTimestamp reports whether text is an RFC 3339 time.
func validTimestamp(text string) bool {
	_, ok := rfc3339.Parse(text)
	return ok
}

func validDate(text string) bool {
	if len(text) == len(time.DateOnly) {
		return validTimestamp(text + "T00:00:00Z")
	}
	return validTimestamp(text)
}

// scalarFault returns the fault of a scalar as a member of kind want; empty: none. got is the kind
// of the token raw.
func scalarFault(want memberKind, got byte, raw jsonscan.Value) string {
	isText := got == '"'
	switch want {
	case kindString:
		return detailUnless(isText, "must be a string")
	case kindShipmentID:
		if !isText {
			return "must be a string"
		}
		n := utf8.RuneCountInString(textOf(raw))
		return detailUnless(n >= 1 && n <= domain.MaxShipmentID, "must have 1 to 128 characters")
	case kindTime:
		return detailUnless(isText && validTimestamp(textOf(raw)), "must be an RFC 3339 time")
	case kindDate:
		return detailUnless(isText && validDate(textOf(raw)), "must be a date or an RFC 3339 time")
	case kindNumber:
		return detailUnless(got == '0', "must be a number")
	case kindInteger:
		return detailUnless(got == '0' && isInteger(raw), "must be an integer")
	case kindVersion:
		return detailUnless(isText || got == '0' && isInteger(raw), "must be a string or an integer")
	case kindBoolean:
		return detailUnless(got == 't' || got == 'f', "must be true or false")
	case kindObject:
		return "must be an object"
	case kindArray:
		return "must be an array"
	}
	return ""
}

// textOf returns the text of a string.
func textOf(raw jsonscan.Value) string {
	text, _ := raw.Text()
	return text
}

// containerFault is scalarFault for an object or an array.
func containerFault(want memberKind, got byte) string {
	if want == kindAny || want == kindObject && got == '{' || want == kindArray && got == '[' {
		return ""
	}
	return scalarFault(want, got, nil)
}

func detailUnless(fine bool, detail string) string {
	if fine {
		return ""
	}
	return detail
}

// isInteger reports whether a JSON number is an integer, however it is written.
func isInteger(raw []byte) bool {
	mantissa, exponent, scientific := bytes.Cut(raw, []byte("e"))
	if !scientific {
		mantissa, exponent, scientific = bytes.Cut(raw, []byte("E"))
	}
	digits, fraction, _ := bytes.Cut(mantissa, []byte("."))
	fraction = bytes.TrimRight(fraction, "0")
	if !scientific {
		return len(fraction) == 0
	}
	if len(fraction) == 0 {
		significant := bytes.TrimRight(digits, "0")
		if len(significant) == 0 || string(significant) == "-" {
			return true // 0 with any exponent is 0
		}
		return exponent[0] != '-' || atMost(exponent, len(digits)-len(significant))
	}
	return exponent[0] != '-' && !atMost(exponent, len(fraction)-1)
}

// atMost reports whether the digits of an exponent, without its sign, are a number of at most n.
func atMost(exponent []byte, n int) bool {
	digits := bytes.TrimLeft(exponent, "+-0")
	limit := strconv.Itoa(n)
	return len(digits) < len(limit) || len(digits) == len(limit) && string(digits) <= limit
}
