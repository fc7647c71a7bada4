package mcpserver_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/services/gateway/internal/route"
)

// The official client, which begins with server/discover, gets all there is.
func TestOfficialClient(t *testing.T) {
	t.Parallel()
	page := resource("page", nil)
	page.handler = static("<p>&</p>", "text/html")
	card := resource("card", object{"uri": "people://{id}"})
	card.path = "/people/{id}"
	ask := item{id: "ask", method: "POST", mcp: object{"type": "prompt"}, more: body(`{"type":"object","required":["topic"],"properties":{"topic":{"type":"string"}}}`)}
	slow := item{id: "slow", handler: module("steps")}
	r := start(t, handlers{"steps": steps(1, 2, 3)}, over(nil, page, card, ask, slow)...)

	heard := make(chan float64, 3)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, n *mcp.ProgressNotificationClientRequest) {
			heard <- n.Params.Progress
		},
	})
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: r.url + "/mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if version := session.InitializeResult().ProtocolVersion; version != "2026-07-28" {
		t.Errorf("the version is %s", version)
	}
	resources, err := session.ListResources(t.Context(), nil)
	if err != nil || len(resources.Resources) != 1 {
		t.Fatalf("%v %v", resources, err)
	}
	read, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: resources.Resources[0].URI})
	if err != nil || read.Contents[0].Text != "<p>&</p>" || read.Contents[0].MIMEType != "text/html" {
		t.Errorf("%v %v", read, err)
	}
	if read, err = session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "people://ü"}); err != nil || read.Contents[0].Text != "text of card" {
		t.Errorf("%v %v", read, err)
	}
	prompt, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "ask", Arguments: map[string]string{"topic": "x"}})
	if err != nil || len(prompt.Messages) != 1 {
		t.Errorf("%v %v", prompt, err)
	}
	params := &mcp.CallToolParams{Name: "slow"}
	params.SetProgressToken("token")
	result, err := session.CallTool(t.Context(), params)
	if err != nil || result.IsError || len(result.Content) != 1 {
		t.Errorf("%v %v", result, err)
	}
	for want := range 3 {
		select {
		case got := <-heard:
			if got != float64(want+1) {
				t.Errorf("progress is %v, not %d", got, want+1)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the progress is not told")
		}
	}
	if _, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "none://x"}); err == nil || !strings.Contains(err.Error(), "Resource not found") {
		t.Errorf("an unknown uri: %v", err)
	}
}

// Nothing is remembered between requests, so two of the same id do not meet.
func TestSameIDAtTheSameTime(t *testing.T) {
	t.Parallel()
	const callers = 8
	var inside sync.WaitGroup
	inside.Add(callers)
	meet := gatewaytest.Func(func(context.Context, *route.Request) (*route.Response, error) {
		inside.Done()
		inside.Wait()
		return &route.Response{Status: 200, Header: make(http.Header), Body: []byte("met")}, nil
	})
	r := start(t, handlers{"meet": meet}, over(nil, item{id: "meet", handler: module("meet")})...)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			if reply := r.ask("tools/call", `{"name":"meet"}`); !strings.Contains(string(reply.body), `"text":"met"`) {
				t.Errorf("%d %s", reply.status, reply.body)
			}
		})
	}
	all.Wait()
}

// A client that goes away is not worked for any longer.
func TestClientGoesAway(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, method, params string }{
		{"tool", "tools/call", `{"name":"tool"}`},
		{"resource", "resources/read", `{"uri":"mcp://resources/page"}`},
	} {
		for _, era := range []string{"2025-11-25", "2026-07-28"} {
			t.Run(row.name+" of "+era, func(t *testing.T) {
				t.Parallel()
				began, ended := make(chan struct{}), make(chan error, 1)
				wait := gatewaytest.Func(func(ctx context.Context, _ *route.Request) (*route.Response, error) {
					close(began)
					<-ctx.Done()
					ended <- ctx.Err()
					return nil, ctx.Err()
				})
				page := resource("page", nil)
				page.handler = module("wait")
				r := start(t, handlers{"wait": wait}, over(nil, item{id: "tool", handler: module("wait")}, page)...)
				header, text := modernHeader(row.method, row.params), modernMessage(row.method, row.params)
				if era != "2026-07-28" {
					header, text = with("MCP-Protocol-Version", era), message("1", row.method, row.params)
				}
				ctx, leave := context.WithCancel(t.Context())
				request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/mcp", strings.NewReader(text))
				if err != nil {
					t.Fatal(err)
				}
				request.Header = header
				go func() {
					<-began
					leave()
				}()
				if response, err := http.DefaultTransport.RoundTrip(request); err == nil {
					response.Body.Close()
					t.Errorf("an answer: %d", response.StatusCode)
				}
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Errorf("the route ended with %v", err)
				}
			})
		}
	}
}
