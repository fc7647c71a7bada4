package cli_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// Of a forged test it is said whether the receiver refused it, as it must.
func TestForgedTestsAreJudged(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		flags, delivery string
		status          int
		stdout, stderr  []string
	}{
		"refused": {"--forge wrongSecret", `{"id":"d-1","attempts":[{"number":1,"status":401,"durationMs":3}]}`, 200,
			[]string{"d-1", "answered 401", "It refuses what is not signed with its secret."}, nil},
		"accepted": {"--forge wrongSecret", `{"id":"d-1","attempts":[{"number":1,"status":204,"durationMs":3}]}`, 200,
			[]string{"answered 204", "anybody can send it events", "→ verify each callback"}, nil},
		"an old one": {"--forge oldTime", `{"id":"d-1","attempts":[{"number":1,"status":200,"durationMs":3}]}`, 200, []string{"of an hour ago", "webhook-timestamp"}, nil},
		"no answer":  {"--forge oldTime", `{"id":"d-1","attempts":[{"number":1,"status":null,"error":"connection refused","durationMs":1}]}`, 200, []string{"connection refused", "nothing is shown"}, nil},
		"as JSON":    {"--forge wrongSecret -o json --jq .deliveryId,.finding.level", `{"id":"d-1","attempts":[{"number":1,"status":401,"durationMs":3}]}`, 200, []string{"d-1\nok\n"}, nil},
		"the id":     {"--forge wrongSecret -o id", "", 500, []string{"d-1\n"}, nil},
		"unseen": {"--forge wrongSecret", `{"type":"x","title":"Forbidden","status":403,"code":"FORBIDDEN","detail":"no"}`, 403,
			[]string{"d-1"}, []string{"can't be read", "deliveries explain d-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == http.MethodPost:
					w.WriteHeader(http.StatusAccepted)
					_, _ = io.WriteString(w, `{"deliveryId":"d-1"}`)
				case asked.Add(1) == 1:
					_, _ = io.WriteString(w, `{"id":"d-1","status":"pending","attempts":[]}`)
				default:
					w.WriteHeader(tc.status)
					_, _ = io.WriteString(w, tc.delivery)
				}
			}))
			t.Cleanup(server.Close)
			code, stdout, stderr := waybill(append(append([]string{"webhooks", "test", "w"}, strings.Fields(tc.flags)...), "--server", server.URL, "--key", apiKey)...)
			if code != 0 {
				t.Errorf("exit code %d", code)
			}
			for _, text := range tc.stdout {
				if !strings.Contains(stdout, text) {
					t.Errorf("stdout lacks %q:\n%s%s", text, stdout, stderr)
				}
			}
			for _, text := range tc.stderr {
				if !strings.Contains(stderr, text) {
					t.Errorf("stderr lacks %q:\n%s", text, stderr)
				}
			}
		})
	}
}
