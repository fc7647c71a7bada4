package acme

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3"
	"github.com/mholt/acmez/v3/acme"
	"golang.org/x/time/rate"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/domains"
)

// After a failure no order is placed for firstWait, after each further failure for twice as long,
// up to lastWait. An authority that limits the rate gets no order for limitedWait at least.
const (
	firstWait   = time.Minute
	lastWait    = 24 * time.Hour
	limitedWait = time.Hour
)

// No process orders faster than this.
const (
	ordersEach  = time.Second
	ordersBurst = 10
)

// issuer orders certificates. Proofs are kept in the database: the issuer listens on no port.
type issuer struct {
	options Options
	client  *acmez.Client
	storage *storage
	pace    *rate.Limiter
	metrics *metrics
}

func newIssuer(o Options, s *storage, p *proofs, m *metrics) *issuer {
	solvers := make(map[string]acmez.Solver)
	for _, kind := range o.Challenges {
		solvers[kind] = p
	}
	client := &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: trusting(o.Trusted), ForceAttemptHTTP2: true, ResponseHeaderTimeout: 30 * time.Second,
	}, Timeout: time.Minute}
	return &issuer{
		options: o, storage: s, metrics: m, pace: rate.NewLimiter(rate.Every(ordersEach), ordersBurst),
		client: &acmez.Client{
			Client:           &acme.Client{Directory: o.Directory, HTTPClient: client, UserAgent: "Waybill", Logger: slog.New(slog.DiscardHandler)},
			ChallengeSolvers: solvers,
		},
	}
}

// IssuerKey implements certmagic.Issuer.
func (i *issuer) IssuerKey() string {
	u, err := url.Parse(i.options.Directory)
	if err != nil {
		return "acme"
	}
	return u.Host + strings.ReplaceAll(u.Path, "/", "-")
}

// errNotYet reports that an order failed a short while ago.
var errNotYet = errors.New("the last order has failed, and the time for another one has not come")

// Issue implements certmagic.Issuer. The caller has the lock of the hostname.
func (i *issuer) Issue(ctx context.Context, request *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	hostname := request.DNSNames[0]
	if !i.options.Wanted(hostname) {
		return nil, errNotWanted
	}
	before, err := i.options.Store.CertificateState(ctx, hostname)
	if err != nil {
		return nil, err
	}
	if time.Now().Before(before.RetryOn) {
		return nil, errNotYet
	}
	if err := i.pace.Wait(ctx); err != nil {
		return nil, fmt.Errorf("wait to order certificate: %w", err)
	}
	issued, err := i.order(ctx, request)
	if err != nil {
		i.metrics.orders.WithLabelValues(orderFailed).Inc()
		return nil, errors.Join(err, i.noteFailed(ctx, hostname, before, err))
	}
	i.metrics.orders.WithLabelValues(orderIssued).Inc()
	i.options.Logger.Info("a certificate was issued", "hostname", hostname)
	return issued, i.noteIssued(ctx, hostname, issued)
}

func (i *issuer) order(ctx context.Context, request *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	account, err := i.account(ctx)
	if err != nil {
		return nil, err
	}
	order, err := acmez.OrderParametersFromCSR(account, request)
	if err != nil {
		return nil, fmt.Errorf("prepare order: %w", err)
	}
	chains, err := i.client.ObtainCertificate(ctx, order)
	if err != nil {
		return nil, fmt.Errorf("order certificate: %w", err)
	}
	if len(chains) == 0 {
		return nil, errors.New("order certificate: the authority gave none")
	}
	return &certmagic.IssuedCertificate{Certificate: chains[0].ChainPEM, Metadata: chains[0]}, nil
}

// noteTime bounds the writing of an order's result, which happens even when no client waits for the
// order any more.
const noteTime = 5 * time.Second

func (i *issuer) noteIssued(ctx context.Context, hostname string, issued *certmagic.IssuedCertificate) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	block, _ := pem.Decode(issued.Certificate)
	if block == nil {
		return errors.New("read issued certificate: it is not PEM")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return fmt.Errorf("read issued certificate: %w", err)
	}
	return i.options.Store.NoteCertificate(ctx, hostname, domains.CertificateState{ValidTo: leaf.NotAfter})
}

func (i *issuer) noteFailed(ctx context.Context, hostname string, before domains.CertificateState, cause error) error {
	if ctx.Err() != nil && errors.Is(cause, context.Canceled) {
		return nil // the process ends
	}
	state := domains.CertificateState{Error: cause.Error(), Failures: before.Failures + 1}
	wait := min(lastWait, firstWait<<min(before.Failures, 20))
	if told, ok := errors.AsType[acme.Problem](cause); ok {
		state.Error = told.Detail
		if told.Type == acme.ProblemTypeRateLimited || told.Status == http.StatusTooManyRequests {
			wait = max(wait, limitedWait)
		}
	}
	state.RetryOn = time.Now().Add(wait)
	i.options.Logger.Warn("a certificate authority gives no certificate", "hostname", hostname, "error", state.Error, "again", state.RetryOn.UTC().Format(time.RFC3339))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	return i.options.Store.NoteCertificate(ctx, hostname, state)
}

// GetRenewalInfo asks the authority when it wants a certificate to be renewed.
func (i *issuer) GetRenewalInfo(ctx context.Context, c certmagic.Certificate) (acme.RenewalInfo, error) {
	return i.client.GetRenewalInfo(ctx, c.Leaf)
}

// account is the account of the installation at the authority.
type account struct {
	Account acme.Account `json:"account"`
	Key     []byte       `json:"key"` // PKCS #8
}

// account returns the account of the installation, which the first process makes.
func (i *issuer) account(ctx context.Context) (acme.Account, error) {
	key := "accounts/" + i.IssuerKey()
	known, err := i.storedAccount(ctx, key)
	if !errors.Is(err, domain.ErrNotFound) {
		return known, err
	}
	if err := i.storage.Lock(ctx, key); err != nil {
		return known, fmt.Errorf("lock account at authority: %w", err)
	}
	defer func() { _ = i.storage.Unlock(ctx, key) }() // an unreleased lock expires by itself
	if known, err := i.storedAccount(ctx, key); !errors.Is(err, domain.ErrNotFound) {
		return known, err
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return known, fmt.Errorf("make key of account: %w", err)
	}
	wanted := acme.Account{TermsOfServiceAgreed: true, PrivateKey: private}
	if i.options.Email != "" {
		wanted.Contact = []string{"mailto:" + i.options.Email}
	}
	made, err := i.client.NewAccount(ctx, wanted)
	if err != nil {
		return known, fmt.Errorf("make account at authority: %w", err)
	}
	return made, i.storeAccount(ctx, key, made, private)
}

func (i *issuer) storeAccount(ctx context.Context, key string, made acme.Account, private *ecdsa.PrivateKey) error {
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return fmt.Errorf("write key of account: %w", err)
	}
	text, err := json.Marshal(account{made, secret})
	if err != nil {
		return fmt.Errorf("write account: %w", err)
	}
	return i.storage.Store(ctx, key, text)
}

func (i *issuer) storedAccount(ctx context.Context, key string) (acme.Account, error) {
	text, _, err := i.options.Store.ACME(ctx, key)
	if err != nil {
		return acme.Account{}, err
	}
	var kept account
	if err := json.Unmarshal(text, &kept); err != nil {
		return acme.Account{}, fmt.Errorf("read account: %w", err)
	}
	private, err := x509.ParsePKCS8PrivateKey(kept.Key)
	if err != nil {
		return acme.Account{}, fmt.Errorf("read key of account: %w", err)
	}
	signer, ok := private.(*ecdsa.PrivateKey)
	if !ok {
		return acme.Account{}, errors.New("read key of account: it is of another kind")
	}
	kept.Account.PrivateKey = signer
	return kept.Account, nil
}
