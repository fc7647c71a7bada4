package api_test

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	api "waybill.dev/services/api"
)

// behind returns a rig whose connections all come from a proxy that is trusted, or not.
func behind(t *testing.T, trusted bool, publicURL string) *rig {
	t.Helper()
	r := prepareRig(t, sqliteURL(t))
	r.options = func(o *api.Options) {
		o.PublicURL = publicURL
		if trusted {
			o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}
		}
	}
	r.start()
	return r
}

// What a proxy says of the client holds when it is trusted: in the audit log, also for what
// a gateway route has done, and in links. WAYBILL_PUBLIC_URL is the base of links whatever it says.
func TestForwarded(t *testing.T) {
	t.Parallel()
	forwarded := func(r *http.Request) {
		r.Header.Set("X-Forwarded-For", "192.0.2.66, 203.0.113.7, 10.1.2.3")
		r.Header.Set("X-Forwarded-Proto", "https")
		r.Header.Set("X-Forwarded-Host", "hooks.example.com")
	}
	for name, row := range map[string]struct {
		trusted                  bool
		publicURL, address, base string
	}{
		"nobody is trusted":       {false, "", "127.0.0.1", ""},
		"the proxy is trusted":    {true, "", "203.0.113.7", "https://hooks.example.com"},
		"public URL":              {false, "https://api.example.com/waybill", "127.0.0.1", "https://api.example.com/waybill"},
		"public URL, and a proxy": {true, "https://api.example.com/waybill", "203.0.113.7", "https://api.example.com/waybill"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := behind(t, row.trusted, row.publicURL)
			made := r.do(http.MethodPost, "/v1/webhooks", plainWebhook, forwarded).want(http.StatusCreated)
			if got, want := made.header.Get("Location"), row.base+"/v1/webhooks/"+made.text("id"); got != want {
				t.Errorf("Location %s, want %s", got, want)
			}
			bucket := r.do(http.MethodPost, "/v1/accounts/default/key-buckets", `{"name":"partners"}`, forwarded).want(http.StatusCreated)
			if got, want := bucket.header.Get("Location"), row.base+"/v1/accounts/default/key-buckets/partners"; got != want {
				t.Errorf("Location %s, want %s", got, want)
			}
			link := r.do(http.MethodGet, "/v1/webhooks?limit=1", "", forwarded).want(http.StatusOK).header.Get("Link")
			if want := "<" + row.base + "/v1/webhooks?limit=1&offset=0>"; !strings.HasPrefix(link, want) {
				t.Errorf("Link %s, want %s", link, want)
			}
			var document struct {
				Servers []struct {
					URL string `json:"url"`
				} `json:"servers"`
			}
			openapi := r.do(http.MethodGet, "/openapi", "", forwarded).want(http.StatusOK)
			openapi.into(&document)
			if len(document.Servers) != 1 || document.Servers[0].URL != max(row.base, "/") {
				t.Errorf("servers %v, want %s", document.Servers, row.base)
			}
			r.do(http.MethodGet, "/openapi", "", forwarded, header("If-None-Match", openapi.header.Get("ETag"))).want(http.StatusNotModified)
			r.send(http.MethodPost, "/functions/registerWebhook", plainWebhook, forwarded).want(http.StatusCreated)
			entries := r.do(http.MethodGet, "/v1/accounts/default/audit-logs", "", forwarded).want(http.StatusOK).items("data")
			if len(entries) < 3 {
				t.Fatalf("%d entries", len(entries))
			}
			for _, entry := range entries {
				if seen, _ := entry["context"].(map[string]any); seen["ipAddress"] != row.address {
					t.Errorf("%v by %v, want %s", entry["action"], seen["ipAddress"], row.address)
				}
			}
		})
	}
}

// HEAD is answered wherever GET is, with the same header, and no body.
func TestHead(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	id := r.register(plainWebhook).text("id")
	r.holder(r.bucket("partners"), "acme")
	made := r.do(http.MethodGet, "/v1/accounts/default/audit-logs", "").want(http.StatusOK).items("data")
	for _, route := range api.Routes() {
		if route.Method != http.MethodGet || route.Stream { // a stream has no end to wait for
			continue
		}
		path := strings.NewReplacer("{id}", id, "{accountName}", "default", "{bucketName}", "partners", "{consumerName}", "acme",
			"{keyId}", "none", "{managerId}", "none", "{file}", "docs.js").Replace(route.Path)
		get, head := r.do(http.MethodGet, path, ""), r.do(http.MethodHead, path, "")
		if head.status != get.status || len(head.body) > 0 {
			t.Errorf("HEAD %s: %d with %d bytes, GET %d", path, head.status, len(head.body), get.status)
		}
		for name, values := range get.header {
			if name == "Date" || name == "X-Request-Id" || name == "Content-Length" && get.status >= 400 { // of requests with ids of their own
				continue
			}
			if got := strings.Join(head.header[name], ","); got != strings.Join(values, ",") {
				t.Errorf("HEAD %s: %s is %q, GET %q", path, name, got, values)
			}
		}
		if head.header.Get("Content-Length") == "" {
			t.Errorf("HEAD %s: no Content-Length", path)
		}
	}
	r.do(http.MethodHead, "/v1/who-am-i", "", without("Authorization")).want(http.StatusUnauthorized)
	r.do(http.MethodHead, "/v1/projects", "").want(http.StatusMethodNotAllowed)
	if entries := r.do(http.MethodGet, "/v1/accounts/default/audit-logs", "").want(http.StatusOK).items("data"); len(entries) != len(made) {
		t.Errorf("the audit log tells of %v", entries)
	}
}

// An escaped slash is a part of a segment; what is escaped is unescaped once; nothing leads
// upwards. Other spellings of the same path lead to the same operation.
func TestSpellingsOfAPath(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	for path, want := range map[string]int{
		"/v1/who-am-i": 200, "/v1/%77ho-am-i": 200, "/%761/who%2Dam%2di": 200,
		"/v1%2fwho-am-i": 404, "/v1%2Fwho-am-i": 404, "/v1%252fwho-am-i": 404, "/%2fv1/who-am-i": 404, "%2fv1%2fwho-am-i": 400,
		"//v1/who-am-i": 404, "/v1//who-am-i": 404, "/v1/./who-am-i": 404, "/v1/x/../who-am-i": 404, "/v1/x/%2e%2e/who-am-i": 404,
		"/v1/%2e/who-am-i": 404, "/v1/who-am-i/": 404, "/v1/who-am-i/.": 404, "/v1/who-am-i/..": 404, "/v1/who-am-i/%2e%2e": 404,
		"/v1/who-am-i%2f": 404, "/v1/who-am-i%00": 404, "/v1/who-am-i;x=1": 404, `/v1\who-am-i`: 404, "/v1%5cwho-am-i": 404,
		"/v1/accounts/default%2fprojects": 404, "/v1/accounts/default/%70rojects": 200, "/v1/accounts/x%2f..%2fdefault/projects": 404,
		"/v1/accounts/%2e%2e/accounts/default/projects": 404, "/v1/webhooks/..%2f..%2fwho-am-i": 404,
		"/docs%2fdocs.js": 404, "/docs/..%2fopenapi": 404, "/healthz%2f": 404,
	} {
		if got := r.raw(t, "GET "+path+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+adminKey+"\r\nConnection: close\r\n\r\n"); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	if got := r.raw(t, "POST /v1/accounts/default/key-buckets/partners/consumers/acme/keys/%24bulk HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"+
		"Authorization: Bearer "+adminKey+"\r\nConnection: close\r\n\r\n[]"); got != http.StatusBadRequest {
		t.Errorf("$bulk with its dollar escaped: %d", got)
	}
	if got := r.raw(t, "PUT /v1%2fwebhooks HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"); got != http.StatusNotFound {
		t.Errorf("a method that no such path has: %d", got)
	}
}

// raw sends a request as it stands, and returns the status of the answer.
func (r *rig) raw(t *testing.T, request string) int {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	var line [12]byte
	if _, err := conn.Read(line[:]); err != nil {
		t.Fatal(err)
	}
	status := 0
	for _, digit := range line[9:] {
		status = 10*status + int(digit-'0')
	}
	return status
}
