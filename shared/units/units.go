// Package units writes durations for people: in words, with units.
package units

import (
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// Duration writes how long something took: less than 1 ms, 0.4 ms, 12 ms, 1.2 s, 5 min 3 s, 2 h 1 min. Durations
// that were measured in whole milliseconds are never "less than 1 ms".
func Duration(d time.Duration) string {
	two := func(a time.Duration, first string, b time.Duration, second string) string {
		text := count(d, a, first)
		if d%a >= b {
			text += " " + count(d%a, b, second)
		}
		return text
	}
	switch {
	case d <= 0:
		return "less than 1 ms"
	case d < 10*time.Millisecond:
		return strconv.FormatFloat(significant(float64(d)/float64(time.Millisecond)), 'f', -1, 64) + " ms"
	case d < time.Second:
		return count(d, time.Millisecond, "ms")
	case d < 10*time.Second:
		return strings.TrimSuffix(strconv.FormatFloat(d.Truncate(time.Second/10).Seconds(), 'f', 1, 64), ".0") + " s"
	case d < time.Minute:
		return count(d, time.Second, "s")
	case d < time.Hour:
		return two(time.Minute, "min", time.Second, "s")
	case d < day:
		return two(time.Hour, "h", time.Minute, "min")
	}
	return two(day, "d", time.Hour, "h")
}

// significant rounds to two significant digits.
func significant(v float64) float64 {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 2, 64), 64) // it is a number
	return rounded
}

func count(d, unit time.Duration, name string) string {
	return strconv.FormatInt(int64(d/unit), 10) + " " + name
}

// Since writes how long before now a time was, or how long after: 3 min ago, in 2 h. A time more than two months
// away is written as a date.
func Since(at, now time.Time) string {
	d := now.Sub(at)
	far := d.Abs()
	var text string
	switch {
	case far >= 60*day:
		return at.UTC().Format(time.DateOnly)
	case far >= 2*day:
		text = count(far, day, "d")
	case far >= 2*time.Hour:
		text = count(far, time.Hour, "h")
	case far >= 2*time.Minute:
		text = count(far, time.Minute, "min")
	case far < time.Second:
		return "now"
	default:
		text = count(far, time.Second, "s")
	}
	if d < 0 {
		return "in " + text
	}
	return text + " ago"
}
