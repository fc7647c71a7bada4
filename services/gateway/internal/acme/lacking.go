package acme

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"waybill.dev/shared/domain"
)

// lacking knows the custom domains without a certificate. As there may be hundreds of thousands of domains, all are read
// once, and after that only those that have changed.
type lacking struct {
	mu      sync.Mutex
	version int64
	names   map[string]bool
}

// list returns the hostnames that lack a certificate or whose certificate ends soon, in order.
func (l *lacking) list(ctx context.Context, store Store) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed, version, err := store.ServedDomains(ctx, l.version)
	if err != nil {
		return nil, err
	}
	if l.names == nil {
		l.names = make(map[string]bool)
	}
	for i := range changed { // in the order of their changes: a hostname may have passed to another account
		d := &changed[i]
		if d.Removed || d.Uploaded != "" || !d.ValidTo.IsZero() {
			delete(l.names, d.Hostname)
		} else {
			l.names[d.Hostname] = true
		}
	}
	l.version = version
	ending, err := store.CertificatesThatEnd(ctx, time.Now().Add(domain.CertificateRenewalTime))
	if err != nil {
		return nil, err
	}
	list := append(slices.Collect(maps.Keys(l.names)), ending...)
	slices.Sort(list)
	return slices.Compact(list), nil
}

// remove forgets a hostname that has a certificate now.
func (l *lacking) remove(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.names, name)
}
