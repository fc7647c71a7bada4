package envelope

import (
	"time"
	"unicode/utf8"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/jsonscan"
)

// maxTimestamp is in characters: only fractions of a second can make one longer.
const maxTimestamp = 64

// ValidTimestamp reports whether text is an RFC 3339 time with any offset, upper-case T
// and Z, no leap second, and a year from 1 to 9999 in UTC too.
func ValidTimestamp(text string) bool {
	if len(text) > maxTimestamp || !hasTimeShape(text) {
		return false
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return false
	}
	year := t.UTC().Year()
	return t.Year() >= 1 && year >= 1 && year <= 9999
}

// hasTimeShape refuses what time.Parse takes beyond RFC 3339: an hour of one digit, a
// comma before the fraction, offsets of 24 hours or 60 minutes.
func hasTimeShape(text string) bool {
	const (
		full    = len("2006-01-02T15:04:05")
		offset  = len("+00:00")
		hours   = 1 // in the offset
		minutes = 4
	)
	if len(text) <= full || text[len("2006-01-02T15")] != ':' || text[full] == ',' {
		return false
	}
	if text[len(text)-1] == 'Z' {
		return true
	}
	zone := text[len(text)-offset:]
	return zone[hours:hours+2] <= "23" && zone[minutes:] <= "59"
}

func validDate(text string) bool {
	if len(text) == len(time.DateOnly) {
		return ValidTimestamp(text + "T00:00:00Z")
	}
	return ValidTimestamp(text)
}

// scalarFault returns what is wrong with a scalar for a member of kind want; empty:
// nothing. got is the kind of the token raw.
func scalarFault(want kind, got byte, raw jsonscan.Value) string {
	isText := got == '"'
	switch want {
	case kindString:
		return unless(isText, "must be a string")
	case kindShipmentID:
		if !isText {
			return "must be a string"
		}
		n := utf8.RuneCountInString(textOf(raw))
		return unless(n >= 1 && n <= domain.MaxShipmentID, "must have 1 to 128 characters")
	case kindTime:
		return unless(isText && ValidTimestamp(textOf(raw)), "must be an RFC 3339 time")
	case kindDate:
		return unless(isText && validDate(textOf(raw)), "must be a date or an RFC 3339 time")
	case kindNumber:
		return unless(got == '0', "must be a number")
	case kindInteger:
		return unless(got == '0' && isInteger(raw), "must be an integer")
	case kindVersion:
		return unless(isText || got == '0' && isInteger(raw), "must be a string or an integer")
	case kindBoolean:
		return unless(got == 't' || got == 'f', "must be true or false")
	case kindObject:
		return "must be an object"
	case kindArray:
		return "must be an array"
	}
	return ""
}

// textOf is what a string says.
func textOf(raw jsonscan.Value) string {
	text, _ := raw.Text()
	return text
}

// containerFault is scalarFault for an object or an array.
func containerFault(want kind, got byte) string {
	if want == kindAny || want == kindObject && got == '{' || want == kindArray && got == '[' {
		return ""
	}
	return scalarFault(want, got, nil)
}

func unless(fine bool, detail string) string {
	if fine {
		return ""
	}
	return detail
}

// isInteger reports whether a JSON number has neither fraction nor exponent.
func isInteger(raw []byte) bool {
	for _, c := range raw {
		if c == '.' || c == 'e' || c == 'E' {
			return false
		}
	}
	return true
}
