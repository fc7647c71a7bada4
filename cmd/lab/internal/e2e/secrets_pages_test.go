package e2e_test

import (
	"bytes"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"waybill.dev/cmd/internal/client"
)

// browser reads the console as one who has signed in by the bootstrap key.
type browser struct {
	*vault

	cookie *http.Cookie
}

// maxAlike is how many pages of a kind are read, and maxRead how many altogether.
const (
	maxAlike = 3
	maxRead  = 400
)

// console reads every page of the console that a link leads to, and has forms refused what is secret.
func (v *vault) console(hook string, auth map[string]string) {
	v.Helper()
	b := &browser{vault: v}
	b.signIn()
	kinds := b.crawl()
	for _, kind := range []string{
		"/console/webhooks/*", "/console/webhooks/*/settings", "/console/webhooks/*/code", "/console/deliveries/*", "/console/events/*", "/console/settings",
		"/console/access/buckets/*/consumers/*", "/console/audit", "/console/signing-keys", "/console/rejected",
	} {
		if kinds[kind] == 0 {
			v.Errorf("no page of the kind %s was read: %v", kind, kinds)
		}
	}
	// A form that has a fault comes back, without what it must not show.
	form := url.Values{"url": {"https://h.example/"}, "events": {"no.such.event"}, "auth/type": {"mtls"}}
	for name, value := range auth {
		form.Set("auth/"+name, value)
	}
	for _, at := range []string{"/console/webhooks/new", "/console/webhooks/" + hook + "/settings"} {
		if a := b.do(http.MethodPost, at, form); a.Status != http.StatusBadRequest {
			v.Errorf("%s answers %d: %.300s", at, a.Status, a.Body)
		}
	}
	for _, wrong := range []string{v.madeKey("typed into the sign-in"), v.stack.Key + "0"} {
		if a := b.do(http.MethodPost, "/console/sign-in", url.Values{"key": {wrong}}); a.Status != http.StatusUnauthorized {
			v.Errorf("a wrong key signs in: %d", a.Status)
		}
	}
}

// signIn opens a session. Its cookie is as good as the key.
func (b *browser) signIn() {
	b.Helper()
	a := b.ask(http.MethodPost, "/console/sign-in", url.Values{"key": {b.stack.Key}})
	cookies := (&http.Response{Header: a.Header}).Cookies()
	if a.Status != http.StatusSeeOther || len(cookies) == 0 {
		b.Fatalf("the sign-in answers %d: %.300s", a.Status, a.Body)
	}
	b.cookie = cookies[0]
	b.secrets[b.cookie.Value] = "a session of the console"
}

// do asks, and keeps the answer to search it.
func (b *browser) do(method, path string, form url.Values) client.Answer {
	b.Helper()
	a := b.ask(method, path, form)
	b.note(a)
	return a
}

func (b *browser) ask(method, path string, form url.Values) client.Answer {
	b.Helper()
	header := http.Header{}
	if form != nil {
		header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if b.cookie != nil {
		header.Set("Cookie", b.cookie.String())
	}
	return b.outside(method, path, form.Encode(), header)
}

// outside asks for what is not in the API's document. Redirects are answers.
func (v *vault) outside(method, path, body string, header http.Header) client.Answer {
	v.Helper()
	request, err := http.NewRequestWithContext(v.Context(), method, v.stack.URL+path, strings.NewReader(body))
	if err != nil {
		v.Fatal(err)
	}
	request.Header = header
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		v.Fatal(err)
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		v.Fatal(err)
	}
	return client.Answer{Status: response.StatusCode, Header: response.Header, Body: read}
}

var (
	linked = regexp.MustCompile(`href="(/console[^"#]*)`)
	named  = regexp.MustCompile(`^([a-z]+_.*|[0-9a-f-]{36}|[0-9A-Za-z]{22}|.*%.*|[a-z]+-bucket|one|two|shipment\..*|[0-9]+)$`)
)

// crawl reads a few pages of each kind, and returns how many of each.
func (b *browser) crawl() map[string]int {
	b.Helper()
	kinds, seen, queue := map[string]int{}, map[string]bool{"/console": true}, []string{"/console"}
	for read := 0; len(queue) > 0 && read < maxRead; {
		path := queue[0]
		queue = queue[1:]
		target, err := url.Parse(path)
		if err != nil {
			b.Errorf("a link leads to %q: %v", path, err)
			continue
		}
		parts := strings.Split(target.EscapedPath(), "/")
		for i, part := range parts {
			if named.MatchString(part) {
				parts[i] = "*"
			}
		}
		kind := strings.Join(parts, "/")
		kinds[kind]++
		if kinds[kind] > maxAlike || strings.HasPrefix(path, "/console/assets") {
			continue
		}
		read++
		a := b.do(http.MethodGet, path, nil)
		if a.Status != http.StatusOK && a.Status != http.StatusSeeOther {
			b.Errorf("%s answers %d: %.200s", path, a.Status, a.Body)
		}
		for _, found := range linked.FindAllSubmatch(a.Body, -1) {
			if next := html.UnescapeString(string(found[1])); !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	return kinds
}

// models reads what an AI client gets: every resource, and every tool that only reads.
func (v *vault) models(hook string) {
	v.Helper()
	ask := func(method string, params any) map[string]json.RawMessage {
		body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
		if err != nil {
			v.Fatal(err)
		}
		a := v.outside(http.MethodPost, "/mcp?tools=all", string(body), http.Header{"Authorization": {"Bearer " + v.stack.Key}, "Content-Type": {"application/json"}})
		v.note(a)
		var out struct{ Result map[string]json.RawMessage }
		if err := json.Unmarshal(a.Body, &out); err != nil {
			v.Fatalf("%s: %d %.300s", method, a.Status, a.Body)
		}
		return out.Result
	}
	var tools []struct {
		Name        string
		Annotations struct{ ReadOnlyHint bool }
	}
	if err := json.Unmarshal(ask("tools/list", nil)["tools"], &tools); err != nil {
		v.Fatal(err)
	}
	answered := 0
	for _, tool := range tools {
		if !tool.Annotations.ReadOnlyHint {
			continue
		}
		arguments := map[string]any{}
		switch tool.Name {
		case "get_webhook", "get_webhook_health", "read_feed", "list_cursors":
			arguments["id"] = hook
		case "list_buckets", "list_projects", "list_audit_logs":
			arguments["accountName"] = "default"
		case "list_consumers":
			arguments["accountName"], arguments["bucketName"] = "default", "kept-bucket"
		case "list_keys":
			arguments["accountName"], arguments["bucketName"], arguments["consumerName"] = "default", "kept-bucket", "two"
		}
		if result := ask("tools/call", map[string]any{"name": tool.Name, "arguments": arguments}); !bytes.Equal(result["isError"], []byte("true")) {
			answered++
		}
	}
	if answered < 15 {
		v.Errorf("only %d tools answered", answered)
	}
	for _, uri := range []string{"waybill://openapi", "waybill://asyncapi", "waybill://events", "waybill://receivers", "waybill://deliveries", "waybill://problems"} {
		ask("resources/read", map[string]any{"uri": uri})
	}
	ask("prompts/get", map[string]any{"name": "why_not_delivered", "arguments": map[string]string{"webhookId": hook}})
}
