package access_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/storetest"
)

func keyTests() storetest.Tests[*bench] {
	return storetest.Tests[*bench]{
		"keeps every field":                testKeyFields,
		"makes several, all or none":       testCreateKeys,
		"lists oldest first in pages":      testListKeys,
		"shows keys that are kept only":    testKeySecrets,
		"updates":                          testUpdateKey,
		"puts another key in its place":    testReplaceKey,
		"deletes":                          testDeleteKey,
		"keeps when keys end":              testKeyExpiry,
		"rolls":                            testRollKeys,
		"rolls one after the other":        testRollConcurrent,
		"finds by any of several hashes":   testFindKey,
		"finds what its holder may do now": testFindKeyScopes,
		"gives a key another hash":         testRehashKey,
	}
}

// keys returns the suite's keys of a consumer, without secrets.
func (b *bench) keys(t *testing.T, c access.ConsumerView) []domain.APIKey {
	t.Helper()
	list, total, err := b.ListKeys(t.Context(), consumerRef(c), false, all())
	if err != nil || total != len(list) {
		t.Fatalf("list keys: %d of %d, %v", len(list), total, err)
	}
	return list
}

func testKeyFields(t *testing.T, b *bench) {
	c := b.consumer(t, b.bucket(t), 0)
	want := b.apiKey()
	want.Description, want.ExpiresOn = "größer ☃", noon.Add(time.Hour)
	created, err := b.CreateKeys(t.Context(), consumerRef(c), []domain.APIKey{want})
	if err != nil || len(created) != 1 {
		t.Fatal(created, err)
	}
	wantID(t, created[0].ID, "key", 24)
	want.ID, want.CreatedOn, want.UpdatedOn = created[0].ID, noon, noon
	if diff := cmp.Diff(want, created[0], storetest.Secrets()); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	want.Hash = nil
	got, err := b.GetKey(t.Context(), consumerRef(c), want.ID, true)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, storetest.Secrets()); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	_, err = b.GetKey(t.Context(), consumerRef(c), "key_nothing", true)
	storetest.WantNotFound(t, "no key", err)
	if _, err := b.CreateKeys(t.Context(), consumerRef(c), []domain.APIKey{{Key: want.Key}}); err == nil {
		t.Error("a key without its hash was stored")
	}
}

func testCreateKeys(t *testing.T, b *bench) {
	c := b.consumer(t, b.bucket(t), 0)
	var want []string
	fresh := make([]domain.APIKey, 1201)
	for i := range fresh {
		fresh[i] = b.apiKey()
		fresh[i].Description = strconv.Itoa(i)
		want = append(want, fresh[i].Description)
	}
	created, err := b.CreateKeys(t.Context(), consumerRef(c), fresh)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, k := range created {
		got = append(got, k.Description)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	late := []domain.APIKey{b.apiKey(), b.apiKey(), fresh[700]}
	_, err = b.CreateKeys(t.Context(), consumerRef(c), late)
	storetest.WantConflict(t, "with a known one", err)
	twice := b.apiKey()
	_, err = b.CreateKeys(t.Context(), consumerRef(c), []domain.APIKey{twice, twice})
	storetest.WantConflict(t, "one twice", err)
	other := b.consumer(t, b.bucket(t), 0)
	_, err = b.CreateKeys(t.Context(), consumerRef(other), fresh[:1])
	storetest.WantConflict(t, "another's", err)
	for _, k := range []domain.APIKey{late[0], late[1], twice} {
		_, _, err := b.FindKey(t.Context(), [][]byte{k.Hash})
		storetest.WantNotFound(t, "of what was refused", err)
	}
	list, total, err := b.ListKeys(t.Context(), consumerRef(c), false, store.Page{Limit: 1000, Offset: 1000})
	if err != nil || total != len(fresh) || len(list) != 201 || list[200].Description != "1200" {
		t.Errorf("%d of %d, %v", len(list), total, err)
	}
}

func testListKeys(t *testing.T, b *bench) {
	c := b.consumer(t, b.bucket(t), 0)
	b.consumer(t, b.bucket(t), 3)
	var want, got []string
	for i := range 7 {
		k := b.apiKey()
		k.ExpiresOn = noon.Add(-time.Hour) // ended keys are listed too
		created, err := b.CreateKeys(t.Context(), consumerRef(c), []domain.APIKey{k})
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, created[0].ID)
		if i%3 == 2 {
			b.Clock.Advance(time.Millisecond)
		}
	}
	for offset := 0; offset < 9; offset += 3 {
		page, total, err := b.ListKeys(t.Context(), consumerRef(c), false, store.Page{Limit: 3, Offset: offset})
		if err != nil || total != 7 {
			t.Fatalf("%d, %v", total, err)
		}
		for _, k := range page {
			got = append(got, k.ID)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
}

func testKeySecrets(t *testing.T, b *bench) {
	for _, retrievable := range []bool{true, false} {
		c := b.consumer(t, b.bucket(t, func(b *domain.Bucket) { b.Retrievable = retrievable }), 1)
		key := c.Keys[0]
		if key.Key == "" {
			t.Error("the answer to the creation lacks the key")
		}
		for _, wanted := range []bool{true, false} {
			want := ""
			if retrievable && wanted {
				want = key.Key.Reveal()
			}
			one, err := b.GetKey(t.Context(), consumerRef(c), key.ID, wanted)
			if err != nil || one.Key.Reveal() != want || one.Suffix != key.Suffix || one.Hash != nil {
				t.Errorf("get, retrievable %v, wanted %v: %v", retrievable, wanted, err)
			}
			list, _, err := b.ListKeys(t.Context(), consumerRef(c), wanted, all())
			if err != nil || list[0].Key.Reveal() != want {
				t.Errorf("list, retrievable %v, wanted %v: %v", retrievable, wanted, err)
			}
		}
		if text := fmt.Sprintf("%+v", c); strings.Contains(text, key.Key.Reveal()) {
			t.Error("a key prints")
		}
	}
}

func testUpdateKey(t *testing.T, b *bench) {
	c := b.consumer(t, b.bucket(t), 1)
	before := c.Keys[0]
	b.Clock.Advance(time.Minute)
	got, err := b.UpdateKey(t.Context(), consumerRef(c), before.ID, func(k *domain.APIKey) error {
		k.ID, k.CreatedOn, k.Suffix = "x", time.Time{}, "x"
		k.Description, k.ExpiresOn = "changed", noon.Add(time.Hour)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := before
	want.Key, want.Hash = "", nil
	want.Description, want.ExpiresOn, want.UpdatedOn = "changed", noon.Add(time.Hour), noon.Add(time.Minute)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("updated (-want +got):\n%s", diff)
	}
	_, err = b.UpdateKey(t.Context(), consumerRef(c), before.ID, func(k *domain.APIKey) error {
		k.Description = "lost"
		return errChange
	})
	if !errors.Is(err, errChange) {
		t.Errorf("a refused change: %v", err)
	}
	want.Key = before.Key
	read, err := b.GetKey(t.Context(), consumerRef(c), before.ID, true)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, read, storetest.Secrets()); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	if holder, _, err := b.FindKey(t.Context(), [][]byte{before.Hash}); err != nil || !holder.ExpiresOn.Equal(want.ExpiresOn) {
		t.Errorf("%+v, %v", holder, err)
	}
}

func testReplaceKey(t *testing.T, b *bench) {
	for _, retrievable := range []bool{true, false} {
		c := b.consumer(t, b.bucket(t, func(b *domain.Bucket) { b.Retrievable = retrievable }), 2)
		fresh := b.apiKey()
		put := func(with domain.APIKey) error {
			_, err := b.UpdateKey(t.Context(), consumerRef(c), c.Keys[0].ID, func(k *domain.APIKey) error {
				k.Key, k.Hash, k.Suffix = with.Key, with.Hash, with.Suffix
				return nil
			})
			return err
		}
		if err := put(fresh); err != nil {
			t.Fatal(err)
		}
		_, _, err := b.FindKey(t.Context(), [][]byte{c.Keys[0].Hash})
		storetest.WantNotFound(t, "the old one", err)
		if holder, _, err := b.FindKey(t.Context(), [][]byte{fresh.Hash}); err != nil || holder.KeyID != c.Keys[0].ID {
			t.Errorf("%+v, %v", holder, err)
		}
		got, err := b.GetKey(t.Context(), consumerRef(c), c.Keys[0].ID, true)
		if err != nil || got.Suffix != fresh.Suffix || (got.Key == fresh.Key) != retrievable || (got.Key == "") == retrievable {
			t.Errorf("%+v, %v", got, err)
		}
		storetest.WantConflict(t, "by a known one", put(c.Keys[1]))
	}
}

func testDeleteKey(t *testing.T, b *bench) {
	c := b.consumer(t, b.bucket(t), 2)
	if err := b.DeleteKey(t.Context(), consumerRef(c), c.Keys[0].ID); err != nil {
		t.Fatal(err)
	}
	storetest.WantNotFound(t, "again", b.DeleteKey(t.Context(), consumerRef(c), c.Keys[0].ID))
	_, _, err := b.FindKey(t.Context(), [][]byte{c.Keys[0].Hash})
	storetest.WantNotFound(t, "the deleted one", err)
	if _, _, err := b.FindKey(t.Context(), [][]byte{c.Keys[1].Hash}); err != nil {
		t.Errorf("the other one: %v", err)
	}
	// Its text is free again.
	if _, err := b.CreateKeys(t.Context(), consumerRef(c), c.Keys[:1]); err != nil {
		t.Error(err)
	}
}

// testKeyExpiry keeps the ends of keys apart from never, 1970 too.
func testKeyExpiry(t *testing.T, b *bench) {
	c := b.consumer(t, b.bucket(t), 0)
	for _, want := range []time.Time{
		{}, time.Unix(0, 0).UTC(), time.Unix(-1, 0).UTC(), noon, noon.Add(1500 * time.Millisecond),
		time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC), time.Date(1, time.January, 1, 0, 0, 1, 0, time.UTC),
	} {
		k := b.apiKey()
		k.ExpiresOn = want
		created, err := b.CreateKeys(t.Context(), consumerRef(c), []domain.APIKey{k})
		if err != nil {
			t.Errorf("%v: %v", want, err)
			continue
		}
		holder, _, err := b.FindKey(t.Context(), [][]byte{k.Hash})
		if err != nil || holder.ExpiresOn.IsZero() != want.IsZero() || holder.ExpiresOn.Sub(want).Abs() > time.Microsecond || !created[0].ExpiresOn.Equal(holder.ExpiresOn) {
			t.Errorf("%v became %v and %v, %v", want, created[0].ExpiresOn, holder.ExpiresOn, err)
		}
	}
}

// testRollKeys rolls keys with every kind of end, at times before and after them.
func testRollKeys(t *testing.T, b *bench) {
	ends := []time.Time{
		{}, noon.Add(time.Hour), noon.Add(2 * time.Hour), noon.Add(time.Second), noon, noon.Add(-time.Second), noon.Add(-3 * time.Hour),
	}
	never, hour, two, second, now, before, long := ends[0], ends[1], ends[2], ends[3], ends[4], ends[5], ends[6]
	past := noon.Add(-2 * time.Hour)
	for _, test := range []struct {
		name string
		at   time.Time
		want []time.Time
	}{
		{"now", never, []time.Time{now, now, now, now, now, before, long}},
		{"in an hour", hour, []time.Time{hour, hour, hour, second, now, before, long}},
		{"later than all", noon.Add(9 * time.Hour), []time.Time{noon.Add(9 * time.Hour), hour, two, second, now, before, long}},
		{"in the past", past, []time.Time{past, past, past, past, now, before, long}},
	} {
		c := b.consumer(t, b.bucket(t), 0)
		keys := make([]domain.APIKey, len(ends))
		for i, end := range ends {
			keys[i] = b.apiKey()
			keys[i].ExpiresOn = end
		}
		if _, err := b.CreateKeys(t.Context(), consumerRef(c), keys); err != nil {
			t.Fatal(err)
		}
		other := b.consumer(t, b.bucket(t), 1)
		fresh := b.apiKey()
		fresh.ExpiresOn = noon.Add(time.Minute)
		got, err := b.RollKeys(t.Context(), consumerRef(c), fresh, test.at)
		if err != nil || !got.ExpiresOn.IsZero() || got.Key != fresh.Key {
			t.Fatalf("%s: %+v, %v", test.name, got, err)
		}
		var have []time.Time
		for _, k := range b.keys(t, c) {
			have = append(have, k.ExpiresOn)
		}
		if diff := cmp.Diff(append(slices.Clone(test.want), never), have); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		if holder, _, err := b.FindKey(t.Context(), [][]byte{fresh.Hash}); err != nil || !holder.ExpiresOn.IsZero() {
			t.Errorf("%s: %+v, %v", test.name, holder, err)
		}
		if k := b.keys(t, other)[0]; !k.ExpiresOn.IsZero() {
			t.Errorf("%s: another's key ends", test.name)
		}
		_, err = b.RollKeys(t.Context(), consumerRef(other), fresh, test.at)
		storetest.WantConflict(t, "with a known key", err)
		if k := b.keys(t, other)[0]; !k.ExpiresOn.IsZero() {
			t.Errorf("%s: a failed roll ended a key", test.name)
		}
	}
}

func testRollConcurrent(t *testing.T, b *bench) {
	c := b.consumer(t, b.bucket(t), 1)
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if _, err := b.RollKeys(t.Context(), consumerRef(c), b.apiKey(), time.Time{}); err != nil {
				t.Errorf("roll: %v", err)
			}
		})
	}
	wg.Wait()
	live := 0
	for _, k := range b.keys(t, c) {
		if k.ExpiresOn.IsZero() {
			live++
		}
	}
	if live != 1 {
		t.Errorf("%d keys without an end", live)
	}
}

func testFindKey(t *testing.T, b *bench) {
	c := b.consumer(t, b.bucket(t), 2)
	if has, err := b.HasKeys(t.Context()); err != nil || !has {
		t.Errorf("there are keys: %v, %v", has, err)
	}
	none := b.apiKey().Hash
	first, second := c.Keys[0], c.Keys[1]
	for _, test := range []struct {
		hashes [][]byte
		which  int
		id     string
	}{
		{[][]byte{first.Hash}, 0, first.ID},
		{[][]byte{none, second.Hash}, 1, second.ID},
		{[][]byte{none, none, first.Hash, second.Hash}, 2, first.ID},
		{[][]byte{second.Hash, first.Hash}, 0, second.ID},
	} {
		holder, which, err := b.FindKey(t.Context(), test.hashes)
		if err != nil || which != test.which || holder.KeyID != test.id || holder.ConsumerID != c.ID {
			t.Errorf("%d, %+v, %v", which, holder, err)
		}
	}
	for _, hashes := range [][][]byte{nil, {none}, {nil}, {none, none}, {first.Hash[:31]}} {
		_, _, err := b.FindKey(t.Context(), hashes)
		storetest.WantNotFound(t, "no key", err)
	}
}

func testFindKeyScopes(t *testing.T, b *bench) {
	in := b.bucket(t)
	c := b.consumer(t, in, 1)
	for _, scopes := range [][]domain.Scope{nil, {domain.ScopeMCP}, domain.Scopes()} {
		_, err := b.UpdateConsumer(t.Context(), consumerRef(c), func(c *domain.Consumer) error { c.Scopes = scopes; return nil })
		if err != nil {
			t.Fatal(err)
		}
		holder, _, err := b.FindKey(t.Context(), [][]byte{c.Keys[0].Hash})
		if err != nil {
			t.Fatal(err)
		}
		want := domain.KeyHolder{KeyID: c.Keys[0].ID, Account: account, BucketID: in.ID, Bucket: c.Bucket, ConsumerID: c.ID, Consumer: c.Name, Scopes: scopes}
		if diff := cmp.Diff(want, holder); diff != "" {
			t.Errorf("holder (-want +got):\n%s", diff)
		}
	}
}

func testRehashKey(t *testing.T, b *bench) {
	c := b.consumer(t, b.bucket(t), 2)
	fresh := b.apiKey().Hash
	ctx := auditlog.WithCaller(t.Context(), domain.Caller{Account: account, Sub: "x"})
	if err := b.RehashKey(ctx, c.Keys[0].ID, fresh); err != nil {
		t.Fatal(err)
	}
	if holder, _, err := b.FindKey(t.Context(), [][]byte{fresh}); err != nil || holder.KeyID != c.Keys[0].ID {
		t.Errorf("%+v, %v", holder, err)
	}
	_, _, err := b.FindKey(t.Context(), [][]byte{c.Keys[0].Hash})
	storetest.WantNotFound(t, "the old hash", err)
	// It is the same key: what is sealed still opens.
	if got, err := b.GetKey(t.Context(), consumerRef(c), c.Keys[0].ID, true); err != nil || got.Key != c.Keys[0].Key || !got.UpdatedOn.Equal(noon) {
		t.Errorf("%+v, %v", got, err)
	}
	storetest.WantNotFound(t, "no key", b.RehashKey(ctx, "key_nothing", b.apiKey().Hash))
	storetest.WantConflict(t, "another's hash", b.RehashKey(ctx, c.Keys[0].ID, c.Keys[1].Hash))
	if _, total, err := b.ListAudit(t.Context(), auditlog.AuditFilter{Account: account, Page: all()}); err != nil || total != 0 {
		t.Errorf("%d audit entries, %v", total, err)
	}
}
