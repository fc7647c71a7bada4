package local_test

import (
	"strings"
	"testing"

	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/services/gateway/internal/local"
)

// Waybill's own variables, the encryption key among them, are for no route: wherever a
// variable can be named, however it is written and by whatever way it is come by.
func TestNoVariableOfWaybill(t *testing.T) {
	t.Parallel()
	variables := map[string]string{
		"WAYBILL_ENCRYPTION_KEY": "hunter2", "waybill_admin_key": "hunter2", "Waybill_X": "hunter2",
		"NAME": "WAYBILL_ENCRYPTION_KEY", "WAYBILLS": "https://bills.example.com", "MY_WAYBILL_X": "fine",
	}
	static := func(options m) operation {
		return operation{method: "GET", path: "/x", id: "x", handler: runtimeHandler("staticHandler", options)}
	}
	handled := func(export string, options m) operation {
		return operation{method: "GET", path: "/x", id: "x", handler: runtimeHandler(export, options)}
	}
	setting := func(value string) string {
		return policies(nil, [4]any{"set", "set-headers-inbound", "SetHeadersInboundPolicy", setHeader("X-A", value)})
	}
	for name, tc := range map[string]struct {
		files files
		want  int // faults
	}{
		"a body":                     {files{"a.oas.json": document(static(m{"body": "$env(WAYBILL_ENCRYPTION_KEY)"}))}, 1},
		"deep in a body":             {files{"a.oas.json": document(static(m{"body": m{"a": []any{m{"b": "x$env(WAYBILL_ENCRYPTION_KEY)"}}}}))}, 1},
		"lower case":                 {files{"a.oas.json": document(static(m{"body": "$env(waybill_admin_key)"}))}, 1},
		"mixed case":                 {files{"a.oas.json": document(static(m{"body": "$env(Waybill_X)"}))}, 1},
		"one that is not set":        {files{"a.oas.json": document(static(m{"body": "$env(WAYBILL_NOT_SET)"}))}, 1},
		"the prefix alone":           {files{"a.oas.json": document(static(m{"body": "$env(WAYBILL_)"}))}, 1},
		"written with escapes":       {files{"a.oas.json": strings.ReplaceAll(document(static(m{"body": "$env(WAYBILL_ENCRYPTION_KEY)"})), "WAYBILL_", `\u0057AYBILL\u005f`)}, 1},
		"a header":                   {files{"a.oas.json": document(static(m{"body": "x", "headers": m{"X-A": "$env(WAYBILL_ENCRYPTION_KEY)"}}))}, 1},
		"a file's name":              {files{"a.oas.json": document(static(m{"file": "$env(WAYBILL_ENCRYPTION_KEY)"}))}, 1},
		"a policy's header":          {files{"a.oas.json": document(static(m{"body": "x"})), "policies.json": setting("$env(WAYBILL_ENCRYPTION_KEY)")}, 1},
		"a base URL":                 {files{"a.oas.json": document(handled("urlForwardHandler", m{"baseUrl": "https://$env(WAYBILL_ENCRYPTION_KEY).example.com"}))}, 1},
		"a base URL's expression":    {files{"a.oas.json": document(handled("urlForwardHandler", m{"baseUrl": "https://example.com/${env.WAYBILL_ENCRYPTION_KEY}"}))}, 1},
		"a location":                 {files{"a.oas.json": document(handled("redirectHandler", m{"location": "/${env.waybill_admin_key}"}))}, 1},
		"a pattern":                  {files{"a.oas.json": document(handled("urlRewriteHandler", m{"rewritePattern": "https://example.com/${env.WAYBILL_ENCRYPTION_KEY}"}))}, 1},
		"a pattern that encodes it":  {files{"a.oas.json": document(handled("urlRewriteHandler", m{"rewritePattern": "https://example.com/?a=${e(env.Waybill_X)}"}))}, 1},
		"a name that a variable has": {files{"a.oas.json": document(handled("urlRewriteHandler", m{"rewritePattern": "https://example.com/${env.$env(NAME)}"}))}, 1},
		"an MCP server's name":       {files{"a.oas.json": document(operation{method: "POST", path: "/mcp", id: "mcp", handler: runtimeHandler("mcpServerHandler", m{"name": "$env(WAYBILL_ENCRYPTION_KEY)", "operations": []any{}})})}, 1},
		"twice in one place":         {files{"a.oas.json": document(static(m{"body": "$env(WAYBILL_ENCRYPTION_KEY)$env(waybill_admin_key)"}))}, 1},
		"in two places":              {files{"a.oas.json": document(static(m{"body": "$env(WAYBILL_ENCRYPTION_KEY)", "contentType": "text/$env(waybill_admin_key)"}))}, 2},
		"names that are like it":     {files{"a.oas.json": document(static(m{"body": "$env(WAYBILLS) $env(MY_WAYBILL_X)"}))}, 0},
		"a name that is not read on": {files{"a.oas.json": document(static(m{"body": "$env(NAME)"}))}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(folder(t, tc.files), nil, &gatewaytest.Logs{})
			o.Variables = variables
			_, faults, err := local.Check(o)
			if err != nil {
				t.Fatal(err)
			}
			for _, fault := range faults {
				if !strings.Contains(fault.Message, "Waybill's own") {
					t.Errorf("another fault: %v", fault)
				}
			}
			if len(faults) != tc.want {
				t.Errorf("%d faults, want %d:\n%v", len(faults), tc.want, faults)
			}
			if strings.Contains(faults.Error(), "hunter2") {
				t.Errorf("a value is told: %v", faults)
			}
			if _, err := local.New(o); (err != nil) != (tc.want > 0) {
				t.Errorf("New: %v", err)
			}
		})
	}
}
