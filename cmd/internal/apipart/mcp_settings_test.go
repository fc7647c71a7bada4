package apipart_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// The tools take every setting of a webhook that the API takes, but for secrets, which are not to pass
// through a model.
func TestToolsTakeEverySetting(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	schemas := in(r.do(http.MethodGet, "/openapi", "").want(200).object(), "components", "schemas")
	for _, c := range []struct {
		tool, body string
		within     []string
	}{
		{"register_webhook", "WebhookCreateBody", nil},
		{"update_webhook", "WebhookUpdateBody", []string{"properties", "body"}},
	} {
		var want []string
		for name, property := range in(schemas, c.body, "properties") {
			if about, _ := property.(map[string]any); about["readOnly"] != true && name != "auth" && name != "secret" {
				want = append(want, name)
			}
		}
		slices.Sort(want)
		got := slices.Sorted(maps.Keys(in(r.inputOf(c.tool), append(c.within, "properties")...)))
		if !slices.Equal(got, want) {
			t.Errorf("%s takes %s, and the API %s", c.tool, strings.Join(got, " "), strings.Join(want, " "))
		}
	}
	pulled := r.works(adminKey, "register_webhook", arguments{
		"events": []string{"shipment.created", "waybill.webhook.failing"}, "delivery": "pull",
		"ordering": "shipment", "orderingMaxWaitSeconds": 60, "filter": map[string]any{"data.weightKg": map[string]any{"$gt": 5}},
	})
	if pulled["delivery"] != "pull" || pulled["ordering"] != "shipment" || pulled["filter"] == nil || pulled["url"] != nil {
		t.Errorf("registered: %v", pulled)
	}
}

// inputOf returns the schema of what a tool takes.
func (r *rig) inputOf(tool string) map[string]any {
	r.t.Helper()
	list, _ := r.mcp(adminKey, "tools/list", map[string]any{}).Result["tools"].([]any)
	for _, entry := range list {
		if about, _ := entry.(map[string]any); about["name"] == tool {
			return in(about, "inputSchema")
		}
	}
	r.t.Fatalf("there is no tool %s", tool)
	return nil
}

// in returns the object at a path in an object; nil: there is none.
func in(object map[string]any, path ...string) map[string]any {
	for _, name := range path {
		object, _ = object[name].(map[string]any)
	}
	return object
}
