package cli_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// jobAPI makes a job of three deliveries, which is over when it was asked for as often as it
// has states.
func jobAPI(t *testing.T, made string, states ...string) string {
	t.Helper()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, made)
		case r.URL.Path == "/v1/jobs/j-1":
			n := min(int(asked.Add(1)), len(states))
			_, _ = fmt.Fprintf(w, `{"id":"j-1","kind":"retry","matched":3,%s}`, states[n-1])
		default:
			t.Errorf("asked %s %s", r.Method, r.URL)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// With --wait a job is followed to its end, and the exit code says what became of it.
func TestJobsAreAwaited(t *testing.T) {
	t.Parallel()
	const (
		made    = `{"id":"j-1","matched":3}`
		running = `"status":"running","sent":2,"delivered":1,"failed":0`
		done    = `"status":"done","sent":3,"delivered":3,"failed":0`
		failed  = `"status":"done","sent":3,"delivered":1,"failed":2`
		stopped = `"status":"cancelled","sent":1,"delivered":1,"failed":0`
	)
	for name, tc := range map[string]struct {
		command, made  string
		states         []string
		code           int
		stdout, stderr []string
	}{
		"a good end": {"deliveries retry-all --since 1h --wait", made, []string{running, running, done}, 0,
			[]string{"done"}, []string{"2 of 3 sent, 1 delivered, 0 failed\n", "3 of 3 sent, 3 delivered, 0 failed\n"}},
		"of a replay":            {"webhooks replay w --since 1h --wait -o json", made, []string{done}, 0, []string{`"status":"done"`}, nil},
		"nothing to send":        {"webhooks replay w --since 1h --wait", `{"id":"j-1","matched":0,"reason":"All are delivered."}`, []string{done}, 0, nil, []string{"All are delivered.\n"}},
		"why nothing would be":   {"webhooks replay w --since 1h --dry-run", `{"matched":0,"oldest":null,"alreadyDelivered":0,"estimatedSeconds":0,"reason":"All are delivered."}`, nil, 0, []string{"All are delivered."}, nil},
		"failures":               {"deliveries retry-all --since 1h --wait -o json", made, []string{running, failed}, 1, []string{`"failed":2`}, []string{"2 of 3 deliveries failed"}},
		"a cancelled one":        {"deliveries retry-all --since 1h --wait", made, []string{running, stopped}, 1, []string{"cancelled"}, []string{"the job was cancelled"}},
		"only what it would do":  {"deliveries retry-all --since 1h --wait --dry-run", `{"matched":3}`, nil, 0, []string{"3"}, nil},
		"an answer that is none": {"deliveries retry-all --since 1h --wait", made, []string{`"status":`}, 1, nil, []string{"jobs get j-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append(strings.Fields(tc.command), "--server", jobAPI(t, tc.made, tc.states...), "--key", apiKey)
			code, stdout, stderr := waybill(args...)
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			for _, text := range tc.stdout {
				if !strings.Contains(stdout, text) {
					t.Errorf("stdout lacks %q:\n%s", text, stdout)
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
