package acme

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"waybill.dev/shared/store/domains"
)

// shelf keeps values and locks in memory.
type shelf struct {
	Store

	mu     sync.Mutex
	away   bool
	owner  map[string]string
	values map[string]string
}

func (s *shelf) PutACME(_ context.Context, key string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[key] = string(value)
	return nil
}

func (s *shelf) LockACME(_ context.Context, name, owner string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return false, errors.New("away")
	}
	if had := s.owner[name]; had != "" && had != owner {
		return false, nil
	}
	s.owner[name] = owner
	return true, nil
}

func (s *shelf) UnlockACME(_ context.Context, name, owner string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owner[name] == owner {
		delete(s.owner, name)
	}
	return nil
}

func (s *shelf) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// Who has lost a lock stores nothing of what it was for, and does not give back what another has.
func TestLostLock(t *testing.T) {
	t.Parallel()
	const lock, key, other = "issue_cert_shop.example.org", "certificates/ca/shop.example.org/shop.example.org.crt", "certificates/ca/shop.example.com/shop.example.com.crt"
	for name, c := range map[string]struct {
		lose func(*shelf)
		lost bool
	}{
		"another has it":         {func(s *shelf) { s.owner[lock] = "other" }, true},
		"the database was away":  {func(s *shelf) { s.away = true }, true},
		"it was renewed in time": {func(*shelf) {}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			kept := &shelf{owner: map[string]string{}, values: map[string]string{}}
			s := newStorage(kept, "me")
			if err := s.Lock(t.Context(), lock); err != nil {
				t.Fatal(err)
			}
			kept.set(func() { c.lose(kept) })
			<-time.After(domains.LockTime + domains.LockRenewal)
			kept.set(func() { kept.away = false })
			synctest.Wait()
			if err := s.Store(t.Context(), key, []byte("x")); errors.Is(err, errLost) != c.lost || len(kept.values) != 0 == c.lost {
				t.Errorf("%s: stored %v, %v", name, kept.values, err)
			}
			if err := s.Store(t.Context(), other, []byte("x")); err != nil {
				t.Errorf("%s: what the lock is not for: %v", name, err)
			}
			if err := s.Unlock(t.Context(), lock); errors.Is(err, errLost) != c.lost {
				t.Errorf("%s: unlocked: %v", name, err)
			}
			if had := kept.owner[lock]; had == "me" || name == "another has it" && had != "other" {
				t.Errorf("%s: then it is of %q", name, had)
			}
			kept.set(func() { clear(kept.owner) })
			if err := errors.Join(s.Lock(t.Context(), lock), s.Store(t.Context(), key, nil), s.Unlock(t.Context(), lock)); err != nil {
				t.Errorf("%s: the next time: %v", name, err)
			}
		})
	}
}
