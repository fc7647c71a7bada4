package verb

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/rfc3339"
	"waybill.dev/shared/units"
)

// Form is the form in which a value is printed.
type Form int

// The forms.
const (
	Plain  Form = iota
	Moment      // on a terminal as the time since then, or until then
	Mark        // a moment that is printed as one on a terminal, too: the rows are identified by it
	Exact       // a moment, with its fractions of a second if it is printed as one
	YesNo
	Joined
	Labels
	Count
	JSON
	Span   // seconds
	Things // resources of the audit log, by name
	Types  // event types, on a terminal without their common beginning
	Link   // a URL; in lists on a terminal without the scheme and cut in the middle, because the end distinguishes URLs of one host
	Ident  // an id that commands accept, in lists on a terminal cut to the length that distinguishes it
	Until  // a moment; things that are due may be later than it
	Took   // milliseconds
	Phases // phases of an attempt
	Word   // several words, written as one
)

func (f Form) write(value any) string {
	if value == nil {
		return ""
	}
	switch f {
	case Moment, Mark, Until:
		return moment(fmt.Sprint(value))
	case YesNo:
		return map[string]string{"true": "yes", "false": "no"}[fmt.Sprint(value)]
	case Joined, Types:
		return joined(value, ",")
	case Things:
		return joined(value, " ")
	case Labels:
		return labels(value)
	case Count:
		list, _ := value.([]any)
		return strconv.Itoa(len(list))
	case JSON:
		var text strings.Builder
		_ = terminal.JSONLine(&text, value) // can't fail: it was read from JSON
		return strings.TrimSuffix(text.String(), "\n")
	case Span:
		return fmt.Sprint(value) + " s"
	case Took:
		return milliseconds(value)
	case Phases:
		return phases(value)
	case Word:
		return several(fmt.Sprint(value))
	default:
		return fmt.Sprint(value)
	}
}

// moment leaves out fractions of seconds.
func moment(text string) string {
	at, ok := rfc3339.Parse(text)
	if !ok {
		return text
	}
	return at.Format(time.RFC3339)
}

// short writes a value for a list on a terminal.
func (f Form) short(value any, now time.Time) string {
	switch f {
	case Types:
		return types(value)
	case Link:
		text := f.write(value)
		if _, place, ok := strings.Cut(text, "://"); ok {
			return place
		}
		return text
	case Moment, Exact, Until:
		at, ok := rfc3339.Parse(fmt.Sprint(value))
		switch {
		case !ok:
			return f.write(value)
		case f == Until && at.Before(now):
			return "now"
		}
		return units.Since(at, now)
	default:
		return f.write(value)
	}
}

// beside returns the text that a single thing shows after a moment on a terminal.
func (f Form) beside(value any, now time.Time) string {
	if at, ok := rfc3339.Parse(fmt.Sprint(value)); ok && (f == Moment || f == Until) {
		if near := units.Since(at, now); near != at.UTC().Format(time.DateOnly) {
			return "  (" + near + ")"
		}
	}
	return ""
}

// milliseconds writes a number of milliseconds.
func milliseconds(value any) string {
	number, ok := value.(json.Number)
	if !ok {
		return fmt.Sprint(value)
	}
	ms, err := number.Float64()
	if err != nil {
		return number.String()
	}
	return units.Duration(time.Duration(ms * float64(time.Millisecond)))
}

// phases formats the phases that an attempt had, in their order.
func phases(value any) string {
	thing, _ := value.(members)
	var words []string
	for _, phase := range []struct{ member, name string }{
		{"dnsMs", "name"}, {"connectMs", "connect"}, {"tlsMs", "TLS"}, {"firstByteMs", "first byte"}, {"bodyMs", "body"},
	} {
		if took, ok := thing[phase.member]; ok {
			words = append(words, phase.name+" "+milliseconds(took))
		}
	}
	return strings.Join(words, ", ")
}

// several writes a word of several words as several: behind shipment.
func several(word string) string {
	var b strings.Builder
	for _, r := range word {
		if unicode.IsUpper(r) {
			b.WriteByte(' ')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

func types(value any) string {
	list, _ := value.([]any)
	var words []string
	events := 0
	for _, one := range list {
		name := fmt.Sprint(one)
		if domain.EventType(name).Valid() {
			events++
		}
		words = append(words, strings.TrimPrefix(name, "shipment."))
	}
	if events == len(domain.EventTypes()) && events == len(list) {
		return "all"
	}
	return strings.Join(words, ",")
}

func joined(value any, between string) string {
	list, _ := value.([]any)
	var words []string
	for _, one := range list {
		if thing, ok := one.(members); ok {
			words = append(words, named(thing))
		} else {
			words = append(words, fmt.Sprint(one))
		}
	}
	return strings.Join(words, between)
}

// named returns the name of a resource, or its id when it has none.
func named(thing members) string {
	if more, ok := thing["metadata"].(members); ok && more["name"] != nil {
		return fmt.Sprint(more["name"])
	}
	return fmt.Sprint(thing["id"])
}

func labels(value any) string {
	thing, _ := value.(members)
	var words []string
	for name, text := range thing {
		words = append(words, fmt.Sprintf("%s=%v", name, text))
	}
	slices.Sort(words)
	return strings.Join(words, ",")
}

// wrap breaks a list after its commas, so that it fits into width.
func (f Form) wrap(text string, width int) []string {
	var lines []string
	for (f == Joined || f == Labels || f == Types) && utf8.RuneCountInString(text) > width {
		at := strings.LastIndexByte(string([]rune(text)[:width]), ',') + 1
		if at == 0 {
			break
		}
		lines, text = append(lines, text[:at]), text[at:]
	}
	return append(lines, text)
}
