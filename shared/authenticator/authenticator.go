// Package authenticator finds out whose API key it is. It asks the database once a minute
// for each key at most, and hears on the bus when keys change.
package authenticator

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"waybill.dev/shared/apikey"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
)

// Purpose is what the peppers of API keys are derived for. With another one, no key that
// there is would be found.
const Purpose = "api keys"

const (
	// lookUpTime bounds a look-up; it ends before a request's own time does.
	lookUpTime = 1500 * time.Millisecond
	// lookUps is how many of them run at a time: made-up keys must not take all of the
	// database's connections from those who have one.
	lookUps = 8
)

// digest stands for a key where the key itself must not be.
type digest [sha256.Size]byte

// Store is where keys are looked up.
type Store interface {
	// FindKey returns the holder of the key that one of the hashes is of, and which one. It
	// fails with domain.ErrNotFound, or with an error that wraps domain.ErrUnavailable.
	FindKey(ctx context.Context, hashes [][]byte) (domain.KeyHolder, int, error)
}

// Bus is how processes hear of changes that others make.
type Bus interface {
	Listen(subject string, handle func(body []byte)) (stop func(), err error)
	Reconnects() (c <-chan struct{}, stop func())
	Sync(ctx context.Context) error
}

// Options of an Authenticator; all but Announce and Rehash are required.
type Options struct {
	Store   Store
	Bus     Bus
	Peppers [][]byte // the first one hashes, all of them find
	Logger  *slog.Logger
	// Announce tells other processes of a change; nil: this process changes no keys.
	Announce func(subject string, body []byte)
	// Rehash gives a key that was found by an older pepper the hash of today; nil: it keeps
	// the one that it has.
	Rehash func(ctx context.Context, keyID string, hash []byte) error
}

// Authenticator knows callers by the keys in the store. It keeps a decision for a minute at
// most. When any key changes, it drops all decisions: at once in the process that made the
// change, and in the other processes when the bus tells them.
type Authenticator struct {
	*Hasher

	options Options
	cache   *cache
	slots   chan struct{} // one for each look-up under way
	// name tells this process's own announcements from those of others.
	name string
}

// New returns an authenticator. News of others' changes come while Run runs.
func New(o Options) (*Authenticator, error) {
	hasher, err := NewHasher(o.Peppers)
	if err != nil {
		return nil, err
	}
	return &Authenticator{Hasher: hasher, options: o, cache: newCache(), slots: make(chan struct{}, lookUps), name: uuid.NewString()}, nil
}

// Authenticate finds out whose key it is.
func (k *Authenticator) Authenticate(ctx context.Context, key string) (apikey.Principal, error) {
	if !WellFormed(key) {
		return apikey.Principal{}, apikey.ErrUnauthenticated
	}
	d := digest(sha256.Sum256([]byte(key)))
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
func (k *Authenticator) lookUp(ctx context.Context, key string, d digest, f *lookUp, generation uint64) {
	ctx, cancel := context.WithTimeout(ctx, lookUpTime)
	defer cancel()
	hashes := k.Hashes(key)
	found, which, err := k.ask(ctx, hashes)
	f.decision, f.err = found, err
	k.cache.end(d, f, generation)
	if err != nil || !found.known || which == 0 || k.options.Rehash == nil {
		return
	}
	// From now on it is found under the pepper of today. If this fails, the next look-up
	// tries it again.
	if err := k.options.Rehash(ctx, found.principal.KeyID, hashes[0]); err != nil && !errors.Is(err, domain.ErrNotFound) {
		k.options.Logger.Debug("a key was not hashed anew", "keyId", found.principal.KeyID, "error", err)
	}
}

// ask reads from the store. A decision is as old as the question.
func (k *Authenticator) ask(ctx context.Context, hashes [][]byte) (found decision, which int, err error) {
	select {
	case k.slots <- struct{}{}:
		defer func() { <-k.slots }()
	case <-ctx.Done():
		return decision{}, 0, fmt.Errorf("look a key up: %w: %w", domain.ErrUnavailable, ctx.Err())
	}
	until := time.Now().Add(cacheTime)
	holder, which, err := k.options.Store.FindKey(ctx, hashes)
	switch {
	case errors.Is(err, domain.ErrNotFound):
		return decision{until: until}, 0, nil
	case err != nil:
		return decision{}, 0, fmt.Errorf("look a key up: %w", err)
	}
	return decision{principal: PrincipalOf(holder), expiresOn: holder.ExpiresOn, known: true, until: until}, which, nil
}

// PrincipalOf returns what a key stands for.
func PrincipalOf(h domain.KeyHolder) apikey.Principal {
	return apikey.Principal{
		Account: h.Account, ID: h.Bucket + "/" + h.Consumer, Type: apikey.TypeKey,
		KeyID: h.KeyID, Bucket: h.Bucket, Consumer: h.Consumer, Scopes: h.Scopes,
		BucketID: h.BucketID, ConsumerID: h.ConsumerID,
	}
}

// Changed must be called after each change of accounts, buckets, consumers or keys, before
// it is answered, and also when it is not known whether the change came about. From then on
// no decision of before holds in this process; the others are told.
func (k *Authenticator) Changed(context.Context) {
	k.cache.clear()
	k.announce()
}

func (k *Authenticator) announce() {
	if k.options.Announce != nil {
		k.options.Announce(bus.SubjectKeys, []byte(k.name))
	}
}

// Run hears of the changes that other processes make until ctx ends.
func (k *Authenticator) Run(ctx context.Context) error {
	reconnects, stop := k.options.Bus.Reconnects()
	defer stop()
	unlisten, err := k.options.Bus.Listen(bus.SubjectKeys, func(body []byte) {
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
		if k.options.Bus.Sync(ctx) == nil {
			k.cache.clear()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-reconnects:
			// Neither have the others heard of what was changed here meanwhile.
			k.announce()
		}
	}
}
