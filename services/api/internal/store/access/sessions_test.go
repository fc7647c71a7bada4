package access_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/storetest"
)

func sessionTests() storetest.Tests[*bench] {
	return storetest.Tests[*bench]{
		"says what the key is now":       testSessionKey,
		"ends with its key":              testSessionEndsWithKey,
		"lets a code be used once":       testSessionCode,
		"removes what has ended":         testSessionPurge,
		"lists and ends those of a key":  testSessionList,
		"keeps accounts' sessions apart": testSessionAccounts,
		"bounds those of a key":          testSessionBound,
	}
}

func (b *bench) session(t *testing.T, s access.Session, code []byte) access.Session {
	t.Helper()
	sum := sha256.Sum256([]byte(fmt.Sprint("token", b.Next())))
	s.Hash = sum[:]
	if s.Kind == "" {
		s.Kind = access.KindSession
	}
	opened, err := b.OpenSession(t.Context(), s, time.Hour, access.Replaced{Code: code})
	if err != nil {
		t.Fatalf("open session: %v", err)
	}
	return opened
}

// held makes a consumer with one key, and a session of that key.
func (b *bench) held(t *testing.T) (access.ConsumerView, domain.APIKey, access.Session) {
	t.Helper()
	c := b.consumer(t, b.bucket(t), 1, func(c *domain.Consumer) { c.Scopes = []domain.Scope{domain.ScopeEventsRead} })
	key := b.keys(t, c)[0]
	return c, key, b.session(t, access.Session{Account: account, KeyID: key.ID, Proof: key.Suffix, Address: "192.0.2.7", UserAgent: "☃"}, nil)
}

func testSessionKey(t *testing.T, b *bench) {
	c, key, s := b.held(t)
	wantID(t, s.ID, "csess", 24)
	got, holder, err := b.FindSession(t.Context(), s.Hash)
	if err != nil || got.ID != s.ID || got.Address != "192.0.2.7" || got.UserAgent != "☃" || !got.CreatedOn.Equal(noon) || !got.SeenOn.Equal(noon) || !got.ExpiresOn.Equal(noon.Add(time.Hour)) {
		t.Errorf("%+v, %v", got, err)
	}
	if holder.KeyID != key.ID || holder.Account != account || holder.Bucket != c.Bucket || holder.Consumer != c.Name || len(holder.Scopes) != 1 || !holder.ExpiresOn.IsZero() {
		t.Errorf("the holder is %+v", holder)
	}
	if _, err := b.UpdateConsumer(t.Context(), consumerRef(c), func(c *domain.Consumer) error { c.Scopes = nil; return nil }); err != nil {
		t.Fatal(err)
	}
	if _, holder, err = b.FindSession(t.Context(), s.Hash); err != nil || len(holder.Scopes) != 0 {
		t.Errorf("the scopes are %v, %v", holder.Scopes, err)
	}
	b.Clock.Advance(time.Minute)
	if err := b.SeeSession(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if got, _, err := b.FindSession(t.Context(), s.Hash); err != nil || !got.SeenOn.Equal(noon.Add(time.Minute)) {
		t.Errorf("seen on %s, %v", got.SeenOn, err)
	}
	plain := b.session(t, access.Session{Account: account, Proof: "proof"}, nil)
	if got, holder, err := b.FindSession(t.Context(), plain.Hash); err != nil || got.Proof != "proof" || holder.KeyID != "" {
		t.Errorf("of the bootstrap key: %+v, %v", got, err)
	}
	_, _, err = b.FindSession(t.Context(), []byte("none"))
	storetest.WantNotFound(t, "find a session that there is not", err)
}

func testSessionEndsWithKey(t *testing.T, b *bench) {
	c, key, s := b.held(t)
	replaced := b.apiKey()
	_, err := b.UpdateKey(t.Context(), consumerRef(c), key.ID, func(k *domain.APIKey) error {
		k.Key, k.Suffix, k.Hash = replaced.Key, replaced.Suffix, replaced.Hash
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = b.FindSession(t.Context(), s.Hash)
	storetest.WantNotFound(t, "the key is another one", err)
	for _, remove := range []func(c access.ConsumerView, k domain.APIKey) error{
		func(c access.ConsumerView, k domain.APIKey) error {
			return b.DeleteKey(t.Context(), consumerRef(c), k.ID)
		},
		func(c access.ConsumerView, _ domain.APIKey) error {
			return b.DeleteConsumer(t.Context(), consumerRef(c))
		},
		func(c access.ConsumerView, _ domain.APIKey) error {
			return b.DeleteBucket(t.Context(), access.BucketRef{Account: account, Bucket: c.Bucket})
		},
	} {
		c, key, s := b.held(t)
		if err := remove(c, key); err != nil {
			t.Fatal(err)
		}
		_, _, err := b.FindSession(t.Context(), s.Hash)
		storetest.WantNotFound(t, "the key is gone", err)
	}
}

func testSessionCode(t *testing.T, b *bench) {
	code := b.session(t, access.Session{Account: account, Kind: access.KindLink, Proof: "p"}, nil)
	_, _, former := b.held(t)
	var used atomic.Int32
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			sum := sha256.Sum256([]byte{byte(i)})
			_, err := b.OpenSession(t.Context(), access.Session{Account: account, Kind: access.KindSession, Hash: sum[:]}, time.Hour, access.Replaced{Code: code.Hash})
			if err == nil {
				used.Add(1)
			} else if !errors.Is(err, domain.ErrNotFound) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if used.Load() != 1 {
		t.Errorf("the code was used %d times", used.Load())
	}
	_, err := b.OpenSession(t.Context(), access.Session{Account: account, Kind: access.KindSession, Hash: []byte("late")}, time.Hour, access.Replaced{Code: code.Hash, Former: former.Hash})
	storetest.WantNotFound(t, "the code was used", err)
	if _, _, err := b.FindSession(t.Context(), former.Hash); err != nil {
		t.Errorf("the former session has ended, and nothing came in its place: %v", err)
	}
	for _, lasts := range []bool{true, false} {
		fresh := access.Session{Account: account, Kind: access.KindSession, Hash: fmt.Appendf(nil, "fresh %t", lasts)}
		if _, err := b.OpenSession(t.Context(), fresh, time.Hour, access.Replaced{Former: former.Hash}); err != nil {
			t.Errorf("the former session lasts %t: %v", lasts, err)
		}
	}
	_, _, err = b.FindSession(t.Context(), former.Hash)
	storetest.WantNotFound(t, "another session came in its place", err)
}

func testSessionPurge(t *testing.T, b *bench) {
	_, _, s := b.held(t)
	b.Clock.Advance(time.Hour - time.Millisecond)
	b.held(t)
	if _, _, err := b.FindSession(t.Context(), s.Hash); err != nil {
		t.Errorf("it was removed too early: %v", err)
	}
	b.Clock.Advance(time.Millisecond)
	b.held(t)
	_, _, err := b.FindSession(t.Context(), s.Hash)
	storetest.WantNotFound(t, "it has ended", err)
}

func testSessionList(t *testing.T, b *bench) {
	_, key, first := b.held(t)
	_, _, other := b.held(t)
	b.Clock.Advance(time.Minute)
	same := access.Session{Account: account, KeyID: key.ID, Proof: key.Suffix}
	second := b.session(t, same, nil)
	link := same
	link.Kind = access.KindLink
	code := b.session(t, link, nil)
	list, err := b.ListSessions(t.Context(), first)
	if err != nil || len(list) != 2 || list[0].ID != second.ID || list[1].ID != first.ID {
		t.Errorf("%+v, %v", list, err)
	}
	if err := b.EndOtherSessions(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []access.Session{first, code} {
		_, _, err := b.FindSession(t.Context(), gone.Hash)
		storetest.WantNotFound(t, "it was ended", err)
	}
	for _, there := range []access.Session{second, other} {
		if _, _, err := b.FindSession(t.Context(), there.Hash); err != nil {
			t.Error(err)
		}
	}
	if err := b.EndSession(t.Context(), second.Hash); err != nil {
		t.Fatal(err)
	}
	_, _, err = b.FindSession(t.Context(), second.Hash)
	storetest.WantNotFound(t, "signed out", err)
}

func testSessionAccounts(t *testing.T, b *bench) {
	if _, _, err := b.CreateAccount(t.Context(), "acme", b.apiKey()); err != nil {
		t.Fatal(err)
	}
	ours := b.session(t, access.Session{Account: account}, nil)
	theirs := b.session(t, access.Session{Account: "acme"}, nil)
	if list, err := b.ListSessions(t.Context(), ours); err != nil || len(list) != 1 || list[0].ID != ours.ID {
		t.Errorf("%+v, %v", list, err)
	}
	if err := b.EndOtherSessions(t.Context(), ours); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.FindSession(t.Context(), theirs.Hash); err != nil {
		t.Errorf("another account's session was ended: %v", err)
	}
}

// A key that signs in again and again has a hundred sessions, of which the newest is one; what
// others have stays.
func testSessionBound(t *testing.T, b *bench) {
	_, key, first := b.held(t)
	_, _, others := b.held(t)
	code := b.session(t, access.Session{Account: account, KeyID: key.ID, Proof: key.Suffix, Kind: access.KindLink}, nil)
	newest := first
	for range 120 {
		newest = b.session(t, access.Session{Account: account, KeyID: key.ID, Proof: key.Suffix}, nil)
	}
	found := 0
	for _, s := range []access.Session{newest, others, code} {
		if _, _, err := b.FindSession(t.Context(), s.Hash); err == nil {
			found++
		}
	}
	list, err := b.ListSessions(t.Context(), newest)
	if err != nil || found != 3 || len(list) != 100 {
		t.Errorf("%d of three are there, and the key has %d sessions, want 100 (%v)", found, len(list), err)
	}
	var rows int
	_, reading := b.DB.Handles()
	if err := reading.QueryRowContext(t.Context(), "SELECT count(*) FROM console_sessions WHERE key_id = $1 AND kind = $2", key.ID, access.KindSession).Scan(&rows); err != nil || rows != 100 {
		t.Errorf("%d rows are stored, want 100 (%v)", rows, err)
	}
}
