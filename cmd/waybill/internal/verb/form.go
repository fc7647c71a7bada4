package verb

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"waybill.dev/cmd/internal/console"
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
)

func (f Form) write(value any) string {
	if value == nil {
		return ""
	}
	switch f {
	case Moment:
		return moment(fmt.Sprint(value))
	case YesNo:
		return map[string]string{"true": "yes", "false": "no"}[fmt.Sprint(value)]
	case Joined:
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
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return text
	}
	return at.UTC().Format(time.RFC3339)
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
	for (f == Joined || f == Labels) && utf8.RuneCountInString(text) > width {
		at := strings.LastIndexByte(string([]rune(text)[:width]), ',') + 1
		if at == 0 {
			break
		}
		lines, text = append(lines, text[:at]), text[at:]
	}
	return append(lines, text)
}
