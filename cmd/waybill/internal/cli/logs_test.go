package cli_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"waybill.dev/cmd/waybill/internal/cli"
)

// A search that takes long comes in parts, some of which are empty: it goes on until there are as many
// requests as were asked for, or to the end.
func TestASearchThatComesInParts(t *testing.T) {
	t.Parallel()
	parts := map[string][]string{"": nil, "1": {"a"}, "2": nil, "3": {"b", "c"}, "4": {"d"}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("search") != "needle" {
			t.Errorf("asked %s", r.URL)
		}
		at := q.Get("cursor")
		var requests []string
		for _, id := range parts[at] {
			requests = append(requests, fmt.Sprintf(`{"requestId":%q,"timestamp":"2026-11-18T09:12:00.000Z","method":"GET","path":"/%s","statusCode":200,"consumer":"anonymous","severity":"info"}`, id, id))
		}
		next := "null"
		if n := len(at); at != "4" {
			next = `"1"`
			if n > 0 {
				next = fmt.Sprintf("%q", string(at[0]+1))
			}
		}
		_, _ = fmt.Fprintf(w, `{"data":[%s],"pagination":{"limit":2,"cursor":%s},"notKept":0}`, strings.Join(requests, ","), next)
	}))
	t.Cleanup(server.Close)
	for limit, want := range map[string]string{"2": "/b /a", "50": "/d /c /b /a"} {
		var out, notes bytes.Buffer
		code := cli.Main("test", []string{"waybill", "logs", "shop", "--search", "needle", "--limit", limit, "--server", server.URL, "--key", apiKey}, nil, &out, &notes)
		var got []string
		for line := range strings.Lines(out.String()) {
			got = append(got, strings.Fields(line)[3])
		}
		if code != 0 || strings.Join(got, " ") != want {
			t.Errorf("limit %s: %d %q, want %s\n%s%s", limit, code, got, want, &out, &notes)
		}
	}
}
