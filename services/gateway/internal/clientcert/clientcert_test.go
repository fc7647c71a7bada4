package clientcert_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"waybill.dev/services/gateway/internal/clientcert"
	"waybill.dev/shared/certificate"
	"waybill.dev/shared/certificate/certificatetest"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/clientcas"
)

// table is a store whose content a test sets.
type table struct {
	mu      sync.Mutex
	rows    []clientcas.ServedCA
	version int64
	err     error
}

func (t *table) set(version int64, rows ...clientcas.ServedCA) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.version, t.rows, t.err = version, rows, nil
}

func (t *table) ServedClientCAs(_ context.Context, since int64) ([]clientcas.ServedCA, int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil || since == t.version {
		return nil, t.version, t.err
	}
	return t.rows, t.version, nil
}

func served(account, id string, ca *certificatetest.Issuer) clientcas.ServedCA {
	return clientcas.ServedCA{ID: id, Account: account, Certificate: ca.Raw}
}

func shows(leaf *certificatetest.Issuer) *tls.ConnectionState {
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf.Certificate}}
}

func update(t *testing.T, a *clientcert.Authorities) {
	t.Helper()
	if err := a.Update(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Before the first reading nobody can tell, and clients are asked in case. Afterwards those of
// accounts with CAs are. What is known goes on while the database is away, and starts anew when
// it comes from a backup.
func TestWhatIsKnown(t *testing.T) {
	t.Parallel()
	ca := certificatetest.NewCA(t, "CA", nil)
	leaf := shows(ca.Issue(t, "till", nil))
	store := &table{}
	a := clientcert.New(store, nil, slog.New(slog.DiscardHandler))
	verify := func(what, account string, good bool) {
		t.Helper()
		if _, err := a.Verify(t.Context(), account, leaf); (err == nil) != good {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := a.Verify(t.Context(), "acme", leaf); !errors.Is(err, domain.ErrUnavailable) || a.Ready() {
		t.Errorf("at first: %v", err)
	}
	if _, asked := a.Asked("acme"); !asked {
		t.Error("at first, nobody is asked")
	}
	store.set(5, served("acme", "1", ca))
	update(t, a)
	verify("its account", "acme", true)
	verify("another account", "other", false)
	for account, want := range map[string]bool{"acme": true, "other": false, "": false} {
		if names, asked := a.Asked(account); asked != want || (names != nil) != want {
			t.Errorf("%q: asked %t", account, asked)
		}
	}
	store.err = errors.New("away")
	if a.Update(t.Context()) == nil {
		t.Error("no error")
	}
	verify("the database is away", "acme", true)
	store.set(3, served("other", "2", ca)) // from a backup
	update(t, a)
	verify("from a backup", "acme", false)
	verify("from a backup", "other", true)
	store.set(4, clientcas.ServedCA{ID: "2", Account: "other", Removed: true}, clientcas.ServedCA{ID: "3", Account: "acme", Certificate: []byte("damaged")})
	update(t, a)
	verify("removed", "other", false)
	verify("damaged", "acme", false)
}

// Clients are not told the names of CAs when they are more than a handshake has room for.
func TestManyNames(t *testing.T) {
	t.Parallel()
	long := certificatetest.NewCA(t, "CA", func(c *x509.Certificate) {
		for range 400 {
			c.Subject.OrganizationalUnit = append(c.Subject.OrganizationalUnit, "a unit with a name of forty characters..")
		}
	})
	store := &table{}
	a := clientcert.New(store, nil, slog.New(slog.DiscardHandler))
	store.set(1, served("acme", "1", long))
	update(t, a)
	if names, asked := a.Asked("acme"); !asked || names != nil {
		t.Errorf("asked %t, names %v", asked, names)
	}
	if _, err := a.Verify(t.Context(), "acme", shows(long.Issue(t, "till", nil))); err != nil {
		t.Error(err)
	}
}

// A verdict is remembered for a connection, until the CAs of the account change, or a certificate
// begins or ends.
func TestRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ca := certificatetest.NewCA(t, "CA", nil)
		store := &table{}
		a := clientcert.New(store, nil, slog.New(slog.DiscardHandler))
		store.set(1, served("acme", "1", ca))
		update(t, a)
		ctx := clientcert.ConnContext(t.Context(), nil)
		leaf := ca.Issue(t, "till", func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(time.Minute), time.Now().Add(2*time.Minute)
		})
		verify := func(what string, good bool) (shown any) {
			t.Helper()
			found, err := a.Verify(ctx, "acme", shows(leaf))
			if (err == nil) != good {
				t.Errorf("%s: %v", what, err)
			}
			return found
		}
		verify("early", false)
		verify("early", false)
		<-time.After(time.Minute + time.Second) // of a bubble: it takes no time
		first := verify("in time", true)
		if again := verify("again", true); again != first {
			t.Error("it was judged twice")
		}
		store.set(2, served("other", "2", ca))
		update(t, a)
		if again := verify("another account's change", true); again != first {
			t.Error("another account's change had it judged again")
		}
		store.set(3, served("acme", "3", certificatetest.NewCA(t, "CA", nil)))
		update(t, a)
		if again := verify("one more CA", true); again == first {
			t.Error("it was not judged again")
		}
		<-time.After(time.Minute)
		verify("ended", false)
		leaf = ca.Issue(t, "till", nil)
		verify("another certificate", true)
		store.set(4, clientcas.ServedCA{ID: "1", Account: "acme", Removed: true})
		update(t, a)
		verify("the CA is gone", false)
	})
}

// What was found good is told as people compare it.
func TestShown(t *testing.T) {
	t.Parallel()
	ca := certificatetest.NewCA(t, "CA", nil)
	store := &table{}
	a := clientcert.New(store, nil, slog.New(slog.DiscardHandler))
	store.set(1, served("acme", "1", ca))
	update(t, a)
	leaf := ca.Issue(t, "till 7", nil)
	shown, err := a.Verify(t.Context(), "acme", shows(leaf))
	if err != nil || shown.Subject != "CN=till 7" || shown.Issuer != "CN=CA" || shown.Fingerprint != certificate.Fingerprint(leaf.Certificate) || !bytes.Equal(shown.Raw, leaf.Raw) {
		t.Errorf("%+v, %v", shown, err)
	}
	for what, state := range map[string]*tls.ConnectionState{"no TLS": nil, "no certificate": {}} {
		if _, err := a.Verify(t.Context(), "acme", state); err == nil {
			t.Errorf("%s is good", what)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	ca := certificatetest.NewCA(b, "CA", nil)
	store := &table{}
	a := clientcert.New(store, nil, slog.New(slog.DiscardHandler))
	store.set(1, served("acme", "1", ca))
	if err := a.Update(b.Context()); err != nil {
		b.Fatal(err)
	}
	state := shows(ca.Issue(b, "till", nil))
	for name, ctx := range map[string]context.Context{"first": b.Context(), "remembered": clientcert.ConnContext(b.Context(), nil)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := a.Verify(ctx, "acme", state); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
