package trial_test

import (
	"crypto/x509"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/cmd/waybill/internal/trial"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/judge"
	"waybill.dev/shared/signature"
)

func secret(t *testing.T) signature.Key {
	t.Helper()
	key, err := signature.ParseSecret(domain.NewSecret().Reveal())
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// receiver is one over TLS, and how it is tried.
func receiver(t *testing.T, handle http.HandlerFunc) (*httptest.Server, trial.Options) {
	t.Helper()
	server := httptest.NewTLSServer(handle)
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return server, trial.Options{
		URL: server.URL + "/in", Secret: secret(t), Timeout: 5 * time.Second, Version: "v1", RootCAs: roots,
		Policy: egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
	}
}

// verifies answers as a good receiver does.
func verifies(key signature.Key, now func() time.Time) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || signature.Verify(r.Header, body, now(), key) != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

func levels(found []judge.Finding) map[string]judge.Level {
	by := make(map[string]judge.Level)
	for _, f := range found {
		if f.Found == "" || f.Means == "" || f.Level != judge.OK && f.Do == "" {
			panic("a finding that says too little: " + f.Name)
		}
		by[f.Name] = f.Level
	}
	return by
}

const (
	ok, warning, fault = judge.OK, judge.Warning, judge.Fault
)

func TestTrial(t *testing.T) {
	t.Parallel()
	known := secret(t)
	reached := map[string]judge.Level{"url": ok, "address": ok, "connection": ok, "tls": ok, "chain": ok, "certificate": ok}
	answer := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere?token=secret")
			w.WriteHeader(status)
		}
	}
	lenient := func(w http.ResponseWriter, r *http.Request) { // looks at no clock
		body, _ := io.ReadAll(r.Body)
		r.Header.Set(signature.HeaderTimestamp, r.Header.Get(signature.HeaderTimestamp))
		at := time.Now()
		if signature.Verify(r.Header, body, at, known) != nil && signature.Verify(r.Header, body, at.Add(-time.Hour), known) != nil {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}
	rows := map[string]struct {
		handle http.HandlerFunc
		known  bool
		want   map[string]judge.Level
	}{
		"good":                      {verifies(known, time.Now), true, map[string]judge.Level{"test event": ok, "time": ok, "wrong signature": ok, "old time": ok}},
		"good, with another secret": {verifies(secret(t), time.Now), true, map[string]judge.Level{"test event": fault, "time": ok, "wrong signature": ok}},
		"good, with a fresh secret": {verifies(known, time.Now), false, map[string]judge.Level{"test event": ok, "time": ok, "wrong signature": ok}},
		"takes everything":          {answer(200), true, map[string]judge.Level{"test event": ok, "time": ok, "wrong signature": warning}},
		"takes everything, unknown": {answer(200), false, map[string]judge.Level{"test event": warning, "time": ok, "wrong signature": warning}},
		"looks at no clock":         {lenient, true, map[string]judge.Level{"test event": ok, "time": ok, "wrong signature": ok, "old time": warning}},
		"redirects":                 {answer(302), true, map[string]judge.Level{"test event": fault, "time": ok, "wrong signature": ok}},
		"is gone":                   {answer(410), true, map[string]judge.Level{"test event": fault, "time": ok, "wrong signature": ok}},
		"fails":                     {answer(500), false, map[string]judge.Level{"test event": fault, "time": ok, "wrong signature": warning}},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var requests []*http.Request
			_, o := receiver(t, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				requests = append(requests, r.Clone(r.Context()))
				mu.Unlock()
				row.handle(w, r)
			})
			if o.Known = row.known; row.known {
				o.Secret = known
			}
			found := trial.Run(t.Context(), o)
			maps.Copy(row.want, reached)
			if diff := cmp.Diff(row.want, levels(found)); diff != "" {
				t.Errorf("%s\n%+v", diff, found)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(requests) < 2 || len(requests) > 3 {
				t.Errorf("%d requests", len(requests))
			}
			for _, r := range requests {
				if r.URL.Path != "/in" || r.Header.Get("User-Agent") != "Waybill/v1" || !strings.HasPrefix(r.Header.Get("Webhook-Id"), "evt_check_") {
					t.Errorf("request %s %v", r.URL, r.Header)
				}
			}
			for _, f := range found {
				if strings.Contains(f.Found, "token=secret") {
					t.Errorf("it tells the query of a redirect: %s", f.Found)
				}
			}
		})
	}
}

func TestTrialThatIsNotAnswered(t *testing.T) {
	t.Parallel()
	_, o := receiver(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // from then on the server notices that the client has gone
		<-r.Context().Done()
	})
	o.Timeout = 200 * time.Millisecond
	if got := levels(trial.Run(t.Context(), o)); got["test event"] != fault || got["wrong signature"] != "" {
		t.Errorf("a receiver that is silent: %v", got)
	}
}

func TestTrialOfWhatIsNotReached(t *testing.T) {
	t.Parallel()
	server, reachable := receiver(t, func(http.ResponseWriter, *http.Request) { t.Error("it got a request") })
	rows := map[string]struct {
		change      func(*trial.Options)
		check, says string
	}{
		"loopback":            {func(o *trial.Options) { o.Policy.Allow = nil }, "url", "WAYBILL_EGRESS_ALLOW"},
		"metadata":            {func(o *trial.Options) { o.URL = "https://169.254.169.254/latest" }, "url", "WAYBILL_EGRESS_ALLOW"},
		"http":                {func(o *trial.Options) { o.URL = "http://127.0.0.1:1/" }, "url", "WAYBILL_EGRESS_HTTP"},
		"nonsense":            {func(o *trial.Options) { o.URL = "nonsense" }, "url", "correct the URL"},
		"nobody listens":      {func(o *trial.Options) { o.URL = "https://127.0.0.1:1/" }, "connection", "start the receiver"},
		"unknown authority":   {func(o *trial.Options) { o.RootCAs = x509.NewCertPool() }, "tls", "certificate"},
		"name without a host": {func(o *trial.Options) { o.URL = "https://receiver.invalid/" }, "dns", "name"},
	}
	for name, row := range rows {
		o := reachable
		row.change(&o)
		found := trial.Run(t.Context(), o)
		last := found[len(found)-1]
		if last.Name != row.check || last.Level != fault || !strings.Contains(last.Found+last.Do, row.says) {
			t.Errorf("%s: %+v", name, last)
		}
	}
	_ = server
}

// What is not encrypted is told of.
func TestTrialWithoutTLS(t *testing.T) {
	t.Parallel()
	key := secret(t)
	server := httptest.NewServer(verifies(key, time.Now))
	t.Cleanup(server.Close)
	got := levels(trial.Run(t.Context(), trial.Options{
		URL: server.URL, Secret: key, Known: true, Timeout: 5 * time.Second,
		Policy: egress.Policy{HTTP: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
	}))
	if got["tls"] != warning || got["test event"] != ok || got["wrong signature"] != ok {
		t.Errorf("%v", got)
	}
}
