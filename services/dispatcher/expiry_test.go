package dispatcher_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/receiverauth/receiverauthtest"
)

// renewable is a receiver by TLS whose certificate can be replaced.
type renewable struct {
	*httptest.Server
	t         *testing.T
	authority *receiverauthtest.Authority
	pair      atomic.Pointer[tls.Certificate]
}

func newRenewable(t *testing.T, authority *receiverauthtest.Authority, ends time.Time) *renewable {
	t.Helper()
	r := &renewable{t: t, authority: authority, Server: httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))}
	r.renew(ends)
	r.TLS = &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { // an address has no name that GetCertificate would be asked for
			return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*r.pair.Load()}}, nil
		},
	}
	r.StartTLS()
	t.Cleanup(r.Close)
	return r
}

// renew takes another certificate for the connections to come.
func (r *renewable) renew(ends time.Time) {
	r.t.Helper()
	certificate, key := r.authority.Issue(r.t, "receiver", ends)
	pair, err := tls.X509KeyPair([]byte(certificate), []byte(key))
	if err != nil {
		r.t.Fatal(err)
	}
	r.pair.Store(&pair)
	if r.URL != "" {
		r.CloseClientConnections()
	}
}

// Dispatchers tell once that a receiver's certificate ends within 14 days, and that another one
// has taken its place, and nothing of receivers whose certificate is good for longer.
func TestReceiversCertificatesThatEnd(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		day := 24 * time.Hour
		soon := time.Now().Add(5 * day).UTC().Truncate(time.Second)
		authority := receiverauthtest.New(t)
		ends := newRenewable(t, authority, soon)
		within := newRenewable(t, authority, time.Now().Add(14*day-time.Hour))
		beyond := newRenewable(t, authority, time.Now().Add(14*day+time.Hour))
		auth := authenticated(t, authority.Auth(t, "shop"))
		soonAgain := func(w *domain.Webhook) { w.RetrySchedule = slices.Repeat([]time.Duration{50 * time.Millisecond}, 10) }
		w, near := b.webhook(ends.URL, auth, soonAgain), b.webhook(within.URL, auth, soonAgain)
		far, plain := b.webhook(beyond.URL, auth, soonAgain), b.webhook(newSink(t, nil).URL)
		b.dispatch()
		accepted := 0
		deliver := func() {
			t.Helper()
			b.accept(4)
			accepted += 4
			for _, w := range []domain.Webhook{w, near, far, plain} {
				b.deliveries(w.ID, domain.StatusDelivered, accepted)
			}
		}
		health := func(w domain.Webhook) domain.Health {
			t.Helper()
			_, h, err := b.store.GetWebhook(t.Context(), w.Account, w.ID)
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		until := func(want time.Time) {
			t.Helper()
			b.eventually(func() error {
				if got := health(w).CertificateExpiresAt; !got.Equal(want) {
					return fmt.Errorf("the certificate ends %s, want %s", got, want)
				}
				return nil
			})
		}
		deliver()
		until(soon)
		b.eventually(func() error {
			if health(near).CertificateExpiresAt.IsZero() {
				return errNotYet
			}
			return nil
		})
		for _, w := range []domain.Webhook{far, plain} {
			if h := health(w); !h.UpdatedAt.IsZero() {
				t.Errorf("something was told of %s: %+v", w.URL, h)
			}
		}
		// It is told once, whatever connections are made, and by whom.
		told := health(near)
		within.CloseClientConnections()
		deliver()
		b.dispatch()
		within.CloseClientConnections()
		deliver()
		if again := health(near); again != told {
			t.Errorf("told again: %+v, then %+v", told, again)
		}
		ends.renew(time.Now().Add(60 * day))
		deliver()
		until(time.Time{})
		ends.renew(soon)
		deliver()
		until(soon)
	})
}
