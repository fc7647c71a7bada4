package verb

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"waybill.dev/cmd/internal/terminal"
)

// statistics returns a noun that is also its only verb.
func statistics() Noun {
	return Noun{Name: "statistics", Self: &Verb{
		Name: "statistics", Short: "Count events, deliveries and attempts by time",
		Long: "Counts events, deliveries and attempts by minute, hour or day. Each attempt\n" +
			"counts once. A step without anything is left out.",
		Example: "  waybill statistics --since 24h\n  waybill statistics --step day --by webhook --since 168h\n" +
			"  waybill statistics --step minute --since 30m --webhook 0198e5c2-…",
		Method: http.MethodGet, Path: "/v1/statistics",
		Flags: concat([]Flag{
			{Name: "step", Usage: "minute, hour or day; default hour", In: InQuery, Choices: []string{"minute", "hour", "day"}},
			{Name: "by", Usage: "webhook, type or class: with rows of their own", In: InQuery, Choices: []string{"webhook", "type", "class"}},
			{Name: "webhook", Usage: "only deliveries to the webhook with this `id`", In: InQuery, To: "webhookId", List: webhooksPath},
		}, span("since", "until")),
		Show: View{None: "Nothing was counted in that time.", Columns: []Column{
			{Title: "START", Member: "start", Form: Mark},
			{Title: "WEBHOOK", Member: "webhookId", Form: Ident}, {Title: "TYPE", Member: "type"}, {Title: "CLASS", Member: "class"},
			{Title: "EVENTS", Member: "events"}, {Title: "DELIVERIES", Member: "deliveries"}, {Title: "ATTEMPTS", Member: "attempts"},
			{Title: "OK", Member: "succeeded"}, {Title: "FAILED", Member: "failed"},
			{Title: "P50", Member: "latencyMs.p50", Form: Took, Spare: true}, {Title: "P95", Member: "latencyMs.p95", Form: Took, Spare: true},
			{Title: "P99", Member: "latencyMs.p99", Form: Took, Spare: true},
		}},
	}}
}

func webhookHealth() Verb {
	return Verb{
		Name: "health", Short: "Show how a webhook's receiver is doing",
		Long: "Shows whether a webhook is healthy, its circuit, what waits for it, how its\n" +
			"attempts ended in the last hour, day and week, and the last answers that differ.",
		Example: "  waybill webhooks health 0198e5c2-…",
		Method:  http.MethodGet, Path: webhooksPath + "/{id}/health", Args: webhookArg(),
		Show: View{Tell: tellHealth},
	}
}

// tellHealth writes a webhook's health, beginning with its problem.
func tellHealth(w io.Writer, thing map[string]any, width int) {
	of := func(c Column, from members) string { return terminal.Clean(c.text(from)) + c.beside(from, width) }
	if degraded, _ := thing["degraded"].(bool); degraded {
		thing["state"] = "degraded" // as in lists
	}
	fmt.Fprintf(w, "%s\n", of(Column{Member: "state", Form: Word}, thing))
	for _, line := range []struct {
		name, member string
		form         Form
	}{
		{"failures in a row", "circuit.failuresInARow", Plain},
		{"cause", "problem.cause", Plain},
		{"since", "problem.since", Moment},
		{"acknowledged by", "problem.acknowledgement.by", Plain},
		{"acknowledged", "problem.acknowledgement.at", Moment},
		{"muted until", "problem.acknowledgement.mutedUntil", Moment},
		{"circuit open since", "circuit.since", Moment},
		{"next probe", "circuit.nextProbeAt", Moment},
		{"inactive from", "inactiveFrom", Moment},
		{"last success", "lastSuccessAt", Moment},
		{"last failure", "lastFailureAt", Moment},
		{"waiting", "waiting", Plain},
		{"held", "held", Plain},
		{"scheduled", "scheduled", Plain},
		{"oldest undelivered", "oldestUndelivered.deliveryId", Plain},
		{"accepted", "oldestUndelivered.acceptedAt", Moment},
	} {
		column := Column{Member: line.member, Form: line.form}
		if value, ok := column.value(thing); ok && value != nil {
			fmt.Fprintf(w, "  %-18s  %s\n", line.name, of(column, thing))
		}
	}
	windows, _ := thing["windows"].(members)
	var rows []members
	for _, name := range []string{"1h", "24h", "7d"} {
		if window, ok := windows[name].(members); ok {
			window["name"] = name
			rows = append(rows, window)
		}
	}
	fmt.Fprintln(w)
	printRows(w, []Column{
		{Title: "LAST", Member: "name"}, {Title: "ATTEMPTS", Member: "attempts"}, {Title: "OK", Member: "succeeded"},
		{Title: "FAILED", Member: "failed"}, {Title: "P50", Member: "latencyMs.p50", Form: Took, Spare: true},
		{Title: "P95", Member: "latencyMs.p95", Form: Took, Spare: true}, {Title: "P99", Member: "latencyMs.p99", Form: Took, Spare: true},
	}, rows, width)
	answers, _ := View{}.list(thing["answers"])
	if len(answers) > 0 {
		fmt.Fprint(w, "\nLast answers:\n")
	}
	for _, answer := range answers {
		head := fmt.Sprintf("  %s  %-8s  ", of(Column{Member: "at", Form: Moment}, answer), of(Column{Member: "class"}, answer))
		if code := of(Column{Member: "statusCode"}, answer); code != "-" {
			head += code + "  "
		}
		text, _ := answer["body"].(string)
		body := terminal.Clean(strings.Join(strings.Fields(text), " "))
		fmt.Fprintln(w, strings.TrimRight(head+Plain.cut(body, max(width-len(head), least)), " "))
	}
}
