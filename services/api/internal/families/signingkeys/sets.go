package signingkeys

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

// The key sets are public, so their cost is bounded: each is cached for setsFresh, at most maxSets
// are cached, and at most maxReads a second are read from the database.
const (
	setsFresh = 5 * time.Second
	maxSets   = 1000
	maxReads  = 200
)

// cached is how long receivers may keep a key set: less than any overlap that makes sense.
const cached = "public, max-age=300"

// sets are the key sets that were requested recently.
type sets struct {
	store interface {
		SigningKeys(ctx context.Context, account string) ([]domain.SigningKey, error)
	}
	mu     sync.Mutex
	known  map[string]keySet
	second time.Time // the second for which reads are counted
	reads  int
}

type keySet struct {
	body []byte
	at   time.Time
}

func newSets(store Store) *sets { return &sets{store: store, known: make(map[string]keySet)} }

// set answers every name in the same way: a caller that guesses names can't distinguish an account
// without keys from an account that does not exist.
func (h *handlers) set(c *web.Call) error {
	account := c.Param("account")
	if err := c.Check(); err != nil {
		return err
	}
	body, err := h.sets.of(c.Context(), account, time.Now())
	if err != nil {
		return err
	}
	header := c.Writer.Header()
	header.Set("Cache-Control", cached)
	header.Set("Access-Control-Allow-Origin", "*")
	c.Write(http.StatusOK, "application/jwk-set+json", body)
	return nil
}

// of returns an account's key set. When there are too many reads, it returns an older one.
func (s *sets) of(ctx context.Context, account string, now time.Time) ([]byte, error) {
	s.mu.Lock()
	known, ok := s.known[account]
	if ok && now.Sub(known.at) < setsFresh {
		s.mu.Unlock()
		return known.body, nil
	}
	if now.Sub(s.second) >= time.Second {
		s.second, s.reads = now, 0
	}
	s.reads++
	full := s.reads > maxReads
	s.mu.Unlock()
	switch {
	case full && ok:
		return known.body, nil
	case full:
		return nil, web.TooMany(time.Second, "Too many key sets are asked for.")
	}
	keys, err := s.store.SigningKeys(ctx, account)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(struct {
		Keys []jwk `json:"keys"`
	}{web.Views(keys, viewJWK)})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxSets {
		clear(s.known)
	}
	s.known[account] = keySet{body, now}
	return body, nil
}

// forget makes the next request read the set again.
func (s *sets) forget(account string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, account)
}
