package cli_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
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
		for form, want := range map[string]string{"id": strings.ReplaceAll(want, "/", ""), "json": backwards(want)} {
			out.Reset()
			args := []string{"waybill", "logs", "shop", "--search", "needle", "--limit", limit, "--server", server.URL, "--key", apiKey, "-o", form}
			if form == "json" {
				args = append(args, "--jq", ".data[].path") // one value, a list
			}
			code := cli.Main("test", args, nil, &out, &notes)
			if got := strings.Join(strings.Fields(out.String()), " "); code != 0 || got != want {
				t.Errorf("limit %s, -o %s: %d %q, want %q", limit, form, code, got, want)
			}
		}
	}
}

// What a back end did, and why a request failed, stand beside the entries of its log.
func TestOneLoggedRequest(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"requestId":"r1","timestamp":"2026-11-28T10:11:12.345Z","method":"GET","path":"/orders","statusCode":502,"durationMs":3,"consumer":"","severity":"error",
			"backEnd":{"host":"127.0.0.1:9411","status":null,"durationMs":1.5},
			"entries":[{"timestamp":"2026-11-28T10:11:12.345Z","severity":"error","source":"handler","message":"The back end can't be reached.","attributes":{"bytes":1048576,"reason":"connect_refused"}},
			{"timestamp":null,"severity":"info","source":"route","message":"Answered.","attributes":null}]}`)
	}))
	t.Cleanup(server.Close)
	var out, notes bytes.Buffer
	if code := cli.Main("test", []string{"waybill", "logs", "shop", "r1", "--server", server.URL, "--key", apiKey}, nil, &out, &notes); code != 0 {
		t.Fatalf("%d %s", code, notes.String())
	}
	for _, want := range []string{"  error  handler  The back end can't be reached.  bytes=1048576  reason=connect_refused\n", "  info   route  Answered.\n", "  back end 127.0.0.1:9411: no answer after 1.5 ms\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// backwards returns words in the opposite order.
func backwards(text string) string {
	words := strings.Fields(text)
	slices.Reverse(words)
	return strings.Join(words, " ")
}

// None is a list, too.
func TestNoLoggedRequests(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"data":[],"pagination":{"limit":2,"cursor":null},"notKept":0}`)
	}))
	t.Cleanup(server.Close)
	if code, out, notes := waybill("logs", "shop", "-o", "json", "--jq", ".data", "--server", server.URL, "--key", apiKey); code != 0 || out != "[]\n" || notes != "" {
		t.Errorf("%d %q %q", code, out, notes)
	}
}
