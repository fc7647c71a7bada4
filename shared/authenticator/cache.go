package authenticator

import (
	"sync"
	"time"

	"waybill.dev/shared/apikey"
)

const (
	// cacheTime is how long a decision about a key is valid if there is no news of a change.
	cacheTime = 60 * time.Second
	// cacheHalf is half of the number of decisions that are kept for existing keys, and for others.
	cacheHalf = 1 << 14
)

// decision is the result of a look-up.
type decision struct {
	principal apikey.Principal
	expiresOn time.Time // zero: never
	known     bool      // false: the key does not exist
	until     time.Time // when the decision ends
}

// isValid reports whether the key is valid now.
func (d *decision) isValid(now time.Time) bool {
	return d.known && (d.expiresOn.IsZero() || now.Before(d.expiresOn))
}

// lookUp is a look-up in progress; done is closed when decision and err are set.
type lookUp struct {
	done     chan struct{}
	decision decision
	err      error
}

// cache keeps decisions by the digests of the keys. Existing keys and others have separate room, so
// that millions of made-up keys don't displace existing ones.
type cache struct {
	mu      sync.Mutex
	hits    cacheHalves
	misses  cacheHalves
	lookUps map[digest]*lookUp
	// generation is how often the cache was cleared. A decision from an earlier generation may be
	// outdated, so it is not kept.
	generation uint64
}

func newCache() *cache { return &cache{lookUps: make(map[digest]*lookUp)} }

// lookUp returns the decision, or the look-up to wait for. If lead is true, the caller must make that
// look-up itself and end it.
func (c *cache) lookUp(d digest, now time.Time) (found decision, f *lookUp, generation uint64, lead bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kind := range []*cacheHalves{&c.hits, &c.misses} {
		if found, ok := kind.get(d); ok && now.Before(found.until) {
			return found, nil, 0, false
		}
	}
	f, ok := c.lookUps[d]
	if !ok {
		f = &lookUp{done: make(chan struct{})}
		c.lookUps[d] = f
	}
	return decision{}, f, c.generation, !ok
}

// endLookUp ends a look-up of a generation: the callers that wait for it get the result in f.
func (c *cache) endLookUp(d digest, f *lookUp, generation uint64) {
	c.mu.Lock()
	if c.lookUps[d] == f {
		delete(c.lookUps, d)
	}
	if f.err == nil && generation == c.generation {
		kind := &c.misses
		if f.decision.known {
			kind = &c.hits
		}
		kind.put(d, f.decision)
	}
	c.mu.Unlock()
	close(f.done)
}

// clear forgets all decisions. The result of a look-up in progress goes only to the callers that
// wait for it already.
func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generation++
	c.hits, c.misses = cacheHalves{}, cacheHalves{}
	clear(c.lookUps)
}

// cacheHalves is a bounded map: when the younger half is full, the older one is dropped. An entry that
// is used moves to the younger half, so it stays.
type cacheHalves struct{ young, old map[digest]decision }

func (h *cacheHalves) get(d digest) (decision, bool) {
	if found, ok := h.young[d]; ok {
		return found, true
	}
	found, ok := h.old[d]
	if ok {
		delete(h.old, d)
		h.put(d, found)
	}
	return found, ok
}

func (h *cacheHalves) put(d digest, found decision) {
	if len(h.young) >= cacheHalf {
		h.young, h.old = nil, h.young
	}
	if h.young == nil {
		h.young = make(map[digest]decision)
	}
	h.young[d] = found
}
