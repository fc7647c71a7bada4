package mcpserver_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/services/gateway/internal/route"
)

// steps is a handler that tells how far it is.
func steps(reports ...float64) route.Handler {
	return gatewaytest.Func(func(_ context.Context, r *route.Request) (*route.Response, error) {
		for _, done := range reports {
			if r.Progress != nil {
				r.Progress(done, 100, "<step>")
			}
		}
		return &route.Response{Status: 200, Header: http.Header{"Content-Type": {"text/plain"}}, Body: []byte("done")}, nil
	})
}

func TestProgress(t *testing.T) {
	t.Parallel()
	r := start(t, handlers{"steps": steps(0, 50, 50, 20, 100), "quiet": steps()},
		over(nil, item{id: "steps", handler: module("steps")}, item{id: "quiet", handler: module("quiet")})...)
	call := func(name, token string) string {
		return message("9007199254740993", "tools/call", `{"name":"`+name+`","_meta":{"progressToken":`+token+`}}`)
	}
	t.Run("a client that takes a stream", func(t *testing.T) {
		t.Parallel()
		reply := r.send(http.MethodPost, curl(), call("steps", "1.50"))
		var want strings.Builder
		for _, done := range []string{"0", "50", "100"} { // it must grow
			want.WriteString("event: message\n" + `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1.50,"progress":` +
				done + `,"total":100,"message":"<step>"}}` + "\n\n")
		}
		want.WriteString("event: message\n" + `data: {"jsonrpc":"2.0","id":9007199254740993,"result":{"content":[{"type":"text","text":"done"}]}}` + "\n\n")
		if string(reply.body) != want.String() || reply.status != 200 || reply.header.Get("Content-Type") != "text/event-stream" || reply.header.Get("X-Accel-Buffering") != "no" {
			t.Errorf("%d %v\n%s", reply.status, reply.header, reply.body)
		}
	})
	t.Run("a client that takes JSON alone", func(t *testing.T) {
		t.Parallel()
		if result := r.send(http.MethodPost, with("Accept", "application/json"), call("steps", `"t"`)).result(); result["content"] == nil {
			t.Errorf("result: %v", result)
		}
	})
	t.Run("no token", func(t *testing.T) {
		t.Parallel()
		if result := r.call("steps", "{}"); result["content"] == nil {
			t.Errorf("result: %v", result)
		}
	})
	t.Run("no progress", func(t *testing.T) {
		t.Parallel()
		if result := r.send(http.MethodPost, curl(), call("quiet", `"t"`)).result(); result["content"] == nil {
			t.Errorf("result: %v", result)
		}
	})
	t.Run("errors keep their status", func(t *testing.T) {
		t.Parallel()
		r.send(http.MethodPost, curl(), call("none", `"t"`)).failure(200, -32602)
		params := `{"name":"none","x":1}`
		body := strings.Replace(modernMessage("tools/call", params), `"_meta":{`, `"_meta":{"progressToken":1,`, 1)
		r.send(http.MethodPost, modernHeader("tools/call", params), body).failure(400, -32602)
	})
}

// A client gets each report when it is made, not all at the end.
func TestProgressIsNotKeptBack(t *testing.T) {
	t.Parallel()
	heard := make(chan struct{})
	handler := gatewaytest.Func(func(ctx context.Context, r *route.Request) (*route.Response, error) {
		r.Progress(1, 0, "")
		select {
		case <-heard:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return &route.Response{Status: 200, Header: make(http.Header), Body: []byte("done")}, nil
	})
	r := start(t, handlers{"wait": handler}, over(nil, item{id: "wait", handler: module("wait")})...)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/mcp",
		strings.NewReader(message("1", "tools/call", `{"name":"wait","_meta":{"progressToken":"t"}}`)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = curl()
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var got strings.Builder
	tell := sync.OnceFunc(func() { close(heard) })
	buffer := make([]byte, 4096)
	for {
		n, err := response.Body.Read(buffer)
		got.Write(buffer[:n])
		if strings.Contains(got.String(), `"progress":1}`) {
			tell()
		}
		if err != nil {
			break
		}
	}
	if !strings.Contains(got.String(), `"text":"done"`) {
		t.Errorf("got %s", got.String())
	}
}
