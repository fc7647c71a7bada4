package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// reply is an HTTP answer.
type reply struct {
	t      testing.TB
	status int
	header http.Header
	body   []byte
}

// curl is what `curl -H 'accept: application/json, text/event-stream' -d` sends.
func curl() http.Header {
	return http.Header{
		"Accept":       {"application/json, text/event-stream"},
		"Content-Type": {"application/x-www-form-urlencoded"},
		"User-Agent":   {"curl/8.5.0"},
	}
}

// with returns curl's headers with others; an empty value removes one.
func with(pairs ...string) http.Header {
	header := curl()
	for i := 0; i < len(pairs); i += 2 {
		header.Del(pairs[i])
		if pairs[i+1] != "" {
			header.Set(pairs[i], pairs[i+1])
		}
	}
	return header
}

func (r *rig) send(method string, header http.Header, body string) reply {
	r.Helper()
	request, err := http.NewRequestWithContext(context.Background(), method, r.url+r.path, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	request.Header = header
	if host := header.Get("Host"); host != "" {
		request.Host = host
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		r.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil && !errors.Is(err, io.EOF) {
		r.Fatal(err)
	}
	return reply{r, response.StatusCode, response.Header, text}
}

// post sends a body as curl does.
func (r *rig) post(body string) reply {
	r.Helper()
	return r.send(http.MethodPost, curl(), body)
}

// ask sends a request as curl does; params is JSON, or empty.
func (r *rig) ask(method, params string, header ...string) reply {
	r.Helper()
	return r.send(http.MethodPost, with(header...), message(`"1"`, method, params))
}

func message(id, method, params string) string {
	if params != "" {
		params = `,"params":` + params
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `"` + params + `}`
}

// modern sends a request of 2026-07-28.
func (r *rig) modern(method, params string, header ...string) reply {
	r.Helper()
	return r.send(http.MethodPost, modernHeader(method, params, header...), modernMessage(method, params))
}

func modernHeader(method, params string, header ...string) http.Header {
	h := http.Header{
		"Accept": {"application/json, text/event-stream"}, "Content-Type": {"application/json"},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method},
	}
	var named struct{ Name, URI string }
	if params != "" {
		_ = json.Unmarshal([]byte(params), &named)
	}
	if name := named.Name + named.URI; name != "" {
		h.Set("Mcp-Name", name)
	}
	for i := 0; i < len(header); i += 2 {
		h.Del(header[i])
		if header[i+1] != "" {
			h.Set(header[i], header[i+1])
		}
	}
	return h
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

func modernMessage(method, params string) string {
	switch params {
	case "", "{}":
		params = "{" + modernMeta + "}"
	default:
		params = "{" + modernMeta + "," + params[1:]
	}
	return message(`"1"`, method, params)
}

// result returns the result of a reply, which must be one.
func (r reply) result() object {
	r.t.Helper()
	var m struct {
		JSONRPC string
		ID      json.RawMessage
		Result  object
		Error   any
	}
	if err := json.Unmarshal(r.body, &m); err != nil {
		r.t.Fatalf("%v in %d %s", err, r.status, r.body)
	}
	if r.status != http.StatusOK || m.JSONRPC != "2.0" || m.Result == nil || m.Error != nil {
		r.t.Fatalf("no result: %d %s", r.status, r.body)
	}
	return m.Result
}

// failure holds an error to a status and a code, and returns its data.
func (r reply) failure(status, code int) object {
	r.t.Helper()
	var m struct {
		JSONRPC string
		Result  any
		Error   struct {
			Code    int
			Message string
			Data    object
		}
	}
	if err := json.Unmarshal(r.body, &m); err != nil {
		r.t.Fatalf("%v in %d %s", err, r.status, r.body)
	}
	if r.status != status || m.Error.Code != code || m.Error.Message == "" || m.Result != nil || m.JSONRPC != "2.0" {
		r.t.Fatalf("%d %s; want %d with code %d", r.status, r.body, status, code)
	}
	if contentType := r.header.Get("Content-Type"); contentType != "application/json" {
		r.t.Fatalf("Content-Type is %q", contentType)
	}
	return m.Error.Data
}

// equal compares a value with JSON.
func equal(t testing.TB, got any, want string) {
	t.Helper()
	var wanted any
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatalf("%v in %s", err, want)
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var found any
	if err := json.Unmarshal(text, &found); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wanted, found); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// names returns the names in a list.
func (r reply) names(member string) string {
	r.t.Helper()
	list, ok := r.result()[member].([]any)
	if !ok {
		r.t.Fatalf("no %s in %s", member, r.body)
	}
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].(object)["name"].(string)
	}
	return strings.Join(names, " ")
}
