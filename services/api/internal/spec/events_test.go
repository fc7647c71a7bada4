package spec_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"waybill.dev/services/api/apitest"
	"waybill.dev/services/api/internal/families/sample"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
)

// schemaOf names the schema of a type's data: shipment.in_transit has ShipmentInTransitData.
func schemaOf(t domain.EventType) string {
	var name strings.Builder
	for _, word := range strings.FieldsFunc(string(t), func(c rune) bool { return c == '.' || c == '_' }) {
		name.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return name.String() + "Data"
}

// dataOf is how the reference to the schema of a type's data ends. Alerts share theirs.
func dataOf(t domain.EventType) string {
	if t.Alert() {
		return "Data"
	}
	return "/" + schemaOf(t)
}

// What is documented of an event's data is what publishing checks: a member of another
// type is refused, and sample events are as documented.
func TestData(t *testing.T) {
	t.Parallel()
	body := documents(t).OpenAPI.Body
	checker, err := apitest.New(body)
	if err != nil {
		t.Fatal(err)
	}
	document := decode(t, body)
	for _, kind := range domain.EventTypes() {
		name := schemaOf(kind)
		if err := checker.Validate("/components/schemas/"+name, sample.Data(kind, time.Now())); err != nil {
			t.Errorf("sample of %s: %v", kind, err)
		}
		parts, ok := object(t, document, "components", "schemas", name)["allOf"].([]any)
		if !ok || len(parts) != 2 {
			t.Fatalf("%s is not what all data have, and more", name)
		}
		members := maps.Clone(object(t, parts[1], "properties"))
		maps.Copy(members, object(t, document, "components", "schemas", "ShipmentData", "properties"))
		for member, schema := range members {
			checkMember(t, document, kind, member, object(t, schema))
		}
	}
}

// checkMember publishes an event whose member has another type than is documented.
func checkMember(t *testing.T, document map[string]any, kind domain.EventType, member string, schema map[string]any) {
	t.Helper()
	if ref, ok := schema["$ref"].(string); ok {
		schema = object(t, document, "components", "schemas", ref[strings.LastIndexByte(ref, '/')+1:])
	}
	wrong := "7"
	switch schema["type"] {
	case nil:
		return // anything
	case "integer", "number", "boolean":
		wrong = `"x"`
	case "string":
		if schema["format"] != nil {
			wrong = `"x"`
		}
	}
	if types, ok := schema["type"].([]any); ok && slices.Contains(types, any("integer")) {
		wrong = "{}"
	}
	data := `"shipmentId":"s","` + member + `":` + wrong
	if member == "shipmentId" {
		data = `"shipmentId":` + wrong
	}
	_, faults := envelope.Decode([]byte(`{"type":"` + string(kind) + `","data":{` + data + `}}`))
	if len(faults) != 1 || faults[0].Pointer != "/data/"+member {
		t.Errorf("%s with %s: %s is taken: %v", kind, member, wrong, faults)
	}
}

// bus reads the document of the bus so that references are followed by the checker: the
// schemas of both documents are of the same kind.
func bus(t *testing.T) (document map[string]any, checker *apitest.Checker) {
	t.Helper()
	body := documents(t).AsyncAPI.Body
	checker, err := apitest.New(body)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, body), checker
}

// Every reference of the document of the bus leads somewhere.
func TestAsyncAPIReferences(t *testing.T) {
	t.Parallel()
	document, _ := bus(t)
	if document["asyncapi"] != "3.0.0" {
		t.Errorf("asyncapi is %v", document["asyncapi"])
	}
	var walk func(any)
	walk = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				object(t, document, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
			}
			for _, child := range v {
				walk(child)
			}
		case []any:
			for _, child := range v {
				walk(child)
			}
		}
	}
	walk(document)
	for name, want := range map[string]string{"events": "events.{account}.{type}", "rejected": "rejected.{account}"} {
		if got := object(t, document, "channels", name)["address"]; got != want {
			t.Errorf("address of %s is %v, want %s", name, got, want)
		}
	}
}

// Each example of a message is as its schemas say, and is taken as an event, or is not, as
// it is said.
func TestAsyncAPIExamples(t *testing.T) {
	t.Parallel()
	document, checker := bus(t)
	for name, described := range object(t, document, "components", "messages") {
		message := object(t, described)
		examples, _ := message["examples"].([]any)
		if len(examples) == 0 {
			t.Errorf("message %s has no example", name)
		}
		for _, e := range examples {
			example := object(t, e)
			check(t, checker, "/components/messages/"+name+"/payload", example["payload"])
			check(t, checker, "/components/messages/"+name+"/headers", example["headers"])
			header := make(map[string][]string)
			for key, value := range object(t, example, "headers") {
				header[key] = []string{value.(string)} //nolint:forcetypeassert // checked by the schema
			}
			payload, err := json.Marshal(example["payload"])
			if err != nil {
				t.Fatal(err)
			}
			_, err = envelope.FromBus(domain.DefaultAccount, header, payload)
			switch {
			case name == "rejected":
				if err == nil || err.Error() != header["Waybill-Reason"][0] {
					t.Errorf("message %s is rejected for %q, documented as %q", name, err, header["Waybill-Reason"])
				}
			case err != nil:
				t.Errorf("message %s is no event: %v", name, err)
			}
		}
	}
}
