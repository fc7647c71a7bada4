package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The hot paths, through the gateway and beside it the bare SDK with the same resource and
// the same hundred tools. No network is in it.

const benchText = "The quick brown fox jumps over the lazy dog, and the dog lets it pass.\n"

func benchmark(b *testing.B, handler http.Handler, body string) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		request := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
		request.RemoteAddr, request.Host = "192.0.2.7:5000", "api.example"
		request.Header = http.Header{
			"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "User-Agent": {"bench"},
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, request)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"result"`) {
			b.Fatalf("%d %s", w.Code, w.Body)
		}
	}
}

var benchmarks = []struct{ name, body string }{
	{"Read", message("1", "resources/read", `{"uri":"bench://text"}`)},
	{"ListTools", message("1", "tools/list", "")},
	{"CallTool", message("1", "tools/call", `{"name":"shipment_tool_007","arguments":{"shipmentId":"s"}}`)},
}

const benchSchema = `{"type":"object","required":["shipmentId"],"properties":{` +
	`"shipmentId":{"type":"string","description":"Which shipment.","minLength":1,"maxLength":64},` +
	`"since":{"type":"string","format":"date-time","description":"Nothing older than that."},` +
	`"limit":{"type":"integer","minimum":1,"maximum":100,"description":"How many lines at most."}}}`

func BenchmarkGateway(b *testing.B) {
	page := resource("text", object{"uri": "bench://text", "mimeType": "text/plain"})
	page.handler = static(benchText, "text/plain")
	items := []item{page}
	for i := range 100 {
		items = append(items, item{
			id: fmt.Sprintf("shipment_tool_%03d", i), method: "POST", handler: static(benchText, "text/plain"),
			more: body(benchSchema),
		})
		items[i+1].more["description"] = fmt.Sprintf("Looks up what number %d of the desks knows about a shipment.", i)
	}
	r := start(b, nil, over(nil, items...)...)
	for _, row := range benchmarks {
		b.Run(row.name, func(b *testing.B) { benchmark(b, r.gateway, row.body) })
	}
}

func BenchmarkBareSDK(b *testing.B) {
	server := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, &mcp.ServerOptions{Logger: slog.New(slog.DiscardHandler)})
	server.AddResource(&mcp.Resource{Name: "text", URI: "bench://text", MIMEType: "text/plain"},
		func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "bench://text", MIMEType: "text/plain", Text: benchText}}}, nil
		})
	for i := range 100 {
		server.AddTool(&mcp.Tool{
			Name: fmt.Sprintf("shipment_tool_%03d", i), InputSchema: json.RawMessage(benchSchema),
			Description: fmt.Sprintf("Looks up what number %d of the desks knows about a shipment.", i),
		}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: benchText}}}, nil
		})
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, Logger: slog.New(slog.DiscardHandler),
	})
	for _, row := range benchmarks {
		b.Run(row.name, func(b *testing.B) { benchmark(b, handler, row.body) })
	}
}
