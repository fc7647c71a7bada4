package deliveries

import (
	"fmt"
	"slices"
	"strings"

	"waybill.dev/services/api/internal/families/deliveries"
)

// difference is the difference between two attempts.
type difference struct {
	With  string // the other attempt
	Rows  []change
	Lines []line // of the bodies of the answers; none: the bodies are equal
}

// change is one difference.
type change struct{ Name, Before, Now string }

// line is a line of a body: in both, only before, or only now.
type line struct{ Mark, Class, Text string }

// maxLines bounds how many lines of a body are compared: the work grows with their square.
const maxLines = 200

// always returns the headers that differ between any two attempts, which says nothing.
func always() []string {
	return []string{"webhook-timestamp", "webhook-signature", "waybill-attempt", "waybill-delivery-id", "webhook-id", "traceparent", "date", "content-length"}
}

// compare returns the differences between two attempts.
func compare(with string, before, now attempt) *difference {
	d := &difference{With: with}
	d.row("outcome", before.Outcome(), now.Outcome())
	d.row("URL", before.URL, now.URL)
	d.row("remote address", before.RemoteAddress, now.RemoteAddress)
	d.fields("sent ", before.RequestHeaders, now.RequestHeaders)
	d.fields("answered ", before.ResponseHeaders, now.ResponseHeaders)
	d.row("duration", span(before.DurationMs), span(now.DurationMs))
	if before.ResponseBody != now.ResponseBody {
		d.Lines = differ(lines(before.ResponseBody), lines(now.ResponseBody))
	}
	return d
}

// Same reports whether there are no differences.
func (d *difference) Same() bool { return len(d.Rows) == 0 && len(d.Lines) == 0 }

func (d *difference) row(name, before, now string) {
	if before != now {
		d.Rows = append(d.Rows, change{name, orNone(before), orNone(now)})
	}
}

func (d *difference) fields(prefix string, before, now []deliveries.Header) {
	var names []string
	for _, h := range slices.Concat(before, now) {
		name := strings.ToLower(h.Name)
		if !slices.Contains(names, name) && !slices.Contains(always(), name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		d.row(prefix+name, text(before, name), text(now, name))
	}
}

// text returns all values of a header.
func text(fields []deliveries.Header, name string) string {
	var values []string
	for _, h := range fields {
		switch {
		case !strings.EqualFold(h.Name, name):
		case h.Value == nil:
			values = append(values, "(not shown)")
		default:
			values = append(values, *h.Value)
		}
	}
	return strings.Join(values, ", ")
}

func orNone(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

func span(ms int64) string { return fmt.Sprintf("%d ms", ms) }

func lines(text string) []string {
	if text == "" {
		return nil
	}
	list := strings.Split(text, "\n")
	return list[:min(len(list), maxLines)]
}

// differ compares line by line, by the longest common subsequence.
func differ(before, now []string) []line {
	common := make([][]int, len(before)+1)
	for i := range common {
		common[i] = make([]int, len(now)+1)
	}
	for i, old := range slices.Backward(before) {
		for j, line := range slices.Backward(now) {
			if old == line {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var list []line
	for i, j := 0, 0; i < len(before) || j < len(now); {
		switch {
		case i < len(before) && j < len(now) && before[i] == now[j]:
			list = append(list, line{" ", "", before[i]})
			i, j = i+1, j+1
		case j == len(now) || i < len(before) && common[i+1][j] >= common[i][j+1]:
			list = append(list, line{"−", "diff-del", before[i]})
			i++
		default:
			list = append(list, line{"+", "diff-add", now[j]})
			j++
		}
	}
	return list
}
