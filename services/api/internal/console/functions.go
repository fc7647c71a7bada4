package console

import (
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
)

// functions are what templates may call. They return text, which is escaped where it stands:
// none of them returns HTML.
func functions(a *assets) template.FuncMap {
	return template.FuncMap{
		"asset": a.path, "tone": tone, "stamp": stamp, "clock": clock, "since": since, "visible": Visible, "pretty": Pretty,
		"number": number, "percent": percent, "millis": millis, "path": Path, "query": queryOf,
		"field": newField, "hint": withHint, "required": withRequired, "options": withOptions, "rows": withRows,
		"typed": withType, "place": withPlace, "wide": asWide, "list": func(items ...any) []any { return items },
		"option": func(value, label string) Option { return Option{value, label} },
	}
}

// tone says how a state is coloured: good, bad, warn, busy or idle.
func tone(state any) string {
	switch strings.ToLower(fmt.Sprint(state)) {
	case "delivered", "succeeded", "ok", "healthy", "active", "done", "success", "up", "ready", "true", "2xx":
		return "good"
	case "failed", "exhausted", "circuitopen", "down", "error", "rejected", "gone", "refused", "tls", "dns", "connect", "http_5xx", "http_4xx", "protocol", "auth", "failing":
		return "bad"
	case "retrying", "timeout", "held", "waiting", "http_3xx", "inactive", "expired", "warning", "cancelled":
		return "warn"
	case "pending", "sending", "scheduled", "running", "in_progress", "queued", "building":
		return "busy"
	}
	return "idle"
}

// moment reads a time in whatever form an answer has it; ok is false when there is none.
func moment(value any) (t time.Time, ok bool) {
	switch v := value.(type) {
	case time.Time:
		t = v
	case *time.Time:
		if v != nil {
			t = *v
		}
	case *string:
		if v != nil {
			t, _ = time.Parse(time.RFC3339, *v)
		}
	case string:
		t, _ = time.Parse(time.RFC3339, v)
	}
	return t.UTC(), !t.IsZero()
}

// stamp is a time for programs.
func stamp(value any) string {
	t, ok := moment(value)
	if !ok {
		return ""
	}
	return t.Format("2006-01-02T15:04:05.000Z07:00")
}

// clock is a time for people, in UTC; the browser shows it in its own zone.
func clock(value any) string {
	t, ok := moment(value)
	if !ok {
		return "–"
	}
	return t.Format("2006-01-02 15:04:05") + " UTC"
}

// since says how long ago a time was, or how soon it will be, in the largest unit that fits.
func since(value any) string {
	t, ok := moment(value)
	if !ok {
		return "–"
	}
	d := time.Since(t)
	if d < 0 {
		return "in " + span(-d)
	}
	return span(d) + " ago"
}

func span(d time.Duration) string {
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}} {
		if d >= unit.of {
			return strconv.Itoa(int(d/unit.of)) + " " + unit.name
		}
	}
	return strconv.Itoa(int(d/time.Second)) + " s"
}

// Visible makes visible what would steer the reader's eye: control characters, and those that
// turn the direction of writing.
func Visible(text any) string {
	s, ok := text.(string)
	if !ok {
		s = fmt.Sprint(text)
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < 0x20:
			return 0x2400 + r // ␀ and so on
		case r == 0x7f:
			return '␡'
		case r >= 0x80 && r < 0xa0, unicode.Is(unicode.Bidi_Control, r), unicode.Is(unicode.Cf, r), r == '\u2028', r == '\u2029':
			return '\uFFFD'
		}
		return r
	}, s)
}

// Pretty writes JSON with indentation, its numbers and strings as they are; what is no JSON
// stays as it is.
func Pretty(raw any) string {
	var text []byte
	switch v := raw.(type) {
	case jsontext.Value:
		text = v
	case []byte:
		text = v
	case string:
		text = []byte(v)
	case *string:
		if v != nil {
			text = []byte(*v)
		}
	default:
		return Visible(fmt.Sprint(raw))
	}
	value := jsontext.Value(text).Clone()
	if value.Format(jsontext.PreserveRawStrings(true), jsontext.WithIndent("  "), jsontext.SpaceAfterColon(true), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil {
		return Visible(string(text))
	}
	return Visible(string(value))
}

// number groups the digits of a whole number by a narrow space.
func number(n any) string {
	var digits string
	switch v := n.(type) {
	case float64:
		if v != float64(int64(v)) {
			return strconv.FormatFloat(v, 'f', 1, 64)
		}
		digits = strconv.FormatInt(int64(v), 10)
	default:
		digits = fmt.Sprint(n)
	}
	sign := ""
	if rest, ok := strings.CutPrefix(digits, "-"); ok {
		sign, digits = "-", rest
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:]
	}
	return sign + digits
}

// percent writes a share of one: 99.95 %. There is none of nothing, which is nil.
func percent(share any) string {
	var v float64
	switch s := share.(type) {
	case *float64:
		if s == nil {
			return "–"
		}
		v = *s
	case float64:
		v = s
	default:
		return "–"
	}
	text := strconv.FormatFloat(v*100, 'f', 2, 64)
	if text == "100.00" && v < 1 {
		text = "99.99" // not all is not all
	}
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + "\u202f%"
}

// millis writes milliseconds: 12 ms, 1.2 s.
func millis(ms any) string {
	var v float64
	switch n := ms.(type) {
	case nil:
		return "–"
	case *float64:
		if n == nil {
			return "–"
		}
		v = *n
	case *int:
		if n == nil {
			return "–"
		}
		v = float64(*n)
	default:
		parsed, err := strconv.ParseFloat(fmt.Sprint(n), 64)
		if err != nil {
			return "–"
		}
		v = parsed
	}
	if v >= 1000 {
		return strconv.FormatFloat(v/1000, 'f', 1, 64) + "\u202fs"
	}
	return strconv.FormatFloat(v, 'f', 0, 64) + "\u202fms"
}

// queryOf writes names and values in turn as a query, without those that are empty.
func queryOf(pairs ...string) string {
	query := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	if len(query) == 0 {
		return ""
	}
	return "?" + query.Encode()
}
