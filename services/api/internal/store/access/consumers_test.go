package access_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/storetest"
)

func consumerTests() storetest.Tests[*bench] {
	return storetest.Tests[*bench]{
		"keeps every field":                            testConsumerFields,
		"makes a consumer whole or not":                testConsumerConflict,
		"makes a name once":                            testConsumerConcurrent,
		"lists oldest first in pages":                  testListConsumers,
		"filters by tags and manager":                  testConsumerFilter,
		"reads the parts that are wanted":              testConsumerParts,
		"updates":                                      testUpdateConsumer,
		"asks the guard":                               testConsumerGuard,
		"deletes with keys and managers":               testDeleteConsumer,
		"keeps buckets and accounts apart":             testConsumerApart,
		"keeps managers":                               testManagers,
		"survives its bucket's deletion or not at all": testConsumerBucketRace,
	}
}

// consumer makes a consumer with so many keys.
func (b *bench) consumer(t *testing.T, bucket domain.Bucket, keys int, change ...func(*domain.Consumer)) access.ConsumerView {
	t.Helper()
	c := domain.Consumer{Account: bucket.Account, Bucket: bucket.Name, Name: fmt.Sprintf("consumer-%d", b.Next())}
	for _, f := range change {
		f(&c)
	}
	fresh := make([]domain.APIKey, keys)
	for i := range fresh {
		fresh[i] = b.apiKey()
	}
	view, err := b.CreateConsumer(t.Context(), c, nil, fresh)
	if err != nil {
		t.Fatalf("create consumer: %v", err)
	}
	return view
}

func consumerRef(c access.ConsumerView) access.ConsumerRef {
	return access.ConsumerRef{Account: c.Account, Bucket: c.Bucket, Consumer: c.Name}
}

// everything is all the parts.
func everything() access.Parts { return access.Parts{Keys: true, Secrets: true, Managers: true} }

func testConsumerFields(t *testing.T, b *bench) {
	bucket := b.bucket(t)
	c := domain.Consumer{
		Account: account, Bucket: bucket.Name, Name: "c", Description: "größer ☃", Tags: map[string]string{"\x00": "\n"},
		Metadata: json.RawMessage(`{"plan": 1.000, "x":"\u0000"}`), Scopes: []domain.Scope{domain.ScopeMCP, domain.ScopeEventsRead},
	}
	managers := []domain.Manager{{Email: "a@example.com", Sub: "a"}, {Email: "b@example.com"}}
	key := b.apiKey()
	key.Description, key.ExpiresOn = "first", noon.Add(time.Hour)
	got, err := b.CreateConsumer(t.Context(), c, managers, []domain.APIKey{key, b.apiKey()})
	if err != nil {
		t.Fatal(err)
	}
	wantID(t, got.ID, "csmr", 24)
	wantID(t, got.Keys[0].ID, "key", 24)
	wantID(t, got.Managers[0].ID, "eusr", 24)
	c.ID, c.CreatedOn, c.UpdatedOn = got.ID, noon, noon
	if diff := cmp.Diff(c, got.Consumer); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	key.ID, key.CreatedOn, key.UpdatedOn = got.Keys[0].ID, noon, noon
	if diff := cmp.Diff(key, got.Keys[0], storetest.Secrets()); diff != "" {
		t.Errorf("its key (-want +got):\n%s", diff)
	}
	read, err := b.GetConsumer(t.Context(), consumerRef(got), everything())
	if err != nil {
		t.Fatal(err)
	}
	for i := range got.Keys {
		got.Keys[i].Hash = nil
	}
	if diff := cmp.Diff(got, read, storetest.Secrets()); diff != "" {
		t.Errorf("read (-created +read):\n%s", diff)
	}
	bare := b.consumer(t, bucket, 0)
	if read, err := b.GetConsumer(t.Context(), consumerRef(bare), everything()); err != nil || read.Metadata != nil || read.Scopes != nil || read.Tags == nil {
		t.Errorf("%+v, %v", read, err)
	}
}

func testConsumerConflict(t *testing.T, b *bench) {
	bucket := b.bucket(t)
	first := b.consumer(t, bucket, 1)
	_, err := b.CreateConsumer(t.Context(), first.Consumer, nil, []domain.APIKey{b.apiKey()})
	storetest.WantConflict(t, "a name again", err)
	fresh := b.apiKey()
	c := domain.Consumer{Account: account, Bucket: bucket.Name, Name: "late"}
	_, err = b.CreateConsumer(t.Context(), c, []domain.Manager{{Email: "a@example.com"}}, []domain.APIKey{fresh, first.Keys[0]})
	storetest.WantConflict(t, "a key again", err)
	_, _, err = b.FindKey(t.Context(), [][]byte{fresh.Hash})
	storetest.WantNotFound(t, "a key of what was not made", err)
	if _, total, err := b.ListConsumers(t.Context(), account, bucket.Name, access.ConsumerFilter{Page: all()}, access.Parts{}); err != nil || total != 1 {
		t.Errorf("%d consumers, %v", total, err)
	}
	c.Bucket = "nowhere"
	_, err = b.CreateConsumer(t.Context(), c, nil, nil)
	storetest.WantNotFound(t, "in no bucket", err)
	b.consumer(t, b.bucket(t), 0, func(c *domain.Consumer) { c.Name = first.Name })
}

func testConsumerConcurrent(t *testing.T, b *bench) {
	bucket := b.bucket(t)
	var made, refused atomic.Int64
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			_, err := b.CreateConsumer(t.Context(), domain.Consumer{Account: account, Bucket: bucket.Name, Name: "c"}, nil, []domain.APIKey{b.apiKey()})
			switch {
			case err == nil:
				made.Add(1)
			case errors.Is(err, domain.ErrConflict):
				refused.Add(1)
			default:
				t.Errorf("create: %v", err)
			}
		})
	}
	wg.Wait()
	if made.Load() != 1 || refused.Load() != 49 {
		t.Errorf("%d made, %d refused", made.Load(), refused.Load())
	}
}

// consumerNames lists the names of what the filter selects, three at a time.
func (b *bench) consumerNames(t *testing.T, bucket string, f access.ConsumerFilter) []string {
	t.Helper()
	var names []string
	for {
		f.Page = store.Page{Limit: 3, Offset: len(names)}
		page, total, err := b.ListConsumers(t.Context(), account, bucket, f, access.Parts{})
		if err != nil {
			t.Fatalf("list consumers: %v", err)
		}
		for _, c := range page {
			names = append(names, c.Name)
		}
		if len(page) == 0 {
			if total != len(names) {
				t.Errorf("%d consumers, total %d", len(names), total)
			}
			return names
		}
	}
}

func testListConsumers(t *testing.T, b *bench) {
	bucket := b.bucket(t)
	b.consumer(t, b.bucket(t), 1)
	var want []string
	for i := range 8 {
		want = append(want, b.consumer(t, bucket, 0, func(c *domain.Consumer) { c.Name = fmt.Sprintf("c-%d", 9-i) }).Name)
		if i%3 == 2 {
			b.Clock.Advance(time.Millisecond)
		}
	}
	if diff := cmp.Diff(want, b.consumerNames(t, bucket.Name, access.ConsumerFilter{})); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	_, _, err := b.ListConsumers(t.Context(), account, "nowhere", access.ConsumerFilter{Page: all()}, everything())
	storetest.WantNotFound(t, "in no bucket", err)
	_, _, err = b.ListConsumers(t.Context(), "other", bucket.Name, access.ConsumerFilter{Page: all()}, everything())
	storetest.WantNotFound(t, "in another account", err)
}

func testConsumerFilter(t *testing.T, b *bench) {
	bucket := b.bucket(t)
	for i := range 6 {
		c := domain.Consumer{Account: account, Bucket: bucket.Name, Name: fmt.Sprintf("c-%d", i), Tags: map[string]string{"even": strconv.FormatBool(i%2 == 0), "i": strconv.Itoa(i)}}
		managers := []domain.Manager{{Email: fmt.Sprintf("m%d@example.com", i%3)}, {Email: "all@example.com"}, {Email: "all@example.com", Sub: "twice"}}
		if _, err := b.CreateConsumer(t.Context(), c, managers, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		filter access.ConsumerFilter
		want   []string
	}{
		{access.ConsumerFilter{Tags: map[string]string{"even": "true"}}, []string{"c-0", "c-2", "c-4"}},
		{access.ConsumerFilter{Tags: map[string]string{"even": "true", "i": "4"}}, []string{"c-4"}},
		{access.ConsumerFilter{Tags: map[string]string{"even": "false", "i": "4"}}, nil},
		{access.ConsumerFilter{ManagerEmail: "m1@example.com"}, []string{"c-1", "c-4"}},
		{access.ConsumerFilter{ManagerEmail: "m1@example.com", Tags: map[string]string{"even": "true"}}, []string{"c-4"}},
		{access.ConsumerFilter{ManagerEmail: "all@example.com"}, []string{"c-0", "c-1", "c-2", "c-3", "c-4", "c-5"}},
		{access.ConsumerFilter{ManagerEmail: "%@example.com"}, nil},
	} {
		if diff := cmp.Diff(test.want, b.consumerNames(t, bucket.Name, test.filter)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", test.filter, diff)
		}
	}
}

func testConsumerParts(t *testing.T, b *bench) {
	open, shut := b.bucket(t), b.bucket(t, func(b *domain.Bucket) { b.Retrievable = false })
	for _, bucket := range []domain.Bucket{open, shut} {
		made := []access.ConsumerView{b.consumer(t, bucket, 2), b.consumer(t, bucket, 0), b.consumer(t, bucket, 1)}
		for _, with := range []access.Parts{{}, {Keys: true}, {Keys: true, Secrets: true}, {Managers: true}} {
			list, _, err := b.ListConsumers(t.Context(), account, bucket.Name, access.ConsumerFilter{Page: all()}, with)
			if err != nil || len(list) != 3 {
				t.Fatalf("%d, %v", len(list), err)
			}
			for i, view := range list {
				one, err := b.GetConsumer(t.Context(), consumerRef(made[i]), with)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(view, one, storetest.Secrets()); diff != "" {
					t.Errorf("%+v (-listed +got):\n%s", with, diff)
				}
				want := shownKeys(made[i].Keys, with, bucket.Retrievable)
				if diff := cmp.Diff(want, view.Keys, storetest.Secrets()); diff != "" {
					t.Errorf("%+v: keys (-want +got):\n%s", with, diff)
				}
			}
		}
	}
}

// shownKeys returns what is read of keys that were made.
func shownKeys(made []domain.APIKey, with access.Parts, retrievable bool) []domain.APIKey {
	var shown []domain.APIKey
	for _, k := range made {
		k.Hash = nil
		if !with.Secrets || !retrievable {
			k.Key = ""
		}
		if with.Keys {
			shown = append(shown, k)
		}
	}
	return shown
}

func testUpdateConsumer(t *testing.T, b *bench) {
	before := b.consumer(t, b.bucket(t), 0, func(c *domain.Consumer) { c.Metadata = json.RawMessage(`{}`) })
	b.Clock.Advance(time.Minute)
	want := before.Consumer
	want.Description, want.Tags, want.UpdatedOn = "changed", map[string]string{"a": "b"}, noon.Add(time.Minute)
	want.Metadata, want.Scopes = json.RawMessage(`{"a":1}`), []domain.Scope{domain.ScopeAdmin}
	got, err := b.UpdateConsumer(t.Context(), consumerRef(before), func(c *domain.Consumer) error {
		if diff := cmp.Diff(before.Consumer, *c); diff != "" {
			t.Errorf("what is to be changed (-want +got):\n%s", diff)
		}
		*c = domain.Consumer{ID: "x", Account: "x", Bucket: "x", Name: "x", Description: want.Description, Tags: want.Tags, Metadata: want.Metadata, Scopes: want.Scopes}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("updated (-want +got):\n%s", diff)
	}
	_, err = b.UpdateConsumer(t.Context(), consumerRef(before), func(c *domain.Consumer) error {
		c.Description = "lost"
		return errChange
	})
	if !errors.Is(err, errChange) {
		t.Errorf("a refused change: %v", err)
	}
	read, err := b.GetConsumer(t.Context(), consumerRef(before), access.Parts{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, read.Consumer); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
}

// testConsumerGuard refuses everything that can be asked of a consumer: nothing changes.
func testConsumerGuard(t *testing.T, b *bench) {
	c := b.consumer(t, b.bucket(t), 2, func(c *domain.Consumer) { c.Scopes = []domain.Scope{domain.ScopeAdmin} })
	before, err := b.GetConsumer(t.Context(), consumerRef(c), everything())
	if err != nil {
		t.Fatal(err)
	}
	ref, asked := consumerRef(c), 0
	ref.Guard = func(got domain.Consumer) error {
		if diff := cmp.Diff(c.Consumer, got); diff != "" {
			t.Errorf("the guard sees (-want +got):\n%s", diff)
		}
		asked++
		return errChange
	}
	ctx, key := t.Context(), b.apiKey()
	calls := map[string]func() error{
		"get":         func() error { _, err := b.GetConsumer(ctx, ref, everything()); return err },
		"list keys":   func() error { _, _, err := b.ListKeys(ctx, ref, true, all()); return err },
		"get key":     func() error { _, err := b.GetKey(ctx, ref, c.Keys[0].ID, true); return err },
		"create keys": func() error { _, err := b.CreateKeys(ctx, ref, []domain.APIKey{key}); return err },
		"update key": func() error {
			_, err := b.UpdateKey(ctx, ref, c.Keys[0].ID, func(*domain.APIKey) error { return nil })
			return err
		},
		"delete key":     func() error { return b.DeleteKey(ctx, ref, c.Keys[0].ID) },
		"roll":           func() error { _, err := b.RollKeys(ctx, ref, key, time.Time{}); return err },
		"create manager": func() error { _, err := b.CreateManager(ctx, ref, domain.Manager{}); return err },
		"update": func() error {
			_, err := b.UpdateConsumer(ctx, ref, func(*domain.Consumer) error { return nil })
			return err
		},
		"delete": func() error { return b.DeleteConsumer(ctx, ref) },
	}
	for doing, call := range calls {
		if err := call(); !errors.Is(err, errChange) {
			t.Errorf("%s: %v", doing, err)
		}
	}
	if asked != len(calls) {
		t.Errorf("asked %d times for %d calls", asked, len(calls))
	}
	after, err := b.GetConsumer(ctx, consumerRef(c), everything())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after, storetest.Secrets()); diff != "" {
		t.Errorf("what was refused changed it (-before +after):\n%s", diff)
	}
}

func testDeleteConsumer(t *testing.T, b *bench) {
	bucket := b.bucket(t)
	c, kept := b.consumer(t, bucket, 2), b.consumer(t, bucket, 1)
	ref := consumerRef(c)
	ref.Tags = map[string]string{"a": "b"}
	storetest.WantNotFound(t, "with a tag that it lacks", b.DeleteConsumer(t.Context(), ref))
	if err := b.DeleteConsumer(t.Context(), consumerRef(c)); err != nil {
		t.Fatal(err)
	}
	for _, k := range c.Keys {
		_, _, err := b.FindKey(t.Context(), [][]byte{k.Hash})
		storetest.WantNotFound(t, "its key", err)
	}
	if _, _, err := b.FindKey(t.Context(), [][]byte{kept.Keys[0].Hash}); err != nil {
		t.Errorf("another's key: %v", err)
	}
	storetest.WantNotFound(t, "again", b.DeleteConsumer(t.Context(), consumerRef(c)))
	fresh := b.consumer(t, bucket, 0, func(f *domain.Consumer) { f.Name = c.Name })
	if read, err := b.GetConsumer(t.Context(), consumerRef(fresh), everything()); err != nil || len(read.Keys) != 0 || len(read.Managers) != 0 {
		t.Errorf("of the old one came back %+v, %v", read, err)
	}
}

// testConsumerApart asks for a consumer with every part of its name wrong in turn.
func testConsumerApart(t *testing.T, b *bench) {
	if _, _, err := b.CreateAccount(t.Context(), "other", b.apiKey()); err != nil {
		t.Fatal(err)
	}
	bucket, next := b.bucket(t), b.bucket(t)
	c := b.consumer(t, bucket, 1, func(c *domain.Consumer) { c.Tags = map[string]string{"a": "b"} })
	twin := b.consumer(t, next, 1)
	b.bucket(t, func(b *domain.Bucket) { b.Account, b.Name = "other", bucket.Name })
	good := consumerRef(c)
	good.Tags = map[string]string{"a": "b"}
	if _, err := b.GetConsumer(t.Context(), good, access.Parts{}); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*access.ConsumerRef){
		"account":        func(r *access.ConsumerRef) { r.Account = "other" },
		"bucket":         func(r *access.ConsumerRef) { r.Bucket = next.Name },
		"no bucket":      func(r *access.ConsumerRef) { r.Bucket = "nowhere" },
		"consumer":       func(r *access.ConsumerRef) { r.Consumer = "nobody" },
		"twin":           func(r *access.ConsumerRef) { r.Consumer = twin.Name },
		"tag":            func(r *access.ConsumerRef) { r.Tags = map[string]string{"a": "c"} },
		"one tag of two": func(r *access.ConsumerRef) { r.Tags = map[string]string{"a": "b", "c": "d"} },
	} {
		ref, ctx, id, key := good, t.Context(), c.Keys[0].ID, b.apiKey()
		change(&ref)
		for doing, call := range map[string]func() error{
			"get":         func() error { _, err := b.GetConsumer(ctx, ref, everything()); return err },
			"list keys":   func() error { _, _, err := b.ListKeys(ctx, ref, false, all()); return err },
			"get key":     func() error { _, err := b.GetKey(ctx, ref, id, false); return err },
			"create keys": func() error { _, err := b.CreateKeys(ctx, ref, []domain.APIKey{key}); return err },
			"update key": func() error {
				_, err := b.UpdateKey(ctx, ref, id, func(*domain.APIKey) error { return nil })
				return err
			},
			"delete key":     func() error { return b.DeleteKey(ctx, ref, id) },
			"roll":           func() error { _, err := b.RollKeys(ctx, ref, key, time.Time{}); return err },
			"create manager": func() error { _, err := b.CreateManager(ctx, ref, domain.Manager{}); return err },
			"list managers":  func() error { _, _, err := b.ListManagers(ctx, ref, all()); return err },
			"delete manager": func() error { return b.DeleteManager(ctx, ref, "x") },
			"update": func() error {
				_, err := b.UpdateConsumer(ctx, ref, func(*domain.Consumer) error { return nil })
				return err
			},
			"delete": func() error { return b.DeleteConsumer(ctx, ref) },
		} {
			storetest.WantNotFound(t, "wrong "+name+": "+doing, call())
		}
	}
	// A key is found through its own consumer alone.
	_, err := b.GetKey(t.Context(), consumerRef(twin), c.Keys[0].ID, false)
	storetest.WantNotFound(t, "another's key", err)
	storetest.WantNotFound(t, "another's key", b.DeleteKey(t.Context(), consumerRef(twin), c.Keys[0].ID))
	_, err = b.UpdateKey(t.Context(), consumerRef(twin), c.Keys[0].ID, func(*domain.APIKey) error { return nil })
	storetest.WantNotFound(t, "another's key", err)
}

func testManagers(t *testing.T, b *bench) {
	bucket := b.bucket(t)
	c, other := b.consumer(t, bucket, 0), b.consumer(t, bucket, 0)
	var want []domain.Manager
	for i := range 3 {
		m, err := b.CreateManager(t.Context(), consumerRef(c), domain.Manager{Email: fmt.Sprintf("%d@example.com", i), Sub: strconv.Itoa(i)})
		if err != nil {
			t.Fatal(err)
		}
		wantID(t, m.ID, "eusr", 24)
		want = append(want, m)
	}
	list, total, err := b.ListManagers(t.Context(), consumerRef(c), store.Page{Limit: 2, Offset: 1})
	if err != nil || total != 3 {
		t.Fatalf("%d, %v", total, err)
	}
	if diff := cmp.Diff(want[1:], list); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
	storetest.WantNotFound(t, "another's", b.DeleteManager(t.Context(), consumerRef(other), want[0].ID))
	if err := b.DeleteManager(t.Context(), consumerRef(c), want[0].ID); err != nil {
		t.Fatal(err)
	}
	storetest.WantNotFound(t, "again", b.DeleteManager(t.Context(), consumerRef(c), want[0].ID))
	view, err := b.GetConsumer(t.Context(), consumerRef(c), everything())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want[1:], view.Managers); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

// testConsumerBucketRace deletes a bucket while consumers and keys are made in it: what
// was made is gone with it, what comes later finds nothing.
func testConsumerBucketRace(t *testing.T, b *bench) {
	for range 5 {
		bucket := b.bucket(t)
		first := b.consumer(t, bucket, 1)
		hashes := make(chan []byte, 40)
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				key := b.apiKey()
				var err error
				if i%2 == 0 {
					_, err = b.CreateKeys(t.Context(), consumerRef(first), []domain.APIKey{key})
				} else {
					c := domain.Consumer{Account: account, Bucket: bucket.Name, Name: fmt.Sprintf("c-%d", i)}
					_, err = b.CreateConsumer(t.Context(), c, nil, []domain.APIKey{key})
				}
				if err != nil && !errors.Is(err, domain.ErrNotFound) {
					t.Errorf("create: %v", err)
				}
				hashes <- key.Hash
			})
		}
		wg.Go(func() {
			ref := bucketRef(bucket)
			ref.Guard = func(domain.Consumer) error { return nil }
			if err := b.DeleteBucket(t.Context(), ref); err != nil {
				t.Errorf("delete: %v", err)
			}
		})
		wg.Wait()
		close(hashes)
		for hash := range hashes {
			_, _, err := b.FindKey(t.Context(), [][]byte{hash})
			storetest.WantNotFound(t, "a key of a deleted bucket", err)
		}
	}
}
