// Package rfc3339 reads times in all forms of RFC 3339, and in no others.
package rfc3339

import (
	"strings"
	"time"
)

// maxLength is in bytes: only fractions of a second can make a time longer.
const maxLength = 64

const (
	seconds = len("2006-01-02T15:04:") // where the seconds begin
	full    = seconds + len("05")
	offset  = len("+00:00")
)

// Parse returns the time of text, in UTC. T and Z may be in lower case. A leap second, which is 23:59:60
// in UTC, is the second after it. With an offset, the year in UTC may be one outside of 1 to 9999.
func Parse(text string) (at time.Time, ok bool) {
	if !hasShape(text) {
		return time.Time{}, false
	}
	text = strings.ToUpper(text)
	leap := text[seconds:full] == "60"
	if leap {
		text = text[:seconds] + "59" + text[full:]
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || at.Year() < 1 {
		return time.Time{}, false
	}
	at = at.UTC()
	if leap {
		if at.Hour() != 23 || at.Minute() != 59 {
			return time.Time{}, false
		}
		at = at.Add(time.Second)
	}
	return at, true
}

// hasShape refuses forms that time.Parse accepts but RFC 3339 does not: an hour of one digit, a
// comma before the fraction, offsets of 24 hours or 60 minutes.
func hasShape(text string) bool {
	if len(text) <= full || len(text) > maxLength || text[len("2006-01-02T15")] != ':' || text[full] == ',' {
		return false
	}
	if last := text[len(text)-1]; last == 'Z' || last == 'z' {
		return true
	}
	zone := text[len(text)-offset:]
	return zone[1:3] <= "23" && zone[4:] <= "59"
}
