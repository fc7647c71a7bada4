package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// In dev a deployment has an address that any client resolves, and may have its back end on this machine.
func TestADeploymentHasALocalAddress(t *testing.T) {
	t.Parallel()
	backEnd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "from here") }))
	t.Cleanup(backEnd.Close)
	i := dev(t)
	dir := filepath.Join(i.dir, "shop")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	route := func(base string) string {
		return `{"x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"urlForwardHandler","options":{"baseUrl":"` + base + `"}}}}`
	}
	_, port, _ := strings.Cut(backEnd.Listener.Addr().String(), ":")
	document := `{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{
		"/here":{"get":` + route(backEnd.URL) + `},"/name":{"get":` + route("http://localhost:"+port) + `},
		"/own":{"get":` + route(i.addresses.API) + `}}}`
	if err := os.WriteFile(filepath.Join(dir, "a.oas.json"), []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, i.dir, "projects", "create", "shop")
	var deployed struct{ URL, LocalURL string }
	if err := json.Unmarshal([]byte(must(t, i.dir, "deploy", "shop", "--project", "shop", "-o", "json")), &deployed); err != nil {
		t.Fatal(err)
	}
	ask := func(path string, adapt func(*http.Request)) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, deployed.LocalURL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		adapt(request)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
	plainly := func(*http.Request) {}
	if u, err := url.Parse(deployed.LocalURL); err != nil || u.Hostname() != "127.0.0.1" || deployed.LocalURL == i.addresses.API {
		t.Fatalf("the local address is %q", deployed.LocalURL)
	}
	for _, path := range []string{"/here", "/name"} {
		eventually(t, func() error {
			if status, text := ask(path, plainly); status != http.StatusOK || text != "from here" {
				return fmt.Errorf("%s: %d %s", path, status, text)
			}
			return nil
		})
	}
	if status, text := ask("/own", plainly); status != http.StatusBadGateway {
		t.Errorf("what Waybill itself listens on answers %d %s", status, text)
	}
	// A web page could have its own name point here, and read what comes back.
	if status, text := ask("/here", func(r *http.Request) { r.Host = "evil.example" }); status != http.StatusMisdirectedRequest {
		t.Errorf("by another name: %d %s", status, text)
	}
	// The console is not there, nor is the API.
	for _, path := range []string{"/console", "/v1/webhooks", "/"} {
		if status, _ := ask(path, plainly); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
	if _, _, stderr := waybill(t, i.dir, "deploy", "shop", "--project", "shop"); !strings.Contains(stderr, deployed.LocalURL+"\n") {
		t.Errorf("deploy says\n%s", stderr)
	}
	// Names below localhost need no resolver.
	if _, _, stderr := waybill(t, i.dir, "health", deployed.URL+"/here"); strings.Contains(stderr, "lookup") {
		t.Errorf("health says\n%s", stderr)
	}
	if text := must(t, i.dir, "health", deployed.URL+"/here"); text != "from here\n" {
		t.Errorf("by the name below localhost: %q", text)
	}
}
