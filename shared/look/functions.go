package look

import (
	"fmt"
	"html/template"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"

	"waybill.dev/shared/rfc3339"
)

// Functions returns the functions that the elements call. They return text, which templates escape:
// none of them returns HTML.
func Functions(a *Assets) template.FuncMap {
	return template.FuncMap{"asset": a.Path, "tone": tone, "stamp": stamp, "clock": Clock, "exact": exact, "since": since, "visible": Visible}
}

// tone returns the colour of a state: good, bad, warn, busy or idle.
func tone(state any) string {
	text := strings.ToLower(fmt.Sprint(state))
	if code, err := strconv.Atoi(text); err == nil { // an HTTP status
		text = strconv.Itoa(code/100) + "xx"
	}
	switch text {
	case "delivered", "succeeded", "ok", "healthy", "active", "done", "success", "up", "ready", "true", "2xx", "serving":
		return "good"
	case "failed", "exhausted", "circuitopen", "down", "error", "rejected", "gone", "refused", "tls", "dns", "connect", "http_5xx", "http_4xx", "protocol", "auth", "failing", "5xx":
		return "bad"
	case "retrying", "timeout", "held", "degraded", "waiting", "http_3xx", "inactive", "expired", "warning", "warn", "cancelled", "4xx":
		return "warn"
	case "pending", "sending", "scheduled", "running", "in_progress", "queued", "building":
		return "busy"
	}
	return "idle"
}

// moment reads a time in any form that answers have; ok is false when there is none.
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
			t, _ = rfc3339.Parse(*v)
		}
	case string:
		t, _ = rfc3339.Parse(v)
	}
	return t.UTC(), !t.IsZero()
}

// stamp returns a time in a form for programs.
func stamp(value any) string {
	t, ok := moment(value)
	if !ok {
		return ""
	}
	return t.Format("2006-01-02T15:04:05.000Z07:00")
}

// Clock returns a time in a form for people, in UTC; the browser shows it in its own zone.
func Clock(value any) string {
	t, ok := moment(value)
	if !ok {
		return "–"
	}
	return t.Format("2006-01-02 15:04:05") + " UTC"
}

// exact returns a time of day with milliseconds, in UTC; the browser shows it in its own zone.
func exact(value any) string {
	t, _ := moment(value)
	return t.Format("15:04:05.000") + " UTC"
}

// Offset returns how long after another time something happened: +80 ms, +1.2 s, +5 min 3 s.
func Offset(d time.Duration) string {
	switch {
	case d < 0:
		return "−" + strings.TrimPrefix(Offset(-d), "+")
	case d < time.Second:
		return "+" + strconv.FormatInt(d.Milliseconds(), 10) + "\u202fms"
	case d < time.Minute:
		return "+" + strings.TrimSuffix(strconv.FormatFloat(d.Truncate(100*time.Millisecond).Seconds(), 'f', 1, 64), ".0") + "\u202fs"
	case d < time.Hour:
		return fmt.Sprintf("+%d\u202fmin %d\u202fs", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("+%d\u202fh %d\u202fmin", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("+%d\u202fd %d\u202fh", int(d.Hours())/24, int(d.Hours())%24)
}

// since returns how long ago a time was, or how soon it will be, in the largest unit that fits.
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
		unit time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}} {
		if d >= unit.unit {
			return strconv.Itoa(int(d/unit.unit)) + " " + unit.name
		}
	}
	return strconv.Itoa(int(d/time.Second)) + " s"
}

// Visible makes characters visible that would mislead the reader: control characters, and those
// that change the direction of writing.
func Visible(text any) string {
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
	}, Text(text))
}

// Text returns a value as a text. It follows a pointer, and returns "" for nil.
func Text(value any) string {
	if v := reflect.ValueOf(value); v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		value = v.Elem().Interface()
	}
	return fmt.Sprint(value)
}
