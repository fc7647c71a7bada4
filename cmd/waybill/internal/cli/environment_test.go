package cli_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/cmd/waybill/internal/verb"
)

// What a command does is on its command line: a variable that is left over from something
// else changes nothing.
func TestTheEnvironmentChangesNothingThatIsAsked(t *testing.T) {
	lines := []string{
		"webhooks update w --description x", "webhooks create https://example.com", "webhooks replay w --since 2026-01-01T00:00:00Z", "webhooks rotate w",
		"webhooks list", "events list", "deliveries list", "keys create partners acme", "consumers update partners acme --description x",
		"buckets create partners", "audit list", "buckets list",
	}
	var want [][]asked
	for _, line := range lines {
		want = append(want, call(t, http.StatusOK, `{"ok":true}`, strings.Fields(line)...).asked)
	}
	for _, noun := range verb.Nouns() {
		for _, v := range noun.Verbs {
			for _, f := range v.Flags {
				name := "WAYBILL_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
				value := "poison"
				switch f.Kind {
				case verb.Bool:
					value = "false"
				case verb.Integer, verb.Number, verb.Rate, verb.Numbers:
					value = "7"
				case verb.Past, verb.Future, verb.Seconds:
					value = "7h"
				case verb.Pairs:
					value = "po=ison"
				case verb.Object:
					value = "{}"
				default:
					if len(f.Choices) > 0 {
						value = f.Choices[0]
					}
				}
				t.Setenv(name, value)
			}
		}
	}
	for _, name := range []string{"WAYBILL_ACCOUNT", "WAYBILL_WEBHOOK_SECRET", "WAYBILL_WEBHOOK_RETRY_SCHEDULE"} {
		t.Setenv(name, "poison")
	}
	t.Setenv("WAYBILL_YES", "true")
	for n, line := range lines {
		r := call(t, http.StatusOK, `{"ok":true}`, strings.Fields(line)...)
		if diff := cmp.Diff(want[n], r.asked); diff != "" {
			t.Errorf("%s, exit code %d, %s (-without variables +with):\n%s", line, r.code, r.stderr, diff)
		}
	}
}
