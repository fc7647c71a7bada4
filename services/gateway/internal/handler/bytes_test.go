package handler_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/services/gateway/internal/policy"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/site"
)

const passedPolicies = `{"policies":[
	{"name":"set","policyType":"set-query-params-inbound","handler":{"module":"$import(@gateway/runtime)","export":"SetQueryParamsInboundPolicy","options":{"params":[{"name":"a","value":"9 9"}]}}},
	{"name":"remove","policyType":"remove-query-params-inbound","handler":{"module":"$import(@gateway/runtime)","export":"RemoveQueryParamsInboundPolicy","options":{"params":["a"]}}},
	{"name":"reads","policyType":"reads","handler":{"module":"$import(@gateway/runtime)","export":"ReadsOutboundPolicy","options":{}}}
]}`

// passedRoutes pass on what comes, in each of the ways that there are.
const passedRoutes = `{"openapi":"3.1.0","info":{"title":"Passed","version":"1"},"paths":{
"/forward/{path}":{"x-gateway-path":{"pathMode":"open-api"},
	"get":{"operationId":"forward","parameters":[{"name":"path","in":"path","required":true,"schema":{"type":"string"}}],
		"x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"urlForwardHandler","options":{"baseUrl":"${env.BACK}"}}}}},
"/set":{"get":{"operationId":"set","x-gateway-route":{"policies":{"inbound":["set"]},
	"handler":{"module":"$import(@gateway/runtime)","export":"urlForwardHandler","options":{"baseUrl":"${env.BACK}"}}}}},
"/remove":{"get":{"operationId":"remove","x-gateway-route":{"policies":{"inbound":["remove"]},
	"handler":{"module":"$import(@gateway/runtime)","export":"urlForwardHandler","options":{"baseUrl":"${env.BACK}"}}}}},
"/rewrite":{"get":{"operationId":"rewrite","x-gateway-route":{
	"handler":{"module":"$import(@gateway/runtime)","export":"urlRewriteHandler","options":{"rewritePattern":"${env.BACK}/v2"}}}}},
"/own":{"get":{"operationId":"own","x-gateway-route":{
	"handler":{"module":"$import(@gateway/runtime)","export":"urlRewriteHandler","options":{"rewritePattern":"${env.BACK}/v2?a=1"}}}}},
"/search":{"get":{"operationId":"search","x-gateway-route":{
	"handler":{"module":"$import(@gateway/runtime)","export":"urlRewriteHandler","options":{"rewritePattern":"${env.BACK}/v2${search}"}}}}},
"/read":{"get":{"operationId":"read","x-gateway-route":{"policies":{"outbound":["reads"]},
	"handler":{"module":"$import(@gateway/runtime)","export":"urlForwardHandler","options":{"baseUrl":"${env.BACK}"}}}}},
"/mcp":{"post":{"operationId":"mcp","x-gateway-route":{
	"handler":{"module":"$import(@gateway/runtime)","export":"mcpServerHandler","options":{"operations":[{"file":"routes.oas.json","id":"rewrite"}]}}}}}}}`

// newPassing is a gateway whose routes pass on what comes to a back end.
func newPassing(t *testing.T, answer http.HandlerFunc) *rig {
	t.Helper()
	r := &rig{logs: &gatewaytest.Logs{}, back: record(t, answer)}
	dir := t.TempDir()
	gatewaytest.Files{"routes.oas.json": passedRoutes, "policies.json": passedPolicies}.Write(t, dir)
	o := gatewaytest.Options(dir, r.logs)
	o.Variables = site.Variables{"BACK": r.back.URL}
	var err error
	o.Policies, err = policy.NewRegistry(policy.Policy{
		Name: "reads", Export: "ReadsOutboundPolicy", About: "Looks at the body.", Options: `{"type":"object"}`, Example: "{}",
		New: func([]byte, policy.Env) (policy.Parts, []policy.Fault) { return policy.Parts{Out: reads{}}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	_, url := gatewaytest.Serve(t, o)
	r.address = strings.TrimPrefix(url, "http://")
	return r
}

func TestQueriesStayAsTheyCome(t *testing.T) {
	t.Parallel()
	r := newPassing(t, nil)
	for _, query := range []string{
		"", "?", "??", "?a", "?a=", "?=", "?&", "?z=1&a=2&c;d&e=%zz&f", "?a;b=1", "?b=2&a=1&b=3", "?q=a+b%20c", "?q=%2f%2F%c3%A9", "?x=1&&y&", "?u=http://x/y?z", `?j={"a":[1]}`,
		"?q=caf\xc3\xa9", "?q=\xe9", "?s=a%26b&t=a=b==", "?sig=abc/def+ghi%3D&exp=1", "?a[]=1&a[]=2", "?p=1|2^3`4<5>", "?%00=%0d%0a", "?'(x)*!$,:@~-._",
	} {
		for path, want := range map[string]string{"/forward/x": "/forward/x", "/rewrite": "/v2", "/search": "/v2"} {
			if status, _, body := r.ask(t, "GET "+path+query, ""); status != 200 {
				t.Errorf("%s%s: %d %s", path, query, status, body)
			} else if got := r.back.last(t).line; got != "GET "+want+query {
				t.Errorf("%s%s: asked %s", path, query, got)
			}
		}
	}
	for _, row := range [][2]string{
		{"/set?z=1&a=2&c;d&e=%zz&f", "/set?z=1&a=9%209&c;d&e=%zz&f"},
		{"/set?q=%20+", "/set?q=%20+&a=9%209"},
		{"/remove?z=1&a=2&c;d&e=%zz&%61&f", "/remove?z=1&c;d&e=%zz&f"},
		{"/remove?a", "/remove"},
		{"/remove?", "/remove?"},
		{"/own?z=1&a=2&c;d&e=%zz&%61=3&f", "/v2?a=1&z=1&c;d&e=%zz&f"},
		{"/own?", "/v2?a=1"},
		{"/forward/a%2Fb|c%7c%C3%A9\xc3\xa9?x", "/forward/a%2Fb%7Cc%7c%C3%A9%C3%A9?x"},
	} {
		if status, _, body := r.ask(t, "GET "+row[0], ""); status != 200 {
			t.Errorf("%s: %d %s", row[0], status, body)
		} else if got := r.back.last(t).line; got != "GET "+row[1] {
			t.Errorf("%s: asked %s", row[0], got)
		}
	}
	before := r.back.count()
	for _, target := range []string{"/forward/x?a=1#b", "/remove?x=1;a=2", "/own?x=1;a=2"} {
		if status, _, body := r.ask(t, "GET "+target, ""); status != 400 {
			t.Errorf("%s: %d %s", target, status, body)
		}
	}
	if r.back.count() != before {
		t.Errorf("asked %s", r.back.last(t).line)
	}
}

// coded returns a text in a content coding.
func coded(t *testing.T, coding, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip", "x-gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "raw":
		w, _ = flate.NewWriter(&b, flate.BestSpeed)
	default:
		return []byte(text)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// encoder answers in the coding that its query asks for, whatever it is asked.
func encoder(t *testing.T, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		coding := q.Get("as")
		content := coded(t, coding, text)
		if outer := q.Get("in"); outer != "" {
			content, coding = coded(t, outer, string(content)), coding+", "+outer
		}
		if q.Has("cut") {
			content = content[:len(content)/2]
		}
		w.Header().Set("Content-Encoding", strings.ReplaceAll(coding, "raw", "deflate"))
		w.Header().Set("Vary", "Accept-Encoding")
		w.Header().Set("Etag", `"1"`)
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write(content)
	}
}

func TestCodingsPassThrough(t *testing.T) {
	t.Parallel()
	r := newPassing(t, encoder(t, "hello"))
	for _, asked := range []string{"gzip", "identity", "br;q=1, gzip;q=0.5", ""} {
		header := []string{"Accept-Encoding: " + asked}
		if asked == "" {
			header = nil
		}
		for _, as := range []string{"gzip", "deflate", "br"} {
			status, answer, body := r.ask(t, "GET /rewrite?as="+as, "", header...)
			if got := r.back.last(t).header.Values("Accept-Encoding"); strings.Join(got, "|") != asked {
				t.Errorf("%q is asked for as %q", asked, got)
			}
			if status != 200 || answer.Get("Content-Encoding") != as || body != string(coded(t, as, "hello")) || answer.Get("Etag") != `"1"` || !strings.Contains(strings.Join(answer.Values("Vary"), ","), "Accept-Encoding") {
				t.Errorf("%q, %s: %d %v %q", asked, as, status, answer, body)
			}
		}
	}
}

// reads is an outbound policy that looks at the body.
type reads struct{}

func (reads) Out(_ context.Context, _ *route.Request, response *route.Response) (*route.Response, error) {
	if len(response.Body) > 0 {
		response.Body = append([]byte("read: "), response.Body...)
	}
	return response, nil
}

// tool calls the tool rewrite and returns its result.
func (r *rig) tool(t *testing.T, query string) (result struct {
	IsError bool
	Content []struct{ Text string }
}) {
	t.Helper()
	message := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rewrite","arguments":` + query + `}}`
	status, _, body := r.raw(t, "POST /mcp HTTP/1.1\r\nHost: "+r.address+"\r\nConnection: close\r\nAccept-Encoding: gzip\r\n"+
		"Accept: application/json, text/event-stream\r\nContent-Length: "+strconv.Itoa(len(message))+"\r\n\r\n"+message)
	var said struct{ Result any }
	said.Result = &result
	if err := json.Unmarshal([]byte(body), &said); err != nil || status != 200 || len(result.Content) != 1 {
		t.Fatalf("%s: %d %s: %v", query, status, body, err)
	}
	return result
}

// Who reads an answer here asks for it as it is, and gets it decoded where it comes in a coding
// all the same.
func TestCodingsAreDecodedForReaders(t *testing.T) {
	t.Parallel()
	r := newPassing(t, encoder(t, "hello"))
	for _, query := range []string{"as=gzip", "as=x-gzip", "as=deflate", "as=raw", "as=identity", "as=", "as=gzip&in=deflate", "as=identity&in=gzip"} {
		status, header, body := r.ask(t, "GET /read?"+query, "", "Accept-Encoding: gzip, br")
		if status != 200 || body != "read: hello" || header.Get("Content-Encoding") == "gzip" || header.Get("Content-Length") != "11" {
			t.Errorf("%s: %d %v %q", query, status, header, body)
		}
		if got := r.back.last(t).header.Values("Accept-Encoding"); len(got) != 1 || got[0] != "identity" {
			t.Errorf("%s: asked for as %q", query, got)
		}
		if tag := header.Get("Etag"); query == "as=gzip" && tag != `W/"1"` || query == "as=identity" && tag != `"1"` {
			t.Errorf("%s: the answer is called %s", query, tag)
		}
	}
	for query, want := range map[string]string{"as=br": "is not decoded here", "as=gzip&cut": "is not what its Content-Encoding says", "as=gzip&in=br": "is not decoded here"} {
		if status, _, body := r.ask(t, "GET /read?"+query, ""); status != 502 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
	bomb := newPassing(t, encoder(t, strings.Repeat("x", route.MaxResponse+1)))
	if status, _, body := bomb.ask(t, "GET /read?as=gzip", ""); status != 502 || !strings.Contains(body, "longer than is allowed") {
		t.Errorf("a few bytes that become many: %d %s", status, body)
	}
}

func TestCodingsAreDecodedForTools(t *testing.T) {
	t.Parallel()
	for _, as := range []string{"gzip", "deflate", "raw", "identity"} {
		text := encoder(t, "hello")
		r := newPassing(t, func(w http.ResponseWriter, q *http.Request) { q.URL.RawQuery = "as=" + as; text(w, q) })
		if got := r.tool(t, "{}"); got.IsError || got.Content[0].Text != "hello" {
			t.Errorf("%s: %+v", as, got)
		}
		if got := r.back.last(t).header.Values("Accept-Encoding"); len(got) != 1 || got[0] != "identity" {
			t.Errorf("%s: asked for as %q", as, got)
		}
	}
	r := newPassing(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "br")
		_, _ = io.WriteString(w, "\x0b\x02\x80hello\x03")
	})
	if got := r.tool(t, "{}"); !got.IsError || !strings.Contains(got.Content[0].Text, "is not decoded here") {
		t.Errorf("br: %+v", got)
	}
}

// HEAD is told how long the answer to GET is, as far as the back end tells it.
func TestHeadKeepsItsLength(t *testing.T) {
	t.Parallel()
	r := newPassing(t, func(w http.ResponseWriter, q *http.Request) {
		if size := q.URL.Query().Get("size"); size != "" {
			w.Header().Set("Content-Length", size)
		}
		if coding := q.URL.Query().Get("as"); coding != "" {
			w.Header().Set("Content-Encoding", coding)
		}
		w.WriteHeader(map[bool]int{false: 200, true: 404}[q.URL.Query().Has("missing")])
	})
	for target, want := range map[string]string{
		"/rewrite?size=5": "5", "/rewrite?size=0": "0", "/rewrite?size=12345678901": "12345678901", "/rewrite": "", "/rewrite?size=7&missing": "7",
		"/rewrite?size=7&as=gzip": "7", "/read?size=7": "", "/read?size=7&as=gzip": "",
	} {
		status, header, body := r.ask(t, "HEAD "+target, "")
		if got := strings.Join(header.Values("Content-Length"), "|"); got != want || body != "" || status != 200 && !strings.Contains(target, "missing") {
			t.Errorf("%s: %d, %q, %q", target, status, got, body)
		}
		if got := r.back.last(t).line; !strings.HasPrefix(got, "HEAD ") {
			t.Errorf("%s: asked %s", target, got)
		}
	}
}
