package mcpserver_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"waybill.dev/services/gateway/internal/mcpserver"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/apikey"
)

// bomb is a route that panics where the gateway does not catch it.
type bomb struct{}

func (bomb) Call(context.Context, *route.Request) *route.Response { panic("secret") }

func (bomb) Permits(*apikey.Principal) bool { return true }

func TestPanicOfARoute(t *testing.T) {
	t.Parallel()
	items := over(nil, item{id: "tool"}, item{id: "prompt", mcp: object{"type": "prompt"}})
	set, wrong := routefile.Load(nil, fstest.MapFS{"routes.oas.json": {Data: document(t, items)}}, func(string) (string, bool) { return "", false })
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	var logs bytes.Buffer
	runtime := &route.Runtime{Logger: slog.New(slog.NewTextHandler(&logs, nil))}
	options := mcpserver.Options{}
	for _, operation := range set.Files[0].Operations {
		if operation.ID == "mcp" {
			options.Definition = operation
			continue
		}
		options.Targets = append(options.Targets, mcpserver.Target{Definition: operation, Route: bomb{}})
	}
	handler, faults := mcpserver.New(options)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	for method, name := range map[string]string{"tools/call": "tool", "prompts/get": "prompt"} {
		response, err := handler.Handle(t.Context(), &route.Request{
			Method: http.MethodPost, Host: "api.example", Remote: "192.0.2.7", Header: curl(), Runtime: runtime,
			Body: []byte(message("1", method, `{"name":"`+name+`"}`)),
		})
		if err != nil {
			t.Fatal(err)
		}
		reply{t, response.Status, response.Header, response.Body}.failure(200, -32603)
	}
	if log := logs.String(); strings.Count(log, "mcp handler has panicked") != 2 || strings.Contains(log, "secret") {
		t.Errorf("logged: %s", log)
	}
}
