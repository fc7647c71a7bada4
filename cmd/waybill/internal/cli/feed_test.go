package cli_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"waybill.dev/cmd/waybill/internal/cli"
)

// feeding serves a feed of two pages.
func feeding(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/webhooks/"+webhook+"/feed" {
			t.Errorf("asked for %s", r.URL)
		}
		page := `{"data":[{"id":"evt_1","type":"shipment.created","timestamp":"2026-01-02T03:04:05Z","data":{}},{"id":"evt_2","type":"shipment.delivered","timestamp":"2026-01-02T03:04:06Z","data":{}}],"cursor":"one","done":false}`
		if r.URL.Query().Get("after") == "one" {
			page = `{"data":[{"id":"evt_3","type":"shipment.created","timestamp":"2026-01-03T03:04:05Z","data":{}}],"cursor":"two","done":true}`
		}
		_, _ = w.Write([]byte(page))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestFeed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "received")
	if err := os.WriteFile(file, []byte("evt_1\r\n\n{\"id\":\"evt_3\",\"type\":\"x\"}\nevt_0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, command, stdin, stdout, stderr string
		code                                 int
	}{
		{"all", "feed " + webhook, "", "2026-01-02T03:04:05Z  shipment.created      evt_1\n2026-01-02T03:04:06Z  shipment.delivered    evt_2\n2026-01-03T03:04:05Z  shipment.created      evt_3\n", "Go on with: --after two\n", 0},
		{"json", "feed " + webhook + " --after one -o json", "", `{"id":"evt_3","type":"shipment.created","timestamp":"2026-01-03T03:04:05Z","data":{}}` + "\n", "Go on with: --after two\n", 0},
		{"limit", "feed " + webhook + " --limit 2", "", "2026-01-02T03:04:05Z  shipment.created      evt_1\n2026-01-02T03:04:06Z  shipment.delivered    evt_2\n", "Go on with: --after one\n", 0},
		{"missing", "reconcile " + webhook + " --against " + file, "", "missing  evt_2\nunknown  evt_0\n", "The feed has 3 events: 1 missing, 1 unknown.\n", 1},
		{"since", "reconcile " + webhook + " --against - --since 2026-01-03T00:00:00Z", "evt_3\nevt_1\n", "", "The feed has 1 event: 0 missing, 0 unknown.\n", 0},
		{"json lines", "reconcile " + webhook + " --against - -o json", "evt_1\nevt_2\n", `{"id":"evt_3","state":"missing"}` + "\n", "1 missing", 1},
		{"not ids", "reconcile " + webhook + " --against -", "two words\n", "", "line 1 of the file is no id", 2},
		{"no file", "reconcile " + webhook, "", "", "--against is required", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out, notes bytes.Buffer
			args := append(append([]string{"waybill", "webhooks"}, strings.Fields(c.command)...), "--server", feeding(t), "--key", apiKey)
			code := cli.Main("test", args, strings.NewReader(c.stdin), &out, &notes)
			if code != c.code || !sameLines(out.String(), c.stdout) || !strings.Contains(notes.String(), c.stderr) {
				t.Errorf("code %d\n%s\n%s", code, out.String(), notes.String())
			}
		})
	}
}

// sameLines compares lines that come in any order.
func sameLines(a, b string) bool {
	for line := range strings.Lines(a) {
		if !strings.Contains(b, line) {
			return false
		}
	}
	return len(a) == len(b)
}
