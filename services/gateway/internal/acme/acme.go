// Package acme gets certificates for custom domains from a certificate authority, and renews them. All
// gateways on one database work together: their knowledge is in the database, and each order is placed
// by one process.
package acme

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3"
	"github.com/mholt/acmez/v3/acme"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"

	"waybill.dev/shared/signal"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/domains"
)

// Store keeps the state that gateways share.
type Store interface {
	PutACME(ctx context.Context, key string, value []byte) error
	ACME(ctx context.Context, key string) ([]byte, time.Time, error)
	ACMEKeys(ctx context.Context, key string) ([]string, error)
	DeleteACME(ctx context.Context, key string) error
	LockACME(ctx context.Context, name, owner string) (bool, error)
	UnlockACME(ctx context.Context, name, owner string) error
	NoteCertificate(ctx context.Context, hostname string, state domains.CertificateState) error
	CertificateState(ctx context.Context, hostname string) (domains.CertificateState, error)
	CertificatesThatEnd(ctx context.Context, before time.Time) ([]string, error)
	ServedDomains(ctx context.Context, since int64) ([]domains.ServedDomain, int64, error)
}

// Options of an authority. Email, Trusted, Challenges and RenewEvery may be left out.
type Options struct {
	Store     Store
	Directory string // the URL of the authority's directory
	Email     string
	// Trusted are the certificates by which the authority's address is trusted; nil: the system's.
	Trusted *x509.CertPool
	// Wanted reports from memory whether the authority should give a certificate for a hostname.
	Wanted func(hostname string) bool
	// Challenges are the ways to prove ownership of a hostname; nil: HTTP-01 and TLS-ALPN-01.
	Challenges []string
	// RenewEvery is the time between two checks for certificates that end soon; 0: 10 minutes.
	RenewEvery time.Duration
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// maxCached bounds the certificates in memory. The others are read when a handshake needs them.
const maxCached = 10_000

// Authority is a certificate authority.
type Authority struct {
	options Options
	proofs  *proofs
	storage *storage
	config  *certmagic.Config
	cache   *certmagic.Cache
	flights singleflight.Group
	changes signal.Signal
	lacking lacking

	mu     sync.Mutex
	failed map[string]time.Time // this process orders no certificate of the hostname until then
	known  map[string]struct{}  // hostnames whose certificates may be in memory
	ended  context.Context      //nolint:containedctx // it ends the orders that outlive their handshakes
	end    context.CancelFunc
}

// New returns an authority. Nothing happens before the first handshake, or Run.
func New(o Options) (*Authority, error) {
	if o.Challenges == nil {
		o.Challenges = []string{acme.ChallengeTypeHTTP01, acme.ChallengeTypeTLSALPN01}
	}
	owner, err := store.NewUUID()
	if err != nil {
		return nil, fmt.Errorf("make authority: %w", err)
	}
	a := &Authority{
		options: o, proofs: &proofs{store: o.Store}, storage: newStorage(o.Store, owner), changes: signal.New(),
		failed: make(map[string]time.Time), known: make(map[string]struct{}),
	}
	a.ended, a.end = context.WithCancel(context.Background())
	a.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert:   func(certmagic.Certificate) (*certmagic.Config, error) { return a.config, nil },
		RenewCheckInterval: o.RenewEvery, Capacity: maxCached, Logger: zap.NewNop(),
	})
	a.config = certmagic.New(a.cache, certmagic.Config{
		Storage: a.storage, Logger: zap.NewNop(), DisableStorageCheck: true,
		Issuers: []certmagic.Issuer{newIssuer(o, a.storage, a.proofs, newMetrics(o.Registerer))},
	})
	return a, nil
}

func trusting(pool *x509.CertPool) *tls.Config {
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

var (
	errNotWanted = errors.New("nobody wants a certificate of the authority for the hostname")
	errFailed    = errors.New("there is no certificate, and none could be had a short while ago")
)

const (
	// obtainTime bounds an order. The order continues for other clients after the first client has gone.
	obtainTime = 90 * time.Second
	// failedTime is how long a failure is remembered in memory, so that handshakes cost the
	// database nothing.
	failedTime = 5 * time.Second
)

// Certificate returns the certificate of a hostname: from memory, otherwise from the database, otherwise
// from the authority. All callers that wait for the same hostname share one order.
func (a *Authority) Certificate(ctx context.Context, hostname string) (*tls.Certificate, error) {
	if c := a.cached(hostname, time.Now()); c != nil {
		return c, nil
	}
	if a.failedLately(hostname, time.Now()) {
		return nil, errFailed
	}
	done := a.flights.DoChan(hostname, func() (any, error) { return a.obtain(hostname) })
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case result := <-done:
		if result.Err != nil {
			return nil, result.Err
		}
		c, _ := result.Val.(*tls.Certificate)
		return c, nil
	}
}

// cached returns that certificate in memory which ends last, unless it has ended.
func (a *Authority) cached(hostname string, now time.Time) *tls.Certificate {
	var best *certmagic.Certificate
	for _, c := range a.cache.AllMatchingCertificates(hostname) {
		if c.Leaf != nil && now.Before(c.Leaf.NotAfter) && (best == nil || c.Leaf.NotAfter.After(best.Leaf.NotAfter)) {
			best = &c
		}
	}
	if best == nil {
		return nil
	}
	return &best.Certificate
}

func (a *Authority) failedLately(hostname string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return now.Before(a.failed[hostname])
}

// obtain reads a certificate from the database, and orders one when the database has no valid one.
func (a *Authority) obtain(hostname string) (*tls.Certificate, error) {
	ctx, cancel := context.WithTimeout(a.ended, obtainTime)
	defer cancel()
	c, err := a.fetch(ctx, hostname)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.failed[hostname] = time.Now().Add(failedTime)
		return nil, err
	}
	delete(a.failed, hostname)
	a.known[hostname] = struct{}{}
	return c, nil
}

func (a *Authority) fetch(ctx context.Context, hostname string) (*tls.Certificate, error) {
	if !a.options.Wanted(hostname) {
		return nil, errNotWanted
	}
	c, err := a.config.CacheManagedCertificate(ctx, hostname)
	switch {
	case err == nil && !c.Expired():
		return &c.Certificate, nil
	case err == nil:
		err = a.config.RenewCertSync(ctx, hostname, false)
	case errors.Is(err, fs.ErrNotExist):
		err = a.config.ObtainCertSync(ctx, hostname)
	}
	if err != nil {
		return nil, fmt.Errorf("get certificate: %w", err)
	}
	if c, err = a.config.CacheManagedCertificate(ctx, hostname); err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	return &c.Certificate, nil
}

// Proof returns the certificate that proves the ownership of a hostname by TLS-ALPN-01.
func (a *Authority) Proof(ctx context.Context, hostname string) (*tls.Certificate, error) {
	challenge, err := a.proofs.find(ctx, acme.ChallengeTypeTLSALPN01, hostname)
	if err != nil {
		return nil, err
	}
	c, err := acmez.TLSALPN01ChallengeCert(challenge)
	if err != nil {
		return nil, fmt.Errorf("make proof: %w", err)
	}
	return c, nil
}
