package jsonschema

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/input"
)

// Bounds of numbers. Schemas are checked with exact arithmetic, where 1e999999 is a number
// of a million digits: who may send a few thousand of those may stop the process.
const (
	maxDigits   = 400
	maxExponent = 400
)

// unreadable returns what keeps a value from being checked at all.
func unreadable(value []byte) []Violation {
	var found []Violation
	for _, fault := range input.Check(value, "value") {
		found = append(found, Violation{fault.Pointer, fault.Detail})
	}
	if len(found) > 0 {
		return found
	}
	dec := jsontext.NewDecoder(bytes.NewReader(value))
	for {
		token, err := dec.ReadToken()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			return []Violation{{Detail: "is not valid JSON"}}
		}
		if token.Kind() == '0' && !measurable(token.String()) {
			found = append(found, Violation{string(dec.StackPointer()), "is a number with too many digits"})
			if len(found) == maxViolations {
				return found
			}
		}
	}
}

func measurable(number string) bool {
	mantissa, exponent, scientific := strings.Cut(strings.ToLower(number), "e")
	if len(mantissa) > maxDigits {
		return false
	}
	if !scientific {
		return true
	}
	n, err := strconv.Atoi(exponent)
	return err == nil && n >= -maxExponent && n <= maxExponent
}
