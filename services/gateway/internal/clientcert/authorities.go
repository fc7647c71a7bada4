// Package clientcert judges the certificates that clients show in the TLS handshake. Each verdict
// is for one request: a CA that an account has deleted lets no caller in any more, even on a
// connection that is already open.
package clientcert

import (
	"context"
	"crypto/x509"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"waybill.dev/services/gateway/internal/follow"
	"waybill.dev/shared/signal"
	"waybill.dev/shared/store/clientcas"
)

// readTime bounds a reading of changes.
const readTime = 5 * time.Second

// Store has CA certificates.
type Store interface {
	ServedClientCAs(ctx context.Context, since int64) ([]clientcas.ServedCA, int64, error)
}

// Authorities knows the CAs of all accounts.
type Authorities struct {
	store  Store
	bus    follow.Bus
	logger *slog.Logger
	nudges signal.Signal
	// byAccount is replaced at each change; nil: nothing was read yet.
	byAccount atomic.Pointer[map[string]*set]

	mu    sync.Mutex // held while changes are read; guards the fields below
	place follow.Place
	byID  map[string]authority
}

// authority is one CA certificate.
type authority struct {
	account     string
	certificate *x509.Certificate
}

// New returns one that knows nothing before Run.
func New(store Store, b follow.Bus, logger *slog.Logger) *Authorities {
	return &Authorities{store: store, bus: b, logger: logger, nudges: signal.New(), byID: make(map[string]authority)}
}

// Ready reports whether the CAs were read.
func (a *Authorities) Ready() bool { return a.byAccount.Load() != nil }

// Run follows changes until ctx ends.
func (a *Authorities) Run(ctx context.Context) error {
	return follow.Follower{
		Bus: a.bus, Nudges: a.nudges, Update: a.Update, Logger: a.logger, Fails: "it can't be read which CA certificates there are; what is known goes on",
	}.Run(ctx)
}

// Update reads the changes and applies them.
func (a *Authorities) Update(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	a.mu.Lock()
	defer a.mu.Unlock()
	changes, all, err := follow.Read(ctx, &a.place, a.store.ServedClientCAs)
	if err != nil {
		return err
	}
	a.apply(changes, all)
	return nil
}

// apply applies changes; all says that they are the complete list. a.mu is held.
func (a *Authorities) apply(changes []clientcas.ServedCA, all bool) {
	changed := make(map[string]bool)
	if all {
		for _, before := range a.byID {
			changed[before.account] = true
		}
		clear(a.byID)
	}
	for _, c := range changes {
		changed[c.Account] = true
		delete(a.byID, c.ID)
		if c.Removed {
			continue
		}
		read, err := x509.ParseCertificate(c.Certificate)
		if err != nil {
			a.logger.Error("a CA certificate can't be read; its clients are refused", "id", c.ID, "error", err)
			continue
		}
		a.byID[c.ID] = authority{c.Account, read}
	}
	if len(changed) > 0 || !a.Ready() {
		a.rebuildSets(changed)
	}
}

// rebuildSets rebuilds the sets of some accounts. a.mu is held.
func (a *Authorities) rebuildSets(changed map[string]bool) {
	of := make(map[string][]*x509.Certificate)
	for _, one := range a.byID {
		if changed[one.account] {
			of[one.account] = append(of[one.account], one.certificate)
		}
	}
	after := make(map[string]*set)
	if before := a.byAccount.Load(); before != nil {
		for account, s := range *before {
			if !changed[account] {
				after[account] = s
			}
		}
	}
	for account, list := range of {
		after[account] = newSet(list)
	}
	a.byAccount.Store(&after)
}

// setOf returns the CAs of an account; nil: the account has none. It returns false when the CAs have
// not been read yet.
func (a *Authorities) setOf(account string) (*set, bool) {
	known := a.byAccount.Load()
	if known == nil {
		return nil, false
	}
	return (*known)[account], true
}

// Asked reports whether clients of the account's hosts are asked for a certificate, and returns the
// CAs that may have issued it; nil: any.
func (a *Authorities) Asked(account string) (names *x509.CertPool, asked bool) {
	s, known := a.setOf(account)
	switch {
	case account == "":
		return nil, false
	case !known:
		return nil, true
	case s == nil:
		return nil, false
	}
	return s.names, true
}
