// Package authenticator finds the holders of API keys. It asks the database at most once a minute
// for each key, and receives changes of keys over the bus.
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

// Purpose is the purpose for which the peppers of API keys are derived. With another one, no
// existing key would be found.
const Purpose = "api keys"

const (
	// lookUpTime bounds a look-up; it ends before the request times out.
	lookUpTime = 1500 * time.Millisecond
	// lookUps is how many look-ups run at a time: made-up keys must not take all connections to the
	// database from callers with valid keys.
	lookUps = 8
)

// digest is used in place of a key where the key itself must not be kept.
type digest [sha256.Size]byte

// Store looks keys up.
type Store interface {
	// FindKey returns the holder of the key with one of the hashes, and the index of that hash. It
	// fails with domain.ErrNotFound, or with an error that wraps domain.ErrUnavailable.
	FindKey(ctx context.Context, hashes [][]byte) (domain.KeyHolder, int, error)
}

// Bus brings the changes that other processes make.
type Bus interface {
	Listen(subject string, handle func(body []byte)) (stop func(), err error)
	Reconnects() (c <-chan struct{}, stop func())
	Sync(ctx context.Context) error
}

// Options of an Authenticator; all but Announce and Rehash are required.
type Options struct {
	Store   Store
	Bus     Bus
	Peppers [][]byte // the first one hashes new keys; keys are found by all of them
	Logger  *slog.Logger
	// Announce tells other processes of a change; nil: this process changes no keys.
	Announce func(subject string, body []byte)
	// Rehash stores the hash by the first pepper for a key that was found by another one; nil: keys
	// keep their hash.
	Rehash func(ctx context.Context, keyID string, hash []byte) error
}

// Authenticator finds callers by the keys in the store. It keeps a decision for at most a minute.
// When any key changes, it drops all decisions: at once in the process that made the change, and in
// the other processes when the bus tells them.
type Authenticator struct {
	*Hasher

	options Options
	cache   *cache
	slots   chan struct{} // one for each look-up in progress
	// name distinguishes this process's own announcements from those of others.
	name string
}

// New returns an authenticator. It receives changes of other processes while Run runs.
func New(o Options) (*Authenticator, error) {
	hasher, err := NewHasher(o.Peppers)
	if err != nil {
		return nil, err
	}
	return &Authenticator{Hasher: hasher, options: o, cache: newCache(), slots: make(chan struct{}, lookUps), name: uuid.NewString()}, nil
}

// Authenticate returns the holder of a key.
func (k *Authenticator) Authenticate(ctx context.Context, key string) (apikey.Principal, error) {
	if !WellFormed(key) {
		return apikey.Principal{}, apikey.ErrUnauthenticated
	}
	d := digest(sha256.Sum256([]byte(key)))
	now := time.Now()
	found, f, generation, lead := k.cache.lookUp(d, now)
	if f != nil {
		if lead {
			// The look-up goes on when this caller is gone, because others may wait for it.
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
	if !found.isValid(time.Now()) {
		return apikey.Principal{}, apikey.ErrUnauthenticated
	}
	return found.principal, nil
}

// lookUp asks the store and ends the look-up.
func (k *Authenticator) lookUp(ctx context.Context, key string, d digest, f *lookUp, generation uint64) {
	ctx, cancel := context.WithTimeout(ctx, lookUpTime)
	defer cancel()
	hashes := k.Hashes(key)
	found, which, err := k.readStore(ctx, hashes)
	f.decision, f.err = found, err
	k.cache.endLookUp(d, f, generation)
	if err != nil || !found.known || which == 0 || k.options.Rehash == nil {
		return
	}
	// From now on the key is found by the first pepper. If this fails, the next look-up tries again.
	if err := k.options.Rehash(ctx, found.principal.KeyID, hashes[0]); err != nil && !errors.Is(err, domain.ErrNotFound) {
		k.options.Logger.Debug("a key was not hashed anew", "keyId", found.principal.KeyID, "error", err)
	}
}

// readStore reads from the store. The age of a decision counts from the time of the question.
func (k *Authenticator) readStore(ctx context.Context, hashes [][]byte) (found decision, which int, err error) {
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

// PrincipalOf returns the principal of a key's holder.
func PrincipalOf(h domain.KeyHolder) apikey.Principal {
	return apikey.Principal{
		Account: h.Account, ID: h.Bucket + "/" + h.Consumer, Type: apikey.TypeKey,
		KeyID: h.KeyID, Bucket: h.Bucket, Consumer: h.Consumer, Scopes: h.Scopes,
		BucketID: h.BucketID, ConsumerID: h.ConsumerID,
	}
}

// InvalidateKeys must be called after each change of accounts, buckets, consumers or keys, before the
// change is answered, and also when its result is unknown. It drops all earlier decisions in this
// process, and tells the other processes.
func (k *Authenticator) InvalidateKeys(context.Context) {
	k.cache.clear()
	k.announce()
}

func (k *Authenticator) announce() {
	if k.options.Announce != nil {
		k.options.Announce(bus.SubjectKeys, []byte(k.name))
	}
}

// Run receives the changes of other processes until ctx ends.
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
		// Until now no change was received. A change that is announced before the server knows of
		// the subscription is not received either, so the cache is cleared once more after that.
		k.cache.clear()
		if k.options.Bus.Sync(ctx) == nil {
			k.cache.clear()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-reconnects:
			// The other processes have not heard of changes made here in that time either.
			k.announce()
		}
	}
}
