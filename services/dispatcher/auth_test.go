package dispatcher_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/dispatcher"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/receiverauth"
	"waybill.dev/shared/receiverauth/receiverauthtest"
)

// journal is what a dispatcher has logged.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// authenticated sets how a webhook is authenticated.
func authenticated(t *testing.T, of *receiverauth.Auth) func(*domain.Webhook) {
	t.Helper()
	kept, err := of.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return func(w *domain.Webhook) { w.Auth = kept }
}

// attempts waits for a webhook's deliveries and returns all that the log has of them.
func (b *bench) attempts(id domain.WebhookID, status domain.Status, want int) (list []domain.Attempt) {
	b.t.Helper()
	for _, d := range b.deliveries(id, status, want) {
		_, attempts, err := b.store.GetDelivery(b.t.Context(), domain.DefaultAccount, d.ID)
		if err != nil {
			b.t.Fatal(err)
		}
		list = append(list, attempts...)
	}
	return list
}

// Two dispatchers deliver to receivers of each kind. A change of the authentication holds at
// once, a token server that fails is a failure like others, and no secret is in what is kept.
func TestAuthenticationAtReceivers(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		var asked, failing atomic.Int64
		tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			client, _, _ := r.BasicAuth()
			if failing.Load() > 0 {
				w.WriteHeader(http.StatusInternalServerError)
				_, _ = io.WriteString(w, "canary-of-the-token-server")
				failing.Add(-1)
				return
			}
			_, _ = fmt.Fprintf(w, `{"access_token":"canary-token-%s","expires_in":3600}`, client)
		}))
		defer tokens.Close()
		var good atomic.Value
		good.Store("Bearer canary-token-a")
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != good.Load() {
				w.WriteHeader(http.StatusUnauthorized)
			}
		}))
		defer receiver.Close()
		authority := receiverauthtest.New(t)
		strict := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		strict.TLS = authority.Server(t)
		strict.StartTLS()
		defer strict.Close()

		var log journal
		registries := prometheus.Gatherers{}
		for range 2 {
			registry := prometheus.NewRegistry()
			registries = append(registries, registry)
			b.dispatch(func(o *dispatcher.Options) {
				o.Logger, o.Metrics = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), registry
			})
		}

		client := func(id string) *receiverauth.Auth {
			return &receiverauth.Auth{Type: receiverauth.OAuth2, TokenURL: tokens.URL, ClientID: id, ClientSecret: "canary-secret"}
		}
		soon := func(w *domain.Webhook) {
			w.RetrySchedule = []time.Duration{50 * time.Millisecond, 50 * time.Millisecond}
		}
		by := b.webhook(receiver.URL, authenticated(t, client("a")), soon)
		mtls := b.webhook(strict.URL, authenticated(t, authority.Auth(t, "shop")), soon)
		b.accept(20)
		b.deliveries(by.ID, domain.StatusDelivered, 20)
		b.deliveries(mtls.ID, domain.StatusDelivered, 20)
		if n := asked.Load(); n < 1 || n > 2 {
			t.Errorf("two dispatchers have asked for %d tokens", n)
		}

		good.Store("Bearer canary-token-b")
		b.update(by.ID, authenticated(t, client("b")))
		b.accept(1)
		delivered := b.attempts(by.ID, domain.StatusDelivered, 21)
		failing.Store(1 << 20)
		broken := b.webhook(receiver.URL, authenticated(t, client("b")), soon)
		b.accept(1)
		failed := b.attempts(broken.ID, domain.StatusFailed, 1)
		for _, a := range failed {
			if a.Class != domain.ClassAuth || a.Status != 0 || !strings.HasSuffix(a.Error, "the token server: answered 500") {
				t.Errorf("%+v", a)
			}
		}
		var all strings.Builder
		all.WriteString(log.String())
		for _, registry := range registries {
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(&all, families)
		}
		for _, a := range slices.Concat(failed, delivered) {
			fmt.Fprintf(&all, "%+v %s", a, a.Transcript)
		}
		kept := all.String()
		if strings.Contains(kept, "canary") || strings.Contains(kept, "PRIVATE KEY") || strings.Contains(kept, tokens.URL) {
			t.Errorf("a secret is kept: %.2000s", kept)
		}
		if !strings.Contains(kept, `waybill_attempts_total`) || !strings.Contains(kept, "Authorization") || !strings.Contains(kept, `value:"auth"`) {
			t.Error("what is looked at has nothing in it")
		}
	})
}
