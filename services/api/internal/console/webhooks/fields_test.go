package webhooks

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/webhooks"
	"waybill.dev/services/api/internal/spec"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/receiverauth"
)

// leftOut are the fields that no form has, with what is there instead.
func leftOut() map[string]string {
	return map[string]string{"active": "buttons to pause and to activate", "secret": "Waybill makes one, and shows it once"}
}

func fieldsOf(t *testing.T, schema string) []spec.Field {
	t.Helper()
	fields, err := spec.Fields(schema)
	if err != nil || len(fields) < 10 {
		t.Fatalf("%s has the fields %v: %v", schema, fields, err)
	}
	return fields
}

// Each field that a webhook may be registered or changed with is in the form, which shows what is wrong with it, or is named as left out.
func TestFormsHaveEachField(t *testing.T) {
	t.Parallel()
	for schema, page := range map[string]string{registered: "new.html", changes: "settings.html"} {
		for _, field := range fieldsOf(t, schema) {
			form := console.NewForm(url.Values{})
			form.Problem = &console.Problem{Status: 400, Faults: []console.Fault{{Pointer: "/" + field.Name, Detail: "canary"}}}
			var data any = newView{Step: 2, MayMake: true, Pull: field.Name == "delivery", Form: form, Types: choices(nil), Auth: (&webhook{}).auth()}
			if schema == changes {
				data = settingsView{head: head{MayWrite: true, Auth: (&webhook{}).auth()}, Form: form, Types: choices(nil)}
			}
			text, err := console.Execute(Module(), page, data)
			if err != nil {
				t.Fatal(err)
			}
			there := strings.Contains(text, `name="`+field.Name+`"`) || strings.Contains(text, `name="`+field.Name+`/`)
			if left := leftOut()[field.Name] != ""; there == left {
				t.Errorf("%s: the field %s is there: %v, and named as left out: %v", page, field.Name, there, left)
			}
			if strings.Count(text, "canary") != 1 {
				t.Errorf("%s shows what is wrong with %s %d times", page, field.Name, strings.Count(text, "canary"))
			}
		}
	}
}

// canaries are members of a webhook that has each field, none at its default.
func canaries(t *testing.T) *webhook {
	t.Helper()
	kind := receiverauth.Basic
	w := &webhook{Webhook: webhooks.Webhook{Events: []domain.EventType{domain.ShipmentCreated}, HeaderNames: []string{"X-Canary"}, AuthType: &kind}, given: map[string]jsontext.Value{}}
	for _, field := range fieldsOf(t, registered) {
		value := `"canary"`
		switch is := func(kind string) bool { return slices.Contains(field.Types, kind) }; {
		case is("array"):
			value = `["canary","other"]`
		case is("object"):
			value = `{"data.carrier":"canary"}`
		case is("number"), is("integer"):
			value = `7`
		case is("boolean"):
			value = `false`
		}
		w.given[field.Name] = jsontext.Value(value)
	}
	return w
}

// The same webhook again has each setting, whichever way it is made.
func TestTheSameWebhookHasEachField(t *testing.T) {
	t.Parallel()
	list, err := canaries(t).settings()
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range fieldsOf(t, registered) {
		if field.Name != "secret" && !slices.ContainsFunc(list, func(s setting) bool { return s.Name == field.Name }) {
			t.Errorf("the settings have no %s", field.Name)
		}
	}
	for _, s := range list {
		one := []setting{s}
		body, err := curl("http://127.0.0.1", one)
		if err != nil || !strings.Contains(body, `"`+s.Name+`"`) {
			t.Errorf("%s is missing for cURL: %s, %v", s.Name, body, err)
		}
		if text := command(one); text == command(nil) {
			t.Errorf("%s is missing on the command line", s.Name)
		}
		message, err := mcp(one)
		if err != nil || strings.Contains(message, `"`+s.Name+`"`) == (s.Name == "auth") {
			t.Errorf("%s for MCP: %s, %v", s.Name, message, err)
		}
	}
}

// A field that is typed in is sent, and the form has what the webhook has.
func TestFormsSendEachField(t *testing.T) {
	t.Parallel()
	w := canaries(t)
	values, err := w.values()
	if err != nil {
		t.Fatal(err)
	}
	nothing, err := changed(values, values)
	if err != nil || len(nothing) > 0 {
		t.Errorf("a form as it came sends %v: %v", nothing, err)
	}
	values.Set("headers", "X-A: b")
	values.Set("auth/type", "bearer")
	body, err := changed(values, url.Values{})
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range fieldsOf(t, changes) {
		if _, sent := body[field.Name]; !sent && leftOut()[field.Name] == "" {
			t.Errorf("%s is not sent", field.Name)
		}
	}
	for text, want := range map[string]any{"": nil, "x": "x"} {
		if got := typed([]string{"string", "null"}, text); got != want {
			t.Errorf("%q stands for %v, want %v", text, got, want)
		}
	}
}
