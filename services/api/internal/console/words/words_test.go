package words

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"waybill.dev/services/api/internal/families/receivers"
	"waybill.dev/services/api/internal/spec"
	"waybill.dev/shared/domain"
)

// document is what the API's document has of codes.
type document struct {
	Components struct {
		Schemas map[string]struct {
			codes

			Properties map[string]codes `json:"properties"`
		} `json:"schemas"`
	} `json:"components"`
}

type codes struct {
	Enum []any `json:"enum"`
}

// Each code that the document lists has words.
func TestEachCodeHasWords(t *testing.T) {
	t.Parallel()
	served, err := spec.New()
	if err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(served.OpenAPI.Body, &d); err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct {
		schema, property string
		text             func(string) string
	}{
		{"Scope", "", func(code string) string { return Scope(domain.Scope(code)) }},
		{"DeliveryReason", "", reasonText},
		{"AttemptClass", "", func(code string) string { return classText(domain.Class(code)) }},
		{"WebhookHealth", "state", func(code string) string { return stateText(receivers.State(code)) }},
		{"Cadence", "", func(code string) string { return periodText(domain.Cadence(code)) }},
		{"Webhook", "disabledReason", func(code string) string { return disabledText(domain.DisabledReason(code)) }},
	} {
		schema := d.Components.Schemas[of.schema]
		list := schema.Enum
		if of.property != "" {
			list = schema.Properties[of.property].Enum
		}
		if len(list) < 4 {
			t.Errorf("%s %s of the document has the codes %v", of.schema, of.property, list)
		}
		seen := []string{}
		for _, member := range list {
			code, ok := member.(string)
			if !ok { // null
				continue
			}
			text := of.text(code)
			if text == "" || strings.ContainsAny(text, "_:") || slices.Contains(seen, text) {
				t.Errorf("%s %s: %q is in words %q", of.schema, of.property, code, text)
			}
			seen = append(seen, text)
		}
	}
}

// A code that is not known, as of a newer release, is shown as it is.
func TestUnknownCodes(t *testing.T) {
	t.Parallel()
	const unknown = "newOne"
	disabled := domain.DisabledReason(unknown)
	for _, got := range []string{Reason(unknown), Class(unknown), State(unknown), Period(unknown), Disabled(&disabled)} {
		if got != unknown {
			t.Errorf("%q is shown as %q", unknown, got)
		}
	}
	if got := Disabled(nil); got != "paused" {
		t.Errorf("without a reason a webhook is %q", got)
	}
}
