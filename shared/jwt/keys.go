package jwt

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"sync"
	"time"
)

const (
	// freshTime is how long keys are used until they are read again, in the background.
	freshTime = 10 * time.Minute
	// staleTime is how long keys are used while they can't be read again.
	staleTime = 24 * time.Hour
	// askEvery is the shortest time between two requests to an issuer, however many tokens name unknown
	// keys; failedEvery is the same while the issuer does not answer.
	askEvery, failedEvery = 30 * time.Second, 5 * time.Second
	// askTime bounds one reading.
	askTime = 5 * time.Second
)

// Keys are the keys of an issuer. They are read when the first token comes.
type Keys struct {
	source Source

	mu        sync.Mutex
	knownKeys []key
	read      time.Time     // when known was read; zero: never
	askedAt   time.Time     // when the issuer was last asked
	asking    chan struct{} // closed when the request in progress is answered; nil: there is none
	failed    error         // the error of the last request
}

// NewKeys returns the keys of a source.
func NewKeys(source Source) *Keys { return &Keys{source: source} }

// find returns the keys with an id, which may be empty, that fit an algorithm. If the id is unknown, the issuer is
// asked, because the key may be new.
func (k *Keys) find(ctx context.Context, id, algorithm string) ([]crypto.PublicKey, error) {
	k.mu.Lock()
	found, now := k.fittingKeys(id, algorithm), time.Now()
	if len(found) > 0 {
		if now.Sub(k.read) >= freshTime {
			k.readKeys(ctx, now)
		}
		k.mu.Unlock()
		return found, nil
	}
	asking := k.readKeys(ctx, now)
	k.mu.Unlock()
	if asking != nil {
		select {
		case <-asking:
		case <-ctx.Done():
			return nil, unavailable(ctx.Err())
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	found = k.fittingKeys(id, algorithm)
	switch {
	case len(found) > 0:
		return found, nil
	case k.failed != nil:
		return nil, unavailable(k.failed)
	}
	return nil, errKey
}

// fittingKeys returns the known keys with which a token may be signed. k.mu is held.
func (k *Keys) fittingKeys(id, algorithm string) (found []crypto.PublicKey) {
	if time.Since(k.read) >= staleTime {
		return nil
	}
	for _, of := range k.knownKeys {
		if (id == "" || id == of.id) && (of.algorithm == "" || of.algorithm == algorithm) && fits(of.public, algorithm) {
			found = append(found, of.public)
		}
	}
	return found
}

// readKeys reads the keys, unless that was done a moment ago. It returns a channel that is closed when the reading has
// ended; nil: it is too early. k.mu is held.
func (k *Keys) readKeys(ctx context.Context, now time.Time) chan struct{} {
	pause := askEvery
	if k.failed != nil {
		pause = failedEvery
	}
	if k.asking != nil || now.Sub(k.askedAt) < pause {
		return k.asking
	}
	asking := make(chan struct{})
	k.asking, k.askedAt = asking, now
	// The reading goes on when this caller is gone, because others wait for it, too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime)
	go func() {
		defer cancel()
		known, err := k.source.read(ctx)
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.failed = err; err == nil {
			k.knownKeys, k.read = known, time.Now()
		}
		k.asking = nil
		close(asking)
	}()
	return asking
}

// Bounds of the modulus of RSA keys, in bits: shorter ones are weak, longer ones cost much.
const minRSA, maxRSA = 2048, 8192

// fits reports whether a key can be used with the algorithm.
func fits(public crypto.PublicKey, algorithm string) bool {
	switch public := public.(type) {
	case *rsa.PublicKey:
		bits := public.N.BitLen()
		return (algorithm[:2] == "RS" || algorithm[:2] == "PS") && bits >= minRSA && bits <= maxRSA
	case *ecdsa.PublicKey:
		return algorithm == "ES256" && public.Curve == elliptic.P256() || algorithm == "ES384" && public.Curve == elliptic.P384() ||
			algorithm == "ES512" && public.Curve == elliptic.P521()
	case ed25519.PublicKey:
		return algorithm == "EdDSA"
	}
	return false
}
