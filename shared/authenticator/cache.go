package authenticator

import (
	"sync"
	"time"

	"waybill.dev/shared/apikey"
)

const (
	// cacheTime is how long a decision about a key holds where no news of a change arrive.
	cacheTime = 60 * time.Second
	// cacheHalf is half of how many decisions are kept of either kind.
	cacheHalf = 1 << 14
)

// decision is what is known of a key.
type decision struct {
	principal apikey.Principal
	expiresOn time.Time // zero: never
	known     bool      // false: there is no such key
	until     time.Time // the decision's own end
}

// opens reports whether the key opens anything now.
func (d *decision) opens(now time.Time) bool {
	return d.known && (d.expiresOn.IsZero() || now.Before(d.expiresOn))
}

// lookUp is a look-up under way; done is closed when decision and err are there.
type lookUp struct {
	done     chan struct{}
	decision decision
	err      error
}

// cache keeps decisions by the digests of the keys. Keys that there are and keys that
// there are not have room of their own: who tries keys by the million displaces nobody's.
type cache struct {
	mu      sync.Mutex
	hits    halves
	misses  halves
	lookUps map[digest]*lookUp
	// generation is how often the cache was cleared. What was looked up in an earlier one
	// may be outdated, so it is not kept.
	generation uint64
}

func newCache() *cache { return &cache{lookUps: make(map[digest]*lookUp)} }

// find returns the decision, or the look-up to wait for. With lead the caller must make
// that look-up itself and end it.
func (c *cache) find(d digest, now time.Time) (found decision, f *lookUp, generation uint64, lead bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kind := range []*halves{&c.hits, &c.misses} {
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

// end ends a look-up of that generation: those who wait for it have what f says.
func (c *cache) end(d digest, f *lookUp, generation uint64) {
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

// clear forgets everything. Look-ups under way end for those who wait for them already,
// and for nobody else.
func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generation++
	c.hits, c.misses = halves{}, halves{}
	clear(c.lookUps)
}

// halves is a bounded map: when the younger half is full, the older one is dropped. What
// is in use moves to the younger one, so it stays.
type halves struct{ young, old map[digest]decision }

func (h *halves) get(d digest) (decision, bool) {
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

func (h *halves) put(d digest, found decision) {
	if len(h.young) >= cacheHalf {
		h.young, h.old = nil, h.young
	}
	if h.young == nil {
		h.young = make(map[digest]decision)
	}
	h.young[d] = found
}
