package verb

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"waybill.dev/cmd/internal/console"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/rfc3339"
)

// Form is how a value is written.
type Form int

// The forms.
const (
	Plain Form = iota
	Moment
	YesNo
	Joined
	Labels
	Count
	JSON
	Span   // seconds
	Things // resources of the audit log, by name
	Types  // event types, on a terminal without what they have in common
	Brief  // a moment, on a terminal without year and zone
	Link   // a URL, in lists on a terminal without its scheme, and cut in its middle: its end tells it from others of its host
	Ident  // an id that commands take, in lists on a terminal as much of it as tells it from the others
	Until  // a moment, on a terminal how long it is until then
)

func (f Form) write(value any) string {
	if value == nil {
		return ""
	}
	switch f {
	case Moment, Brief, Until:
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
		_ = console.JSONLine(&text, value) // it was JSON before
		return strings.TrimSuffix(text.String(), "\n")
	case Span:
		return fmt.Sprint(value) + "s"
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

// short writes a moment in fewer columns than write does; other values as it does.
func (f Form) short(value any, now time.Time) string {
	if f == Types {
		return types(value)
	}
	if f == Link {
		text := f.write(value)
		if _, place, ok := strings.Cut(text, "://"); ok {
			return place
		}
		return text
	}
	at, err := time.Parse(time.RFC3339, fmt.Sprint(value))
	switch {
	case err != nil || f != Brief && f != Until:
		return f.write(value)
	case f == Brief:
		return at.UTC().Format("01-02 15:04:05")
	case !at.After(now):
		return "now"
	}
	return "in " + rough(at.Sub(now))
}

// rough writes a duration in its largest unit.
func rough(d time.Duration) string {
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if d >= 2*unit.size {
			return strconv.Itoa(int(d/unit.size)) + unit.name
		}
	}
	return strconv.Itoa(int(d.Round(time.Second)/time.Second)) + "s"
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

// wrap breaks a list after its commas, so that it is not wider than width.
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
