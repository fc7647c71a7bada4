package authenticator_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"waybill.dev/shared/apikey"
	"waybill.dev/shared/authenticator"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/seal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shelf stands in for the store where time is made up: it has keys by their hashes. What
// the store itself does with keys is tested with the store.
type shelf struct {
	mu       sync.Mutex
	holders  map[string]domain.KeyHolder
	lookUps  int
	rehashed []string
	err      error
	takes    time.Duration
}

func (s *shelf) put(k domain.APIKey, h domain.KeyHolder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holders == nil {
		s.holders = map[string]domain.KeyHolder{}
	}
	s.holders[string(k.Hash)] = h
}

func (s *shelf) remove(k domain.APIKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.holders, string(k.Hash))
}

func (s *shelf) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *shelf) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lookUps
}

// FindKey reads first and takes its time afterwards, as a slow answer does.
func (s *shelf) FindKey(ctx context.Context, hashes [][]byte) (domain.KeyHolder, int, error) {
	s.mu.Lock()
	s.lookUps++
	err, takes := s.err, s.takes
	var found domain.KeyHolder
	which := -1
	for i, hash := range hashes {
		if h, ok := s.holders[string(hash)]; ok && which < 0 {
			found, which = h, i
		}
	}
	s.mu.Unlock()
	if takes > 0 {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return found, 0, fmt.Errorf("find key: %w: %w", domain.ErrUnavailable, ctx.Err())
		}
	}
	switch {
	case err != nil:
		return domain.KeyHolder{}, 0, err
	case which < 0:
		return domain.KeyHolder{}, 0, domain.ErrNotFound
	}
	return found, which, nil
}

func (s *shelf) RehashKey(_ context.Context, id string, hash []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rehashed = append(s.rehashed, id)
	for old, h := range s.holders {
		if h.KeyID == id {
			delete(s.holders, old)
			s.holders[string(hash)] = h
		}
	}
	return nil
}

// line connects the processes of a test; it may be cut.
type line struct {
	mu         sync.Mutex
	listeners  []func([]byte)
	reconnects []chan struct{}
	cut        bool
}

func (l *line) Announce(subject string, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, hear := range l.listeners {
		if subject == bus.SubjectKeys && !l.cut {
			hear(body)
		}
	}
}

func (l *line) Listen(_ string, handle func([]byte)) (func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listeners = append(l.listeners, handle)
	return func() {}, nil
}

func (l *line) Reconnects() (<-chan struct{}, func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := make(chan struct{}, 1)
	l.reconnects = append(l.reconnects, c)
	return c, func() {}
}

func (l *line) Sync(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return domain.ErrUnavailable
	}
	return nil
}

func (l *line) setCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	for _, c := range l.reconnects {
		if !cut {
			c <- struct{}{}
		}
	}
}

// process is one API process.
func process(t testing.TB, store *shelf, on *line, encryption ...string) *authenticator.Authenticator {
	t.Helper()
	if encryption == nil {
		encryption = []string{seal.Generate()}
	}
	k, err := authenticator.New(authenticator.Options{
		Store: store, Bus: on, Peppers: peppers(t, encryption...), Logger: slog.New(slog.DiscardHandler),
		Announce: on.Announce, Rehash: store.RehashKey,
	})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// run lets a process hear the others until the test ends.
func run(t *testing.T, k *authenticator.Authenticator) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
}

// pass lets made-up time pass.
func pass(d time.Duration) { <-time.After(d) }

func opens(t *testing.T, k *authenticator.Authenticator, key string) bool {
	t.Helper()
	_, err := k.Authenticate(t.Context(), key)
	if err != nil && !errors.Is(err, apikey.ErrUnauthenticated) {
		t.Fatalf("authenticate: %v", err)
	}
	return err == nil
}

// What a key stands for is what the store says of it.
func TestPrincipal(t *testing.T) {
	t.Parallel()
	store := &shelf{}
	k := process(t, store, &line{})
	key := k.NewKey()
	store.put(key, domain.KeyHolder{
		KeyID: "key_1", Account: "acme", Bucket: "acme-prod", ConsumerID: "csmr_1", Consumer: "billing",
		Scopes: []domain.Scope{domain.ScopeEventsRead},
	})
	got, err := k.Authenticate(t.Context(), key.Key.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	want := apikey.Principal{
		Account: "acme", ID: "acme-prod/billing", Type: "key", KeyID: "key_1", Bucket: "acme-prod", ConsumerID: "csmr_1", Consumer: "billing",
		Scopes: []domain.Scope{domain.ScopeEventsRead},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A decision holds for a minute, be it good or bad, and not longer.
func TestDecisionsAreKeptAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &shelf{}
		k := process(t, store, &line{})
		there, missing := k.NewKey(), k.NewKey()
		store.put(there, domain.KeyHolder{KeyID: "key_1"})
		look := func(want bool, lookUps int) {
			t.Helper()
			if opens(t, k, there.Key.Reveal()) != want || opens(t, k, missing.Key.Reveal()) == want {
				t.Errorf("the keys open what they should not, or don't what they should")
			}
			if n := store.count(); n != lookUps {
				t.Errorf("the store was asked %d times, want %d", n, lookUps)
			}
		}
		look(true, 2)
		// Changed in the database alone, beneath everybody: nobody announces it.
		store.remove(there)
		store.put(missing, domain.KeyHolder{KeyID: "key_2"})
		pass(60*time.Second - 1)
		look(true, 2)
		pass(1)
		look(false, 4)
	})
}

// A key ends at its expiresOn, not when the decision does.
func TestExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &shelf{}
		k := process(t, store, &line{})
		key, ended := k.NewKey(), k.NewKey()
		store.put(key, domain.KeyHolder{KeyID: "key_1", ExpiresOn: time.Now().Add(10 * time.Second)})
		store.put(ended, domain.KeyHolder{KeyID: "key_2", ExpiresOn: time.Now()})
		if !opens(t, k, key.Key.Reveal()) || opens(t, k, ended.Key.Reveal()) {
			t.Error("at once: wrong")
		}
		pass(10*time.Second - 1)
		if !opens(t, k, key.Key.Reveal()) {
			t.Error("it ended too early")
		}
		pass(1)
		if opens(t, k, key.Key.Reveal()) {
			t.Error("it did not end")
		}
		if n := store.count(); n != 2 {
			t.Errorf("the store was asked %d times, want 2", n)
		}
	})
}

// While the store is down, what is known holds for its minute; the rest can't be told.
func TestStoreDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &shelf{}
		k := process(t, store, &line{})
		known, other := k.NewKey(), k.NewKey()
		store.put(known, domain.KeyHolder{KeyID: "key_1"})
		store.put(other, domain.KeyHolder{KeyID: "key_2"})
		opens(t, k, known.Key.Reveal())
		store.fail(fmt.Errorf("find key: %w", domain.ErrUnavailable))
		pass(59 * time.Second)
		if !opens(t, k, known.Key.Reveal()) {
			t.Error("what was known does not hold")
		}
		for range 2 { // and it is not kept that it could not be told
			if _, err := k.Authenticate(t.Context(), other.Key.Reveal()); !errors.Is(err, domain.ErrUnavailable) {
				t.Errorf("a key that was not known: %v", err)
			}
		}
		pass(2 * time.Second)
		if _, err := k.Authenticate(t.Context(), known.Key.Reveal()); !errors.Is(err, domain.ErrUnavailable) {
			t.Errorf("after its minute: %v", err)
		}
		store.fail(nil)
		if !opens(t, k, known.Key.Reveal()) || !opens(t, k, other.Key.Reveal()) {
			t.Error("the store is back, and they don't open")
		}
	})
}

// A store that hangs is a store that is down, and no caller waits longer than it wants to.
func TestStoreHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &shelf{takes: time.Hour}
		k := process(t, store, &line{})
		key := k.NewKey()
		started := time.Now()
		if _, err := k.Authenticate(t.Context(), key.Key.Reveal()); !errors.Is(err, domain.ErrUnavailable) {
			t.Errorf("it hangs: %v", err)
		}
		if took := time.Since(started); took > 1500*time.Millisecond {
			t.Errorf("it took %s", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := k.Authenticate(ctx, key.Key.Reveal()); !errors.Is(err, domain.ErrUnavailable) {
			t.Errorf("the caller was in a hurry: %v", err)
		}
		pass(2 * time.Second) // until the look-up gives up, too
	})
}

// Callers with one key make one look-up together, even if the first one is gone.
func TestOneLookUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &shelf{takes: time.Second}
		k := process(t, store, &line{})
		key := k.NewKey()
		store.put(key, domain.KeyHolder{KeyID: "key_1"})
		first, hangUp := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, err := k.Authenticate(first, key.Key.Reveal())
			gone <- err
		}()
		synctest.Wait()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if !opens(t, k, key.Key.Reveal()) {
					t.Error("it does not open")
				}
			})
		}
		synctest.Wait()
		hangUp()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("who hung up got %v", err)
		}
		all.Wait()
		if n := store.count(); n != 1 {
			t.Errorf("the store was asked %d times", n)
		}
	})
}

// Who tries made-up keys leaves those of others where they are, and the store its rest.
func TestManyKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &shelf{}
		k := process(t, store, &line{})
		key := k.NewKey()
		store.put(key, domain.KeyHolder{KeyID: "key_1"})
		if !opens(t, k, key.Key.Reveal()) {
			t.Fatal("it does not open")
		}
		const many = 40_000
		for range many {
			if opens(t, k, k.NewKey().Key.Reveal()) {
				t.Fatal("a made-up key opens something")
			}
		}
		if n := store.count(); n != many+1 {
			t.Errorf("the store was asked %d times", n)
		}
		if !opens(t, k, key.Key.Reveal()) || store.count() != many+1 {
			t.Error("the key was displaced")
		}
	})
}

// A change holds at once where it was made, also against a look-up that read before it.
func TestChangeHoldsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &shelf{}
		k := process(t, store, &line{})
		key, fresh := k.NewKey(), k.NewKey()
		store.put(key, domain.KeyHolder{KeyID: "key_1"})
		if !opens(t, k, key.Key.Reveal()) || opens(t, k, fresh.Key.Reveal()) {
			t.Fatal("it does not open, or the other one does")
		}
		store.remove(key)
		store.put(fresh, domain.KeyHolder{KeyID: "key_2"})
		k.InvalidateKeys(t.Context())
		if opens(t, k, key.Key.Reveal()) || !opens(t, k, fresh.Key.Reveal()) {
			t.Error("the change does not hold")
		}

		// The look-up reads, the change is made and answered, then the look-up's answer comes.
		late := k.NewKey()
		store.put(late, domain.KeyHolder{KeyID: "key_3"})
		store.takes = time.Second
		ended := make(chan bool, 1)
		go func() { ended <- opens(t, k, late.Key.Reveal()) }()
		synctest.Wait()
		store.remove(late)
		k.InvalidateKeys(t.Context())
		if opens(t, k, late.Key.Reveal()) {
			t.Error("who came after the answer went by a look-up of before")
		}
		<-ended // it may have been let in: it came before
		if opens(t, k, late.Key.Reveal()) {
			t.Error("what was read before the change was kept")
		}
	})
}

// Other processes learn of a change over the bus, and distrust what they knew when the bus
// was away.
func TestChangeElsewhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, wire, encryption := &shelf{}, &line{}, seal.Generate()
		one, two := process(t, store, wire, encryption), process(t, store, wire, encryption)
		run(t, one)
		run(t, two)
		key := one.NewKey()
		store.put(key, domain.KeyHolder{KeyID: "key_1"})
		both := func(want bool) {
			t.Helper()
			synctest.Wait()
			if opens(t, one, key.Key.Reveal()) != want || opens(t, two, key.Key.Reveal()) != want {
				t.Errorf("opens is not %v in both", want)
			}
		}
		both(true)
		store.remove(key)
		one.InvalidateKeys(t.Context())
		both(false)

		store.put(key, domain.KeyHolder{KeyID: "key_1"})
		two.InvalidateKeys(t.Context())
		both(true)
		wire.setCut(true)
		store.remove(key)
		one.InvalidateKeys(t.Context())
		if opens(t, one, key.Key.Reveal()) || !opens(t, two, key.Key.Reveal()) {
			t.Error("cut off, only the first one should know")
		}
		wire.setCut(false)
		both(false)
	})
}

// A key that is found under an older pepper gets the hash of today.
func TestRehash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, old, fresh := &shelf{}, seal.Generate(), seal.Generate()
		key := process(t, store, &line{}, old).NewKey()
		store.put(key, domain.KeyHolder{KeyID: "key_1"})
		during := process(t, store, &line{}, fresh, old)
		if !opens(t, during, key.Key.Reveal()) {
			t.Fatal("it is not found under the older pepper")
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{"key_1"}, store.rehashed); diff != "" {
			t.Errorf("hashed anew (-want +got):\n%s", diff)
		}
		if !opens(t, process(t, store, &line{}, fresh), key.Key.Reveal()) {
			t.Error("it is not found under the pepper of today alone")
		}
		synctest.Wait()
		if len(store.rehashed) != 1 {
			t.Errorf("hashed anew %d times", len(store.rehashed))
		}
		if opens(t, process(t, store, &line{}, old), key.Key.Reveal()) {
			t.Error("it is found under the old pepper still")
		}
	})
}
