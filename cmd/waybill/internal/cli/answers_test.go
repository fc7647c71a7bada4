package cli_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// A key goes where it was named for, and not where that leads.
func TestRedirectsGetNoKey(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(elsewhere.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		leads := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/v1/webhooks", status))
		t.Cleanup(leads.Close)
		for _, args := range [][]string{
			{"webhooks", "list"}, {"webhooks", "create", "https://example.com"}, {"buckets", "list"}, {"whoami"}, {"trigger", "shipment.created"},
			{"mcp", "inspect"}, {"deliveries", "explain", "d"}, {"accounts", "recover", "default"}, {"listen"},
		} {
			code, out, notes := waybill(append(args, "--server", leads.URL, "--key", apiKey)...)
			if code != 1 || out != "" || args[0] != "mcp" && !strings.Contains(notes, "answers with a redirect to "+elsewhere.URL) {
				t.Errorf("%d for %v: %d\n%s%s", status, args, code, out, notes)
			}
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

func TestAnswersOfOthersAreErrors(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"a page":            func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>Welcome</html>") },
		"a text":            func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `"ok"`) },
		"another 404":       http.NotFound,
		"another's problem": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"error":"no"}`, http.StatusBadRequest) },
		"a gateway's error": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) },
	} {
		server := httptest.NewServer(answer)
		t.Cleanup(server.Close)
		for _, args := range [][]string{
			{"webhooks", "list"}, {"webhooks", "list", "-o", "json"}, {"webhooks", "delete", "w"}, {"trigger", "shipment.created"}, {"buckets", "list"}, {"listen"},
		} {
			code, stdout, stderr := waybill(append(args, "--server", server.URL, "--key", apiKey)...)
			if code != 1 || stdout != "" || !strings.Contains(stderr, "the server at "+server.URL+" is not Waybill") {
				t.Errorf("%s to %v: %d\n%s%s", name, args, code, stdout, stderr)
			}
		}
	}
	empty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
	t.Cleanup(empty.Close)
	for _, args := range [][]string{{"trigger", "shipment.created"}, {"listen"}, {"buckets", "list"}} {
		if code, stdout, stderr := waybill(append(args, "--server", empty.URL, "--key", apiKey)...); code != 1 || !strings.Contains(stderr, "is not Waybill") {
			t.Errorf("an empty object to %v: %d\n%s%s", args, code, stdout, stderr)
		}
	}
}
