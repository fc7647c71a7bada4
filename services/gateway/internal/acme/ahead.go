package acme

import (
	"context"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"waybill.dev/shared/store/domains"
)

const (
	// aheadEvery is the time between two searches for missing certificates. Each change starts a
	// search, too.
	aheadEvery = time.Minute
	// maxParallelFetches is how many are fetched at a time.
	maxParallelFetches = 4
	// aheadLock is the lock of the process that fetches certificates ahead.
	aheadLock = "ahead"
	// Certificates that have ended stay for keepEnded.
	cleanEvery = 24 * time.Hour
	keepEnded  = 14 * 24 * time.Hour
)

// SearchMissing starts a search for missing certificates. It does not wait.
func (a *Authority) SearchMissing() { a.changes.Give() }

// Run fetches certificates before clients ask for them, and renews them, until ctx ends. One
// process fetches ahead. Each process renews the certificates in its memory, and locks see to it
// that each is renewed once.
func (a *Authority) Run(ctx context.Context) error {
	defer a.stop()
	ticker := time.NewTicker(min(aheadEvery, domains.LockRenewal))
	defer ticker.Stop()
	var last time.Time
	for {
		leads, err := a.options.Store.LockACME(ctx, aheadLock, a.storage.owner)
		changed := false
		select {
		case <-a.changes:
			changed = true
		default:
		}
		if changed {
			a.forgetUnwanted()
		}
		if err == nil && leads && (changed || time.Since(last) >= aheadEvery) {
			last = time.Now()
			a.fetchMissing(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-a.changes:
			a.SearchMissing() // for the next round
		}
	}
}

// stop ends the orders that are under way.
func (a *Authority) stop() {
	a.end()
	a.cache.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), unlockTime)
	defer cancel()
	_ = a.options.Store.UnlockACME(ctx, aheadLock, a.storage.owner) // an unreleased lock expires by itself
}

// fetchMissing fetches the missing certificates, and loads those that end soon into memory, where they are
// renewed.
func (a *Authority) fetchMissing(ctx context.Context) {
	wanted, err := a.lacking.list(ctx, a.options.Store)
	if err != nil {
		a.options.Logger.Warn("it can't be read which certificates are missing; trying again", "error", err)
		return
	}
	names := make(chan string)
	var fetching sync.WaitGroup
	for range min(maxParallelFetches, len(wanted)) {
		fetching.Go(func() {
			for name := range names {
				if _, err, _ := a.flights.Do(name, func() (any, error) { return a.obtain(name) }); err == nil {
					a.lacking.remove(name)
				} // a failure is noted, and the order is tried again
			}
		})
	}
	for _, name := range wanted {
		if a.options.Wanted(name) && a.cached(name, time.Now()) == nil && ctx.Err() == nil {
			names <- name
		}
	}
	close(names)
	fetching.Wait()
	err = certmagic.CleanStorage(ctx, a.storage, certmagic.CleanStorageOptions{
		Logger: zap.NewNop(), Interval: cleanEvery, OCSPStaples: true, ExpiredCerts: true, ExpiredCertGracePeriod: keepEnded,
	})
	if err != nil && ctx.Err() == nil {
		a.options.Logger.Warn("certificates that have ended could not be removed", "error", err)
	}
}

// forgetUnwanted removes certificates that are no longer wanted from memory.
func (a *Authority) forgetUnwanted() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.failed)
	var gone []certmagic.SubjectIssuer
	for name := range a.known {
		if !a.options.Wanted(name) {
			delete(a.known, name)
			gone = append(gone, certmagic.SubjectIssuer{Subject: name})
		}
	}
	if len(gone) > 0 {
		a.cache.RemoveManaged(gone)
	}
}
