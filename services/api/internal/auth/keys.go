package auth

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"waybill.dev/shared/apikey"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
)

const (
	// lookUpTime bounds a look-up; it ends before a request's own time does.
	lookUpTime = 1500 * time.Millisecond
	// lookUps is how many of them run at a time: made-up keys must not take all of the
	// database's connections from those who have one.
	lookUps = 8
)

// Store is where keys are looked up.
type Store interface {
	// FindKey returns the holder of the key that one of the hashes is of, and which one. It
	// fails with domain.ErrNotFound, or with an error that wraps domain.ErrUnavailable.
	FindKey(ctx context.Context, hashes [][]byte) (domain.KeyHolder, int, error)
	RehashKey(ctx context.Context, keyID string, hash []byte) error
}

// Bus is how processes tell each other of changes.
type Bus interface {
	Announce(subject string, body []byte)
	Listen(subject string, handle func(body []byte)) (stop func(), err error)
	Reconnects() (c <-chan struct{}, stop func())
	Sync(ctx context.Context) error
}

// Options of Keys; all but Bootstrap are required.
type Options struct {
	Store     Store
	Bus       Bus
	Peppers   [][]byte // the first one hashes, all of them find
	Bootstrap domain.Secret
	Logger    *slog.Logger
}

// Keys authenticates callers by the bootstrap key and by the keys in the store. A decision
// is kept for a minute at most, and dropped as soon as a change of any key is known: at
// once in the process that makes it, on the bus' news in the others.
type Keys struct {
	*Hasher

	bootstrap bootstrap
	cache     *cache
	store     Store
	bus       Bus
	log       *slog.Logger
	slots     chan struct{} // one for each look-up under way
	// name tells this process's own announcements from those of others.
	name string
}

// NewKeys returns the authenticator. News of others' changes come while Run runs.
func NewKeys(o Options) (*Keys, error) {
	hasher, err := NewHasher(o.Peppers)
	if err != nil {
		return nil, err
	}
	first, err := newBootstrap(o.Bootstrap)
	if err != nil {
		return nil, err
	}
	return &Keys{
		Hasher: hasher, bootstrap: first, cache: newCache(), store: o.Store, bus: o.Bus, log: o.Logger,
		slots: make(chan struct{}, lookUps), name: uuid.NewString(),
	}, nil
}

// Authenticate finds out whose key it is.
func (k *Keys) Authenticate(ctx context.Context, key string) (apikey.Principal, error) {
	d := digestOf(key)
	if k.bootstrap.is(d) {
		return k.bootstrap.principal(), nil
	}
	if !WellFormed(key) {
		return apikey.Principal{}, apikey.ErrUnauthenticated
	}
	now := time.Now()
	found, f, generation, lead := k.cache.find(d, now)
	if f != nil {
		if lead {
			// It goes on when this caller is gone: others wait for it, too.
			go k.lookUp(context.WithoutCancel(ctx), key, d, f, generation)
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return apikey.Principal{}, fmt.Errorf("look a key up: %w: %w", domain.ErrUnavailable, ctx.Err())
		}
		if f.err != nil {
			return apikey.Principal{}, f.err
		}
		found = f.decision
	}
	if !found.opens(time.Now()) {
		return apikey.Principal{}, apikey.ErrUnauthenticated
	}
	return found.principal, nil
}

// lookUp asks the store and ends the look-up.
func (k *Keys) lookUp(ctx context.Context, key string, d digest, f *lookUp, generation uint64) {
	ctx, cancel := context.WithTimeout(ctx, lookUpTime)
	defer cancel()
	hashes := k.hashes(key)
	found, which, err := k.ask(ctx, hashes)
	f.decision, f.err = found, err
	k.cache.end(d, f, generation)
	if err != nil || !found.known || which == 0 {
		return
	}
	// From now on it is found under the pepper of today. If this fails, the next look-up
	// tries it again.
	if err := k.store.RehashKey(ctx, found.principal.KeyID, hashes[0]); err != nil && !errors.Is(err, domain.ErrNotFound) {
		k.log.Debug("a key was not hashed anew", "keyId", found.principal.KeyID, "error", err)
	}
}

// ask reads from the store. A decision is as old as the question.
func (k *Keys) ask(ctx context.Context, hashes [][]byte) (found decision, which int, err error) {
	select {
	case k.slots <- struct{}{}:
		defer func() { <-k.slots }()
	case <-ctx.Done():
		return decision{}, 0, fmt.Errorf("look a key up: %w: %w", domain.ErrUnavailable, ctx.Err())
	}
	until := time.Now().Add(cacheTime)
	holder, which, err := k.store.FindKey(ctx, hashes)
	switch {
	case errors.Is(err, domain.ErrNotFound):
		return decision{until: until}, 0, nil
	case err != nil:
		return decision{}, 0, fmt.Errorf("look a key up: %w", err)
	}
	return decision{principal: PrincipalOf(holder), expiresOn: holder.ExpiresOn, known: true, until: until}, which, nil
}

// Bootstrap returns what the bootstrap key stands for, and a proof of the key by which Holds
// tells whether it is still the same one. ok is false when there is none.
func (k *Keys) Bootstrap() (p apikey.Principal, proof string, ok bool) {
	if k.bootstrap == (bootstrap{}) {
		return apikey.Principal{}, "", false
	}
	return k.bootstrap.principal(), hex.EncodeToString(hash(k.peppers[0], string(k.bootstrap[:]))), true
}

// Holds tells whether the bootstrap key is the one that the proof is of, under any pepper.
func (k *Keys) Holds(proof string) bool {
	if k.bootstrap == (bootstrap{}) {
		return false
	}
	for _, known := range k.hashes(string(k.bootstrap[:])) {
		if subtle.ConstantTimeCompare([]byte(hex.EncodeToString(known)), []byte(proof)) == 1 {
			return true
		}
	}
	return false
}

// PrincipalOf returns what a key stands for.
func PrincipalOf(h domain.KeyHolder) apikey.Principal {
	return apikey.Principal{
		Account: h.Account, ID: h.Bucket + "/" + h.Consumer, Type: apikey.TypeKey,
		KeyID: h.KeyID, Bucket: h.Bucket, Consumer: h.Consumer, Scopes: h.Scopes,
	}
}

// Changed must be called after each change of accounts, buckets, consumers or keys, before
// it is answered, and also when it is not known whether the change came about. From then on
// no decision of before holds in this process; the others are told.
func (k *Keys) Changed(context.Context) {
	k.cache.clear()
	k.bus.Announce(bus.SubjectKeys, []byte(k.name))
}

// Run hears of the changes that other processes make until ctx ends.
func (k *Keys) Run(ctx context.Context) error {
	reconnects, stop := k.bus.Reconnects()
	defer stop()
	unlisten, err := k.bus.Listen(bus.SubjectKeys, func(body []byte) {
		if string(body) != k.name {
			k.cache.clear()
		}
	})
	if err != nil {
		return fmt.Errorf("hear of changed keys: %w", err)
	}
	defer unlisten()
	for {
		// Nothing was heard until now. What is announced before the server knows of the
		// subscription is not heard either, so it is cleared once more when it does.
		k.cache.clear()
		if k.bus.Sync(ctx) == nil {
			k.cache.clear()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-reconnects:
			// Neither have the others heard of what was changed here meanwhile.
			k.bus.Announce(bus.SubjectKeys, []byte(k.name))
		}
	}
}
