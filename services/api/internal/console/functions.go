package console

import (
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console/words"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/look"
)

// functions are the functions that templates may call, in addition to those of the elements. They return text, which is
// escaped in the template; none of them returns HTML.
func functions(a *look.Assets) template.FuncMap {
	own := template.FuncMap{
		"pretty": Pretty, "number": Number, "percent": percent, "millis": Millis, "path": pathOf, "query": queryOf,
		"reason": func(code *string) string { return words.Reason(web.Value(code)) },
		"action": words.Action,
		"period": func(of any) string { return words.Period(domain.Cadence(look.Text(of))) },
		"field":  newField, "hint": withHint, "required": withRequired, "options": withOptions, "rows": withRows,
		"typed": withType, "place": withPlace, "wide": asWide, "list": func(items ...any) []any { return items },
		"option": func(value, label string) Option { return Option{value, label} },
	}
	maps.Copy(own, look.Functions(a))
	return own
}

// Visible makes invisible characters visible, such as those that hide or reverse the following text.
func Visible(text any) string { return look.Visible(text) }

// Offset says how long after another time something was: +1.2 s.
func Offset(d time.Duration) string { return look.Offset(d) }

// Clock returns a time in UTC, which the browser shows in its own zone in titles of charts.
func Clock(at any) string { return look.Clock(at) }

// Pretty indents JSON without changing its numbers and strings; text that is not JSON stays as it is.
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

// Editable returns JSON for a form: indented, with misleading characters escaped, so that it has the same meaning when it is
// sent.
func Editable(body string) string {
	value := jsontext.Value(body).Clone()
	if value.Format(jsontext.PreserveRawStrings(true), jsontext.WithIndent("  "), jsontext.SpaceAfterColon(true), jsontext.AllowDuplicateNames(true)) == nil {
		body = string(value)
	}
	var b strings.Builder
	for _, r := range body {
		if shown := string(r); Visible(shown) == shown {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// Number groups the digits of a whole number by a narrow space.
func Number(n any) string {
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

// percent writes a share of one as 99.95 %, and nil, the share of no attempts, as a dash.
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
		text = "99.99" // less than all must not show as 100
	}
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + "\u202f%"
}

// Millis writes milliseconds: 12 ms, 1.2 s.
func Millis(ms any) string {
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

// pathOf is Path for values of several types.
func pathOf(segments ...any) string {
	texts := make([]string, len(segments))
	for i, segment := range segments {
		texts[i] = look.Text(segment)
	}
	return Path(texts...)
}

// queryOf writes alternating names and values as a query, without empty values.
func queryOf(pairs ...any) string {
	query := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if value := look.Text(pairs[i+1]); value != "" {
			query.Set(look.Text(pairs[i]), value)
		}
	}
	if len(query) == 0 {
		return ""
	}
	return "?" + query.Encode()
}

// FormatBytes writes a number of bytes in the largest unit that fits.
func FormatBytes[N int | uint64 | float64](bytes N) string {
	n := float64(bytes)
	for _, unit := range []struct {
		of   float64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.of {
			return strconv.FormatFloat(n/unit.of, 'f', 1, 64) + "\u202f" + unit.name
		}
	}
	return strconv.FormatFloat(n, 'f', 0, 64) + "\u202fB"
}
