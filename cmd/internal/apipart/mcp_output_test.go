package apipart_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"waybill.dev/shared/domain"
)

// outputs compiles the schemas that the tools are listed with.
func (r *rig) outputs(key string) map[string]*jsonschema.Schema {
	r.t.Helper()
	schemas := make(map[string]*jsonschema.Schema)
	for _, entry := range r.mcp(key, "tools/list", map[string]any{}).Result["tools"].([]any) {
		tool, _ := entry.(map[string]any)
		name, _ := tool["name"].(string)
		if tool["outputSchema"] == nil {
			schemas[name] = nil
			continue
		}
		text, err := json.Marshal(tool["outputSchema"])
		if err != nil {
			r.t.Fatal(err)
		}
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			r.t.Fatal(err)
		}
		compiler := jsonschema.NewCompiler()
		compiler.AssertFormat()
		if err := compiler.AddResource("tool:"+name, document); err != nil {
			r.t.Fatal(err)
		}
		if schemas[name], err = compiler.Compile("tool:" + name); err != nil {
			r.t.Errorf("the output of %s: %v", name, err)
		}
		if kind := document.(map[string]any)["type"]; kind != "object" {
			r.t.Errorf("the output of %s is %v, and older clients take objects alone", name, kind)
		}
	}
	return schemas
}

// Each tool that answers says with what, and keeps to it, in a form for programs too.
func TestToolOutputs(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		schemas := r.outputs(adminKey)
		for name, schema := range schemas {
			// A resource is text. The one has no answer, the other answers with an array, which older clients don't
			// take. The tools made from the OpenAPI document say less, to keep the list small.
			if without := name == "delete_webhook" || name == "list_webhooks" || name == "read_resource" || slices.Index(everyTool, name) >= written; (schema == nil) != without {
				t.Errorf("%s has the output %v", name, schema)
			}
		}
		called := make(map[string]bool)
		call := func(name string, args arguments) map[string]any {
			t.Helper()
			called[name] = true
			out := r.mcp(adminKey, "tools/call", map[string]any{"name": name, "arguments": args})
			if out.Error != nil || out.Result["isError"] == true {
				t.Fatalf("%s: %+v", name, out)
			}
			text, _ := out.Result["content"].([]any)[0].(map[string]any)["text"].(string)
			if schemas[name] == nil {
				return nil
			}
			var same any
			if err := json.Unmarshal([]byte(text), &same); err != nil || !reflect.DeepEqual(same, out.Result["structuredContent"]) {
				t.Errorf("%s: the text is %s, and structured it is %v", name, text, out.Result["structuredContent"])
			}
			if err := schemas[name].Validate(out.Result["structuredContent"]); err != nil {
				t.Errorf("%s: %v\n%s", name, err, text)
			}
			value, _ := same.(map[string]any)
			return value
		}
		webhook, _ := call("register_webhook", arguments{"url": "https://shop.example.com/x", "events": []string{"shipment.created"}})["id"].(string)
		id := arguments{"id": webhook}
		call("get_webhook", id)
		call("list_webhooks", arguments{})
		call("update_webhook", arguments{"id": webhook, "body": arguments{"description": "new"}})
		call("send_test_event", arguments{"id": webhook, "body": arguments{}})
		call("publish_event", arguments{"id": "evt_output", "type": "shipment.created", "data": arguments{"shipmentId": "shp_1", "more": []any{1.5, nil}}})
		delivery := string(r.deliver(webhook, "evt_output", domain.StatusFailed, "scheduleExhausted"))
		eventually(t, "the event is listed", func() bool { return r.send(http.MethodGet, "/v1/events/evt_output", "").status == http.StatusOK })
		call("list_events", arguments{})
		call("get_event", arguments{"id": "evt_output"})
		call("search_deliveries", arguments{})
		call("get_delivery", arguments{"id": delivery})
		call("explain_delivery", arguments{"deliveryId": delivery})
		call("retry_delivery", arguments{"id": delivery})
		call("replay_webhook", arguments{"id": webhook, "body": arguments{"since": "2026-01-01T00:00:00Z"}})
		call("list_rejected_messages", arguments{})
		call("delete_webhook", id)
		for name, schema := range schemas {
			if schema != nil && !called[name] {
				t.Errorf("%s was not called", name)
			}
		}
		// A refusal is no output.
		if out := r.mcp(adminKey, "tools/call", map[string]any{"name": "get_webhook", "arguments": id}); out.Result["isError"] != true || out.Result["structuredContent"] != nil {
			t.Errorf("a webhook that is gone: %+v", out)
		}
	})
}
