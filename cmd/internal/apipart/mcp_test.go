package apipart_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/api"
	"waybill.dev/shared/domain"
)

// everyTool is what a key with all rights sees, in this order.
var everyTool = []string{
	"read_resource",
	"list_webhooks", "register_webhook", "get_webhook", "update_webhook", "delete_webhook", "send_test_event", "replay_webhook",
	"search_deliveries", "get_delivery", "explain_delivery", "retry_delivery", "list_events", "get_event", "publish_event", "list_rejected_messages",
	"who_am_i", "list_accounts", "create_account", "get_account", "create_admin_key", "get_project", "update_project", "list_projects", "create_project", "list_audit_logs",
	"list_buckets", "create_bucket", "get_bucket", "update_bucket", "delete_bucket",
	"list_consumers", "create_consumer", "get_consumer", "update_consumer", "delete_consumer",
	"list_client_mtls_ca_certificates", "create_client_mtls_ca_certificate", "get_client_mtls_ca_certificate", "update_client_mtls_ca_certificate", "delete_client_mtls_ca_certificate",
	"create_deployment_source", "get_deployment_status", "list_deployments", "get_deployment", "delete_deployment", "redeploy", "list_builds", "get_build_logs",
	"list_custom_domains", "create_custom_domain", "update_custom_domain", "delete_custom_domain", "verify_custom_domain", "put_custom_domain_certificate", "delete_custom_domain_certificate",
	"list_environments", "get_environment", "list_variables", "create_variable", "update_variable", "delete_variable", "list_expiring",
	"get_statistics", "get_webhook_health", "retry_deliveries", "list_jobs", "get_job", "cancel_job",
	"roll_keys", "list_keys", "create_key", "create_keys", "get_key", "update_key", "delete_key",
	"list_managers", "create_manager", "get_manager", "delete_manager",
	"list_meters", "create_meter", "get_meter", "update_meter", "delete_meter", "query_meter", "query_meter_by_body", "list_meter_group_values", "list_features", "create_feature", "get_feature", "archive_feature", "list_plans", "create_plan", "get_plan", "update_plan", "delete_plan", "publish_plan", "archive_plan", "get_subscription", "set_subscription", "delete_subscription", "get_access",
	"list_signing_keys", "rotate_signing_keys",
	"list_recent_calls", "get_call_statistics", "list_request_logs", "get_request_log",
	"list_tunnels", "create_tunnel", "get_tunnel", "delete_tunnel", "rotate_tunnel_token", "get_tunnel_teardown", "get_tunnel_services", "configure_tunnel_services", "get_tunnel_provisioning",
	"rotate_webhook_secret", "acknowledge_problem", "reopen_problem", "test_webhook_filter",
	"read_feed", "list_cursors", "get_cursor", "set_cursor", "delete_cursor",
}

// written is how many of them people have written, or the server has itself; the others are made from the OpenAPI document.
const written = 16

// anyKeys are the tools of a key without any scope but mcp:use.
var anyKeys = []string{"read_resource", "who_am_i", "list_accounts", "get_account"}

// An AI client finds out what is wrong and puts it right, with nothing but the MCP server.
func TestWaybillOverMCP(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		since := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
		made := r.works(adminKey, "register_webhook", arguments{"url": "http://127.0.0.1:9/hook", "events": []string{"shipment.created"}, "description": "by a client"})
		hook, _ := made["id"].(string)
		if secret, _ := made["secret"].(string); !strings.HasPrefix(secret, "whsec_") {
			t.Fatalf("registered: %v", made)
		}
		if shown := r.do(http.MethodGet, "/v1/webhooks/"+hook, "").want(200).object(); shown["description"] != "by a client" {
			t.Errorf("over REST: %v", shown)
		}
		published := r.works(adminKey, "publish_event", arguments{"id": "evt_mcp", "type": "shipment.created", "data": map[string]any{"shipmentId": "s", "weight": 1.50}})
		if fmt.Sprint(published["events"]) != "[map[duplicate:false id:evt_mcp]]" {
			t.Errorf("published: %v", published)
		}
		failed := string(r.deliver(hook, "evt_mcp", domain.StatusFailed, domain.ReasonExhausted))

		found := r.works(adminKey, "search_deliveries", arguments{"webhookId": hook, "status": "failed", "reason": "scheduleExhausted", "class": "http_5xx", "statusCode": 500, "test": false})
		if list, _ := found["data"].([]any); len(list) != 1 || list[0].(map[string]any)["id"] != failed {
			t.Fatalf("failing deliveries: %v", found)
		}
		if shown := r.works(adminKey, "get_delivery", arguments{"id": failed}); len(shown["attempts"].([]any)) != 1 {
			t.Errorf("delivery: %v", shown)
		}
		why := r.works(adminKey, "explain_delivery", arguments{"deliveryId": failed})
		if why["verdict"] != "scheduleExhausted" || !strings.Contains(fmt.Sprint(why["summary"]), "500 (Internal Server Error)") {
			t.Errorf("explained: %v", why)
		}
		if retried := r.works(adminKey, "retry_delivery", arguments{"id": failed}); retried["status"] != "pending" {
			t.Errorf("retried: %v", retried)
		}
		if text, isError := r.tool(adminKey, "retry_delivery", arguments{"id": failed}); !isError || !strings.Contains(text, "CONFLICT") {
			t.Errorf("retried twice: %v %s", isError, text)
		}
		eventually(t, "the retry is due", func() bool { return r.due()[domain.DeliveryID(failed)] != nil })

		r.publish(event("evt_again"))
		r.deliver(hook, "evt_again", domain.StatusFailed, domain.ReasonExhausted)
		if replayed := r.works(adminKey, "replay_webhook", arguments{"id": hook, "body": arguments{"since": since}}); replayed["matched"] != 1. {
			t.Errorf("replayed: %v", replayed)
		}
		sent := r.works(adminKey, "send_test_event", arguments{"id": hook})
		test, _ := sent["deliveryId"].(string)
		eventually(t, "the test is due", func() bool { task := r.due()[domain.DeliveryID(test)]; return task != nil && task.Test })

		if changed := r.works(adminKey, "update_webhook", arguments{"id": hook, "body": arguments{"active": false}}); changed["active"] != false {
			t.Errorf("changed: %v", changed)
		}
		if text, isError := r.tool(adminKey, "delete_webhook", arguments{"id": hook}); isError || text != "" {
			t.Errorf("deleted: %v %q", isError, text)
		}
		r.do(http.MethodGet, "/v1/webhooks/"+hook, "").want(404)
		if text, isError := r.tool(adminKey, "get_webhook", arguments{"id": hook}); !isError || !strings.Contains(text, "NOT_FOUND") {
			t.Errorf("what was deleted: %v %s", isError, text)
		}
		actions := []string{}
		for _, entry := range r.do(http.MethodGet, "/v1/accounts/default/audit-logs", "").want(200).items("data") {
			actions = append(actions, fmt.Sprint(entry["action"], " ", entry["success"]))
		}
		slices.Reverse(actions)
		want := []string{
			"create-webhook true", "retry-delivery true", "retry-delivery false", "replay-webhook true",
			"test-webhook true", "update-webhook true", "delete-webhook true",
		}
		if diff := cmp.Diff(want, actions); diff != "" {
			t.Errorf("audit log (-want +got):\n%s", diff)
		}
	})
}

// A key sees the tools that it may use, and no other is there for it.
func TestToolsOfAKey(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	bucket := r.bucket("ai-clients")
	hook := r.register(plainWebhook).text("id")
	if got := r.listed(adminKey, "tools/list", "tools", "name"); !slices.Equal(got, everyTool) {
		t.Errorf("tools of all rights:\n%v\nwant\n%v", got, everyTool)
	}
	for i, c := range []struct {
		scopes []domain.Scope
		want   []string
	}{
		{nil, []string{}},
		{[]domain.Scope{domain.ScopeWebhooksRead}, []string{"list_webhooks", "get_webhook", "get_webhook_health", "list_signing_keys", "list_expiring"}},
		{[]domain.Scope{domain.ScopeWebhooksWrite}, []string{"register_webhook", "update_webhook", "delete_webhook", "rotate_webhook_secret", "acknowledge_problem", "reopen_problem", "set_cursor", "delete_cursor"}},
		{[]domain.Scope{domain.ScopeEventsRead}, []string{
			"search_deliveries", "get_delivery", "explain_delivery", "list_events", "get_event", "list_rejected_messages",
			"get_statistics", "list_jobs", "get_job", "read_feed", "list_cursors", "get_cursor",
		}},
		{[]domain.Scope{domain.ScopeEventsWrite}, []string{"send_test_event", "replay_webhook", "retry_delivery", "publish_event", "retry_deliveries", "cancel_job"}},
		{[]domain.Scope{domain.ScopeBucketsRead}, []string{
			"get_project", "list_projects", "list_buckets", "get_bucket", "list_consumers", "get_consumer", "list_keys", "get_key", "list_managers", "get_manager",
		}},
		{[]domain.Scope{domain.ScopeGatewayRead}, []string{
			"get_project", "list_environments", "get_environment", "list_variables", "get_deployment_status", "list_deployments", "get_deployment", "list_builds", "get_build_logs",
			"list_recent_calls", "get_call_statistics", "list_request_logs", "get_request_log",
			"list_tunnels", "get_tunnel", "get_tunnel_teardown", "get_tunnel_services", "get_tunnel_provisioning", "list_custom_domains",
			"list_client_mtls_ca_certificates", "get_client_mtls_ca_certificate",
		}},
		{[]domain.Scope{domain.ScopeMeteringRead}, []string{"list_meters", "get_meter", "query_meter", "query_meter_by_body", "list_meter_group_values", "list_features", "get_feature", "list_plans", "get_plan", "get_subscription", "get_access"}},
		{[]domain.Scope{domain.ScopeMeteringWrite}, []string{"create_meter", "update_meter", "delete_meter", "create_feature", "archive_feature", "create_plan", "update_plan", "delete_plan", "publish_plan", "archive_plan", "set_subscription", "delete_subscription"}},
		{[]domain.Scope{domain.ScopeGatewayWrite}, []string{
			"update_project", "create_variable", "update_variable", "delete_variable", "create_deployment_source", "delete_deployment", "redeploy",
			"create_tunnel", "delete_tunnel", "rotate_tunnel_token", "configure_tunnel_services",
			"create_custom_domain", "update_custom_domain", "delete_custom_domain", "verify_custom_domain", "put_custom_domain_certificate", "delete_custom_domain_certificate",
			"create_client_mtls_ca_certificate", "update_client_mtls_ca_certificate", "delete_client_mtls_ca_certificate",
		}},
		{[]domain.Scope{domain.ScopeEventsRead, domain.ScopeWebhooksRead}, []string{
			"list_webhooks", "get_webhook", "search_deliveries", "get_delivery", "explain_delivery", "list_events", "get_event", "list_rejected_messages",
			"get_webhook_health", "test_webhook_filter", "get_statistics", "list_jobs", "get_job", "list_signing_keys", "list_expiring", "read_feed", "list_cursors", "get_cursor",
		}},
	} {
		_, key := r.holder(bucket, fmt.Sprint("holder-", i), append(c.scopes, domain.ScopeMCP)...)
		got := r.listed(key, "tools/list", "tools", "name")
		slices.Sort(got)
		if want := slices.Sorted(slices.Values(slices.Concat(c.want, anyKeys))); !slices.Equal(got, want) {
			t.Errorf("%v: tools\n%v\nwant\n%v", c.scopes, got, want)
		}
		for _, name := range everyTool {
			if slices.Contains(c.want, name) || slices.Contains(anyKeys, name) {
				continue
			}
			args := arguments{"id": hook, "url": "http://127.0.0.1:9/", "events": []string{"shipment.created"}}
			if out := r.mcp(key, "tools/call", map[string]any{"name": name, "arguments": args}); out.Error == nil || out.Error.Code != -32602 {
				t.Errorf("%v: %s is not unknown: %+v", c.scopes, name, out)
			}
		}
		resources := r.listed(key, "resources/list", "resources", "uri")
		if len(resources) < 4 || slices.Contains(resources, latestDeliveries) != slices.Contains(c.want, "search_deliveries") ||
			slices.Contains(resources, problems) != slices.Contains(c.want, "list_webhooks") {
			t.Errorf("%v: resources %v", c.scopes, resources)
		}
		prompts := r.listed(key, "prompts/list", "prompts", "name")
		if asks := slices.Contains(c.want, "explain_delivery") && slices.Contains(c.want, "list_webhooks"); asks != slices.Contains(prompts, "why_not_delivered") {
			t.Errorf("%v: prompts %v", c.scopes, prompts)
		}
	}
	_, rest := r.holder(bucket, "no-mcp", domain.ScopeWebhooksRead, domain.ScopeEventsRead)
	message := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	if a := r.send(http.MethodPost, "/mcp", message, as(rest)); a.status != http.StatusForbidden {
		t.Errorf("a key without mcp:use: %d %s", a.status, a.body)
	}
	for _, key := range []string{"nonsense", rest + "x"} {
		if a := r.send(http.MethodPost, "/mcp", message, as(key)); a.status != http.StatusUnauthorized || a.header.Get("WWW-Authenticate") == "" {
			t.Errorf("a key that is none: %d %s", a.status, a.body)
		}
	}
	if a := r.send(http.MethodPost, "/mcp", message, without("Authorization")); a.status != http.StatusUnauthorized {
		t.Errorf("no key: %d %s", a.status, a.body)
	}
}

// The routes behind the tools ask for the same as the tools.
func TestRoutesBehindTools(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	bucket := r.bucket("ai-clients")
	_, mcpOnly := r.holder(bucket, "mcp-only", domain.ScopeMCP)
	_, restOnly := r.holder(bucket, "rest-only", domain.ScopeWebhooksRead, domain.ScopeEventsRead)
	for _, path := range []string{"/mcp/webhooks", "/mcp/deliveries", "/mcp/events", "/mcp/explanation?deliveryId=0000000000000000000000"} {
		r.send(http.MethodGet, path, "").want(http.StatusOK)
		r.send(http.MethodGet, path, "", as(mcpOnly)).want(http.StatusForbidden)
		r.send(http.MethodGet, path, "", as(restOnly)).want(http.StatusForbidden)
		r.send(http.MethodGet, path, "", without("Authorization")).want(http.StatusUnauthorized)
	}
	r.send(http.MethodPost, "/mcp/webhooks", plainWebhook, as(mcpOnly)).want(http.StatusForbidden)
	if got := r.do(http.MethodGet, "/v1/webhooks", "").want(200).body; string(got) != "[]" {
		t.Errorf("a webhook was made: %s", got)
	}
}

// Another account's key sees nothing of what there is, by no tool.
func TestMCPOfAnotherAccount(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		hook := r.register(plainWebhook).text("id")
		r.publish(event("evt_theirs"))
		delivery := string(r.deliver(hook, "evt_theirs", domain.StatusFailed, domain.ReasonExhausted))
		second := r.secondAccount("second")
		const noHook, noDelivery = "0190c0f0-0000-7000-8000-000000000000", "0000000000000000000000"
		for _, name := range []string{"search_deliveries", "list_events"} {
			if got := r.works(second, name, arguments{}); len(got["data"].([]any)) != 0 {
				t.Errorf("%s: %v", name, got)
			}
		}
		if text, _ := r.tool(second, "list_webhooks", arguments{}); text != "[]" {
			t.Errorf("webhooks: %s", text)
		}
		for _, c := range []struct {
			tool          string
			theirs, nones arguments
		}{
			{"get_webhook", arguments{"id": hook}, arguments{"id": noHook}},
			{"update_webhook", arguments{"id": hook, "body": arguments{"active": false}}, arguments{"id": noHook, "body": arguments{"active": false}}},
			{"delete_webhook", arguments{"id": hook}, arguments{"id": noHook}},
			{"send_test_event", arguments{"id": hook}, arguments{"id": noHook}},
			{"replay_webhook", arguments{"id": hook, "body": arguments{"since": "2026-01-01T00:00:00Z"}}, arguments{"id": noHook, "body": arguments{"since": "2026-01-01T00:00:00Z"}}},
			{"get_delivery", arguments{"id": delivery}, arguments{"id": noDelivery}},
			{"retry_delivery", arguments{"id": delivery}, arguments{"id": noDelivery}},
			{"get_event", arguments{"id": "evt_theirs"}, arguments{"id": "evt_none"}},
			{"explain_delivery", arguments{"deliveryId": delivery}, arguments{"deliveryId": noDelivery}},
			{"explain_delivery", arguments{"eventId": "evt_theirs", "webhookId": hook}, arguments{"eventId": "evt_none", "webhookId": noHook}},
		} {
			got, failed := r.tool(second, c.tool, c.theirs)
			want, wouldFail := r.tool(second, c.tool, c.nones)
			if got, want = ownPlace.ReplaceAllString(got, ""), ownPlace.ReplaceAllString(want, ""); got != want || failed != wouldFail {
				t.Errorf("%s tells another account's from none:\n%s\n%s", c.tool, got, want)
			}
		}
		if shown := r.do(http.MethodGet, "/v1/webhooks/"+hook, "").want(200).object(); shown["active"] != true {
			t.Errorf("afterwards: %v", shown)
		}
	})
}

// Secrets are in no answer but that to the registration, and in no log.
func TestNoSecretOverMCP(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	made := r.works(adminKey, "register_webhook", arguments{
		"url": "http://127.0.0.1:9/hook", "events": []string{"shipment.created"}, "headers": map[string]string{"X-Shop": "canary-of-a-header"},
	})
	hook, secret := made["id"].(string), made["secret"].(string)
	r.publish(event("evt_secret"))
	delivery := string(r.deliver(hook, "evt_secret", domain.StatusFailed, domain.ReasonExhausted))
	var said strings.Builder
	for _, c := range []struct {
		tool string
		args arguments
	}{
		{"list_webhooks", arguments{}},
		{"get_webhook", arguments{"id": hook}},
		{"update_webhook", arguments{"id": hook, "body": arguments{"description": "new"}}},
		{"search_deliveries", arguments{}},
		{"get_delivery", arguments{"id": delivery}},
		{"explain_delivery", arguments{"deliveryId": delivery}},
		{"list_events", arguments{}},
		{"get_event", arguments{"id": "evt_secret"}},
		{"retry_delivery", arguments{"id": delivery}},
		{"send_test_event", arguments{"id": hook}},
		{"replay_webhook", arguments{"id": hook, "body": arguments{"since": "2026-01-01T00:00:00Z"}}},
	} {
		text, failed := r.tool(adminKey, c.tool, c.args)
		if failed {
			t.Errorf("%s: %s", c.tool, text)
		}
		said.WriteString(text)
	}
	// Arguments that are wrong, with something that must not be told again.
	text, failed := r.tool(adminKey, "register_webhook", arguments{"url": secret, "events": []string{secret}, "headers": map[string]any{"X-Shop": []string{"canary-of-a-header"}}})
	if !failed {
		t.Errorf("nonsense is registered: %s", text)
	}
	said.WriteString(text)
	for _, canary := range []string{secret, "canary-of-a-header", adminKey} {
		if strings.Contains(said.String(), canary) {
			t.Errorf("%s is told again", canary[:8])
		}
		if strings.Contains(r.logs.String(), canary) {
			t.Errorf("%s is in the log", canary[:8])
		}
	}
}

// What an argument holds never leaves its place in the path.
func TestArgumentsStayInPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	hook := r.register(plainWebhook).text("id")
	for _, id := range []string{"..", "../accounts", "%2e%2e", hook + "/test", hook + "%2Ftest", hook + "?limit=1", hook + "#x", ""} {
		for _, name := range []string{"get_webhook", "send_test_event", "delete_webhook"} {
			if text, failed := r.tool(adminKey, name, arguments{"id": id}); !failed {
				t.Errorf("%s of %q: %s", name, id, text)
			}
		}
	}
	r.do(http.MethodGet, "/v1/webhooks/"+hook, "").want(200)
	if got := r.do(http.MethodGet, "/v1/deliveries", "").want(200).items("data"); len(got) != 0 {
		t.Errorf("something was sent: %v", got)
	}
}

// The resources are what REST serves, and the guide; the prompt asks for what is known.
func TestResourcesAndPrompt(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	read := func(uri string) string {
		t.Helper()
		out := r.mcp(adminKey, "resources/read", map[string]any{"uri": uri})
		if out.Error != nil {
			t.Fatalf("%s: %+v", uri, *out.Error)
		}
		contents := out.Result["contents"].([]any)
		if len(contents) != 1 {
			t.Fatalf("%s: %d contents", uri, len(contents))
		}
		return contents[0].(map[string]any)["text"].(string)
	}
	want := []string{"waybill://openapi", "waybill://asyncapi", "waybill://events", "waybill://receivers", latestDeliveries, problems}
	if got := r.listed(adminKey, "resources/list", "resources", "uri"); !slices.Equal(got, want) {
		t.Errorf("resources %v, want %v", got, want)
	}
	for uri, path := range map[string]string{"waybill://openapi": "/openapi", "waybill://asyncapi": "/asyncapi"} {
		if read(uri) != string(r.do(http.MethodGet, path, "").want(200).body) {
			t.Errorf("%s is not %s", uri, path)
		}
	}
	if guide := read("waybill://receivers"); !strings.Contains(guide, "# For receivers") {
		t.Errorf("guide: %.100s", guide)
	}
	events, samples := read("waybill://events"), r.send(http.MethodGet, "/mcp/event-types", "").want(200).items("events")
	for _, sample := range samples {
		if !strings.Contains(events, sample["type"].(string)) {
			t.Errorf("%v is not in the resource", sample["type"])
		}
		// A sample is an event that anybody may publish.
		if text, failed := r.tool(adminKey, "publish_event", sample["sample"].(map[string]any)); failed {
			t.Errorf("the sample of %v: %s", sample["type"], text)
		}
	}
	out := r.mcp(adminKey, "prompts/get", map[string]any{"name": "why_not_delivered", "arguments": map[string]string{"eventId": `evt_"1"`}})
	if text := fmt.Sprint(out.Result["messages"]); out.Error != nil || !strings.Contains(text, `eventId "evt_\"1\""`) || !strings.Contains(text, "explain_delivery") {
		t.Errorf("prompt: %+v %s", out.Error, text)
	}
}

// The servers that Waybill comes with call themselves what the process is.
func TestServersSayTheirVersion(t *testing.T) {
	t.Parallel()
	r := prepareRig(t, sqliteURL(t))
	r.api = func(o *api.Options) { o.Process.Version = "v9.8.7-test" }
	r.start()
	hello := map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "c", "version": "1"}}
	for name, out := range map[string]rpc{"Waybill": r.mcp(adminKey, "initialize", hello), "Waybill documentation": r.docsRPC("initialize", hello)} {
		if info, _ := out.Result["serverInfo"].(map[string]any); info["name"] != name || info["version"] != "v9.8.7-test" {
			t.Errorf("%s: %v", name, info)
		}
	}
}

// Tools that lose or repeat something say so, the others say that they don't.
func TestAnnotations(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	out := r.mcp(adminKey, "tools/list", map[string]any{})
	destructive := []string{}
	for _, entry := range out.Result["tools"].([]any) {
		tool := entry.(map[string]any)
		name, _ := tool["name"].(string)
		hints, _ := tool["annotations"].(map[string]any)
		reads := strings.HasPrefix(name, "list_") || strings.HasPrefix(name, "get_") || strings.HasPrefix(name, "read_") || strings.HasPrefix(name, "search_") || strings.HasPrefix(name, "explain_") || name == "who_am_i" || name == "query_meter" || name == "test_webhook_filter"
		if hints["readOnlyHint"] != reads {
			t.Errorf("%s: readOnlyHint %v", name, hints["readOnlyHint"])
		}
		if hints["destructiveHint"] == true {
			destructive = append(destructive, name)
		} else if !reads && hints["destructiveHint"] != false {
			t.Errorf("%s does not say whether it is destructive", name)
		}
		if description, _ := tool["description"].(string); len(description) < 20 || hints["title"] == "" {
			t.Errorf("%s: title %v, description %q", name, hints["title"], description)
		}
	}
	if want := []string{
		"update_webhook", "delete_webhook", "replay_webhook", "update_project", "update_bucket", "delete_bucket", "update_consumer", "delete_consumer", "update_client_mtls_ca_certificate", "delete_client_mtls_ca_certificate",
		"delete_deployment", "redeploy", "update_custom_domain", "delete_custom_domain", "put_custom_domain_certificate", "delete_custom_domain_certificate", "update_variable", "delete_variable", "retry_deliveries", "cancel_job", "roll_keys", "update_key", "delete_key", "delete_manager", "update_meter", "delete_meter", "archive_feature", "update_plan", "delete_plan", "archive_plan", "set_subscription", "delete_subscription", "rotate_signing_keys", "delete_tunnel", "rotate_tunnel_token", "configure_tunnel_services", "rotate_webhook_secret", "acknowledge_problem", "reopen_problem", "set_cursor", "delete_cursor",
	}; !slices.Equal(destructive, want) {
		t.Errorf("destructive: %v, want %v", destructive, want)
	}
}

// Each of the API's operations that a key may use is a tool, and works as one: with its path,
// its query and its body, for the key's own account alone.
func TestOperationsAsTools(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	second := r.secondAccount("second")
	if who := r.works(adminKey, "who_am_i", arguments{}); who["account"] != domain.DefaultAccount {
		t.Errorf("who am I: %v", who)
	}
	account := func(more arguments) arguments {
		more["accountName"] = domain.DefaultAccount
		return more
	}
	r.works(adminKey, "create_bucket", account(arguments{"body": arguments{"name": "made-by-tool"}}))
	r.works(adminKey, "create_consumer", account(arguments{"bucketName": "made-by-tool", "body": arguments{"name": "reader", "scopes": []string{"events:read"}}}))
	of := func(more arguments) arguments {
		more["bucketName"], more["consumerName"] = "made-by-tool", "reader"
		return account(more)
	}
	made := r.works(adminKey, "create_key", of(arguments{"body": arguments{"description": "by a client"}}))
	key, _ := made["key"].(string)
	r.send(http.MethodGet, "/v1/events", "", as(key)).want(http.StatusOK)
	if list := r.works(adminKey, "list_keys", of(arguments{"limit": 10, "key-format": "none"})); fmt.Sprint(list["total"]) != "1" || strings.Contains(fmt.Sprint(list), key) {
		t.Errorf("keys: %v", list)
	}
	if text, failed := r.tool(adminKey, "create_keys", of(arguments{"body": []arguments{{}, {}}})); failed {
		t.Errorf("several keys: %s", text)
	}
	if text, failed := r.tool(adminKey, "delete_key", of(arguments{"keyId": made["id"]})); failed {
		t.Errorf("delete a key: %s", text)
	}
	r.send(http.MethodGet, "/v1/events", "", as(key)).want(http.StatusUnauthorized)
	hook := r.register(plainWebhook).text("id")
	if rotated := r.works(adminKey, "rotate_webhook_secret", arguments{"id": hook, "body": arguments{"overlapSeconds": 60}}); !strings.HasPrefix(fmt.Sprint(rotated["secret"]), "whsec_") {
		t.Error("the secret is not rotated")
	}
	if text, failed := r.tool(second, "rotate_webhook_secret", arguments{"id": hook}); !failed || !strings.Contains(text, "NOT_FOUND") {
		t.Errorf("another account's secret: %s", text)
	}
	for _, c := range []struct {
		tool string
		args arguments
	}{
		{"get_bucket", account(arguments{"bucketName": "made-by-tool"})}, {"list_buckets", account(arguments{})},
		{"list_keys", of(arguments{})}, {"delete_consumer", of(arguments{})}, {"list_audit_logs", account(arguments{})},
	} {
		if text, failed := r.tool(second, c.tool, c.args); !failed || !strings.Contains(text, "NOT_FOUND") {
			t.Errorf("%s of another account: %s", c.tool, text)
		}
	}
}

// A client reads the list into what its model sees, so what is listed by default is held small. A
// token is 3.5 bytes or more: that is what tokenizers of the large models make of such JSON at the least.
func TestSizeOfTools(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	_, reader := r.holder(r.bucket("ai-clients"), "reader", domain.ScopeMCP, domain.ScopeEventsRead, domain.ScopeWebhooksRead)
	for key, name := range map[string]string{adminKey: "all rights", reader: "a reader"} {
		size := len(r.send(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, as(key)).want(http.StatusOK).body)
		tokens := (size*2 + 6) / 7
		t.Logf("%s: %d bytes, %d tokens", name, size, tokens)
		if tokens > 8000 {
			t.Errorf("%s: the list of tools has %d tokens", name, tokens)
		}
	}
}

// listedBy returns the names of the tools that a key sees by a URL.
func (r *rig) listedBy(key, query string) []string {
	r.t.Helper()
	var out rpc
	r.send(http.MethodPost, "/mcp"+query, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, as(key)).want(http.StatusOK).into(&out)
	names := []string{}
	for _, tool := range out.Result["tools"].([]any) {
		names = append(names, tool.(map[string]any)["name"].(string))
	}
	return names
}

// Each tool is in one of the toolsets, and clients with many tools see few of them, with tools to
// find and call the others.
func TestToolsets(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	want := []string{
		"find_tools", "call_tool", "read_resource", "list_webhooks", "register_webhook", "get_webhook", "update_webhook", "send_test_event",
		"search_deliveries", "get_delivery", "explain_delivery", "retry_delivery", "list_events", "get_event", "publish_event",
	}
	if got := r.listedBy(adminKey, ""); !slices.Equal(got, want) {
		t.Errorf("by default:\n%v\nwant\n%v", got, want)
	}
	if got := r.listedBy(adminKey, "?tools=all"); !slices.Equal(got, everyTool) {
		t.Errorf("all: %v", got)
	}
	found := map[string]bool{}
	for set, one := range map[string]string{
		"deliveries": "explain_delivery", "webhooks": "register_webhook", "events": "publish_event", "access": "roll_keys", "gateway": "list_tunnels", "metering": "create_plan",
	} {
		names := r.listedBy(adminKey, "?tools="+set)
		if !slices.Contains(names, one) || slices.Contains(names, "find_tools") || len(names) == len(everyTool) {
			t.Errorf("%s: %v", set, names)
		}
		for _, name := range names {
			found[name] = true
		}
	}
	for _, name := range everyTool {
		if !found[name] {
			t.Errorf("%s is in no toolset", name)
		}
	}
	if got := r.listedBy(adminKey, "?tools=events,deliveries"); !slices.Contains(got, "publish_event") || !slices.Contains(got, "search_deliveries") || slices.Contains(got, "register_webhook") {
		t.Errorf("two toolsets: %v", got)
	}
	if a := r.send(http.MethodPost, "/mcp?tools=nonsense", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`); a.status != http.StatusBadRequest || !strings.Contains(string(a.body), `"metering"`) {
		t.Errorf("no toolset: %d %s", a.status, a.body)
	}
}

// What is called by call_tool is called: with the same rights, records and refusals.
func TestFindAndCall(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	second := r.secondAccount("second")
	direct := func(key, name string, args arguments) rpc {
		var out rpc
		message, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": "1", "method": "tools/call", "params": map[string]any{"name": name, "arguments": args}})
		if err != nil {
			t.Fatal(err)
		}
		r.send(http.MethodPost, "/mcp", string(message), as(key)).into(&out)
		return out
	}
	found := fmt.Sprint(direct(adminKey, "find_tools", arguments{"query": "create a bucket of consumers", "limit": 3}).Result["content"])
	if !strings.Contains(found, `"name":"create_bucket"`) || !strings.Contains(found, `"inputSchema"`) {
		t.Errorf("found: %s", found)
	}
	if names := fmt.Sprint(direct(adminKey, "find_tools", arguments{"toolset": "metering"}).Result["content"]); !strings.Contains(names, `"create_plan"`) || strings.Contains(names, `"roll_keys"`) {
		t.Errorf("a toolset: %s", names)
	}
	made := direct(adminKey, "call_tool", arguments{"name": "create_bucket", "arguments": arguments{"accountName": "default", "body": arguments{"name": "by-name"}}})
	if made.Error != nil || made.Result["isError"] == true {
		t.Fatalf("called by name: %+v", made)
	}
	if actions := fmt.Sprint(r.do(http.MethodGet, "/v1/accounts/default/audit-logs", "").want(200).items("data")); !strings.Contains(actions, "create-bucket") {
		t.Errorf("audit log: %s", actions)
	}
	_, reader := r.holder(r.bucket("ai-clients"), "reader", domain.ScopeMCP, domain.ScopeEventsRead)
	for _, key := range []string{adminKey, second, reader} {
		for name, args := range map[string]arguments{
			"get_bucket": {"accountName": "default", "bucketName": "by-name"}, "list_events": {}, "no_such_tool": {}, "create_bucket": {"accountName": 7},
		} {
			want, got := direct(key, name, args), direct(key, "call_tool", arguments{"name": name, "arguments": args})
			if diff := cmp.Diff(withoutIDs(want), withoutIDs(got)); diff != "" {
				t.Errorf("%s (-directly +by name):\n%s", name, diff)
			}
		}
	}
	if found := fmt.Sprint(direct(reader, "find_tools", arguments{"query": "bucket"}).Result["content"]); strings.Contains(found, "create_bucket") {
		t.Errorf("what a key may not use is found: %s", found)
	}
	// A client that knows no resources reads them.
	if list := fmt.Sprint(direct(adminKey, "read_resource", arguments{}).Result["content"]); !strings.Contains(list, "waybill://receivers (text/markdown): ") {
		t.Errorf("resources: %s", list)
	}
	if page := fmt.Sprint(direct(reader, "read_resource", arguments{"uri": "waybill://openapi", "offset": 100}).Result["content"]); !strings.Contains(page, "Go on with offset 87600.") {
		t.Errorf("a long resource ends with %.300s", page[max(0, len(page)-300):])
	}
}

var requestIDs = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)

// withoutIDs is an answer as text, but for the ids of requests.
func withoutIDs(out rpc) string {
	text, _ := json.Marshal(out)
	return requestIDs.ReplaceAllString(string(text), "ID")
}
