package verb

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"waybill.dev/cmd/internal/terminal"
)

func explainDelivery() Verb {
	return Verb{
		Name: "explain", Short: "Say why an event has, or has not, reached a webhook",
		Long: "Says where an event is on its way to a webhook and why, check by check, and what\n" +
			"you can do. Name a delivery, or an event and a webhook. In the second form it\n" +
			"also says why there is no delivery.",
		Example: "  waybill deliveries explain 0AvQ6nH4aXk3LZ0pT1cR8e\n" +
			"  waybill deliveries explain --event evt_order4711_created \\\n    --webhook 0198e5c2-…",
		Method: http.MethodGet, Path: "/v1/explanations",
		Args: []Arg{{Word: "[DELIVERY-ID]", To: "deliveryId", List: deliveriesPath, ID: "id", Whole: true, Optional: true}},
		Flags: []Flag{
			{Name: "event", Usage: "the event's `id`, together with --webhook", In: InQuery, To: "eventId"},
			{Name: "webhook", Usage: "the webhook's `id`, together with --event", In: InQuery, To: "webhookId", List: webhooksPath},
		},
		Adjust: whichDelivery, Show: View{Tell: tellExplanation},
	}
}

func whichDelivery(r *Request, in *Input) error {
	both := in.Text("event") != "" && in.Text("webhook") != ""
	either := in.Text("event") != "" || in.Text("webhook") != ""
	if len(in.Args) == 1 == either || either && !both {
		return misusef("give a DELIVERY-ID, or --event and --webhook")
	}
	if len(in.Args) == 1 {
		r.Query.Set("deliveryId", in.Args[0])
	}
	return nil
}

// tellExplanation writes an explanation in sentences, without cutting any.
func tellExplanation(w io.Writer, thing map[string]any, width int) {
	text := func(from members, name string) string {
		value, _ := from[name].(string)
		return terminal.Clean(value)
	}
	verdict := several(text(thing, "verdict"))
	fmt.Fprintf(w, "%s: %s\n", verdict, terminal.Hang(text(thing, "summary"), 0, len(verdict)+2, width))
	if chain, _ := thing["chain"].([]any); len(chain) > 0 {
		fmt.Fprintln(w)
		for _, one := range chain {
			step, _ := one.(members)
			head := fmt.Sprintf("  %-7s  %-12s  ", text(step, "result"), several(text(step, "check")))
			fmt.Fprintln(w, head+terminal.Hang(text(step, "detail"), utf8.RuneCountInString(head), utf8.RuneCountInString(head), width))
		}
	}
	if answer := answered(thing); answer != "" {
		fmt.Fprintf(w, "\nThe receiver wrote:\n  %s\n", terminal.Hang(answer, 2, 2, width))
	}
	if advice, _ := thing["advice"].([]any); len(advice) > 0 {
		fmt.Fprint(w, "\nWhat to do:\n")
		for _, one := range advice {
			fmt.Fprintf(w, "  - %s\n", terminal.Hang(terminal.Clean(fmt.Sprint(one)), 4, 4, width))
		}
	}
}

// answered returns the body of the last answer, in one line: of the delivery's last attempt, otherwise the
// one in a check.
func answered(thing members) string {
	delivery, _ := thing["delivery"].(members)
	attempts, _ := delivery["attempts"].([]any)
	if len(attempts) == 0 {
		return toldAnswer(thing)
	}
	last, _ := attempts[len(attempts)-1].(members)
	body, _ := last["responseBody"].(string)
	status, _ := last["status"].(json.Number)
	if body == "" {
		return ""
	}
	return strings.TrimSpace(status.String() + " " + terminal.Clean(strings.Join(strings.Fields(body), " ")))
}

// toldAnswer returns the answer in the last check that has one.
func toldAnswer(thing members) string {
	chain, _ := thing["chain"].([]any)
	if len(chain) == 0 {
		return ""
	}
	last, _ := chain[len(chain)-1].(members)
	body, _ := last["answer"].(string)
	return terminal.Clean(body)
}
