package storetest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

func accountTests() map[string]func(*testing.T, *bench) {
	return map[string]func(*testing.T, *bench){
		"begins with the default account":   testDefaultAccount,
		"makes an account with its key":     testCreateAccount,
		"lists accounts in pages":           testListAccounts,
		"makes a project with its buckets":  testCreateProject,
		"makes a project whole or not":      testCreateProjectConflict,
		"keeps every field of a bucket":     testBucketFields,
		"lists buckets oldest first":        testListBuckets,
		"filters buckets by odd tags":       testBucketTags,
		"updates a bucket":                  testUpdateBucket,
		"deletes a bucket with all in it":   testDeleteBucket,
		"makes a bucket name once":          testBucketConcurrent,
		"loses no concurrent bucket update": testBucketConcurrentUpdates,
		"keeps accounts' buckets apart":     testBucketAccounts,
		"finds no name that can't be kept":  testUnstorable,
	}
}

// apiKey makes up a key; the store does not look at its form.
func (b *bench) apiKey() domain.APIKey {
	text := fmt.Sprintf("wbk_%032d_%08x", b.next(), b.next())
	hash := sha256.Sum256([]byte(text))
	return domain.APIKey{Key: domain.Secret(text), Suffix: text[len(text)-8:], Hash: hash[:]}
}

func (b *bench) bucket(t *testing.T, change ...func(*domain.Bucket)) domain.Bucket {
	t.Helper()
	bucket := domain.Bucket{Account: account, Name: fmt.Sprintf("bucket-%d", b.next()), Retrievable: true}
	for _, c := range change {
		c(&bucket)
	}
	created, err := b.CreateBucket(t.Context(), bucket)
	if err != nil {
		t.Fatalf("create bucket: %v", err)
	}
	return created
}

func bucketRef(b domain.Bucket) store.BucketRef {
	return store.BucketRef{Account: b.Account, Bucket: b.Name}
}

// all is a page of everything.
func all() store.Page { return store.Page{Limit: 1000} }

func wantConflict(t *testing.T, doing string, err error) {
	t.Helper()
	if !errors.Is(err, domain.ErrConflict) {
		t.Errorf("%s: %v, want a conflict", doing, err)
	}
}

func wantID(t *testing.T, id, prefix string, length int) {
	t.Helper()
	if !regexp.MustCompile(fmt.Sprintf("^%s_[0-9A-Za-z]{%d}$", prefix, length)).MatchString(id) {
		t.Errorf("id %q", id)
	}
}

func testDefaultAccount(t *testing.T, b *bench) {
	got, err := b.GetAccount(t.Context(), domain.DefaultAccount)
	if err != nil || got.Name != domain.DefaultAccount {
		t.Fatalf("%+v, %v", got, err)
	}
	wantID(t, got.ID, "acct", 24)
	if age := time.Since(got.CreatedOn); age < -time.Minute || age > time.Hour || !got.CreatedOn.Equal(got.CreatedOn.Truncate(time.Millisecond)) {
		t.Errorf("made on %v", got.CreatedOn)
	}
	_, err = b.GetAccount(t.Context(), "other")
	wantNotFound(t, "another account", err)
}

func testCreateAccount(t *testing.T, b *bench) {
	key := b.apiKey()
	a, got, err := b.CreateAccount(t.Context(), "acme", key)
	if err != nil {
		t.Fatal(err)
	}
	wantID(t, a.ID, "acct", 24)
	wantID(t, got.ID, "key", 24)
	if a.Name != "acme" || !a.CreatedOn.Equal(noon) || got.Key.Reveal() != key.Key.Reveal() || !got.ExpiresOn.IsZero() {
		t.Errorf("%+v, %+v", a, got)
	}
	holder, which, err := b.FindKey(t.Context(), [][]byte{key.Hash})
	if err != nil || which != 0 {
		t.Fatalf("%d, %v", which, err)
	}
	want := domain.KeyHolder{
		KeyID: got.ID, Account: "acme", Bucket: "admin", ConsumerID: holder.ConsumerID, Consumer: "admin",
		Scopes: []domain.Scope{domain.ScopeAdmin},
	}
	if diff := cmp.Diff(want, holder); diff != "" {
		t.Errorf("holder (-want +got):\n%s", diff)
	}
	bucket, err := b.GetBucket(t.Context(), store.BucketRef{Account: "acme", Bucket: "admin"})
	if err != nil || bucket.Retrievable {
		t.Errorf("%+v, %v", bucket, err)
	}
	_, _, err = b.CreateAccount(t.Context(), "acme", b.apiKey())
	wantConflict(t, "again", err)
	_, _, err = b.CreateAccount(t.Context(), domain.DefaultAccount, b.apiKey())
	wantConflict(t, "the default account", err)
	_, _, err = b.CreateAccount(t.Context(), "late", key)
	wantConflict(t, "a known key", err)
	_, err = b.GetAccount(t.Context(), "late")
	wantNotFound(t, "the account of a known key", err)
}

func testListAccounts(t *testing.T, b *bench) {
	b.clock.set(time.Now().Add(time.Hour)) // the default account is as old as the database
	want := []string{domain.DefaultAccount}
	for i := range 4 {
		name := fmt.Sprintf("account-%d", 9-i)
		if _, _, err := b.CreateAccount(t.Context(), name, b.apiKey()); err != nil {
			t.Fatal(err)
		}
		want = append(want, name)
	}
	var got []string
	for offset := 0; offset < 6; offset += 2 {
		page, total, err := b.ListAccounts(t.Context(), store.Page{Limit: 2, Offset: offset})
		if err != nil || total != 5 {
			t.Fatalf("%d, %v", total, err)
		}
		for _, a := range page {
			got = append(got, a.Name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func testCreateProject(t *testing.T, b *bench) {
	p, err := b.CreateProject(t.Context(), account, "parcels")
	if err != nil {
		t.Fatal(err)
	}
	wantID(t, p.ID, "prj", 24)
	if p.Account != account || p.Name != "parcels" || !p.CreatedOn.Equal(noon) {
		t.Errorf("%+v", p)
	}
	buckets, total, err := b.ListBuckets(t.Context(), account, nil, all())
	if err != nil || total != 3 {
		t.Fatalf("%d, %v", total, err)
	}
	for i, name := range []string{"parcels-production", "parcels-preview", "parcels-working-copy"} {
		if buckets[i].Name != name || !buckets[i].Retrievable {
			t.Errorf("%+v, want %s", buckets[i], name)
		}
	}
	projects, total, err := b.ListProjects(t.Context(), account, all())
	if err != nil || total != 1 {
		t.Fatalf("%d, %v", total, err)
	}
	if diff := cmp.Diff([]domain.Project{p}, projects); diff != "" {
		t.Errorf("projects (-want +got):\n%s", diff)
	}
	if list, total, err := b.ListProjects(t.Context(), "other", all()); err != nil || total != 0 || len(list) != 0 {
		t.Errorf("another account: %d, %v", total, err)
	}
	_, err = b.CreateProject(t.Context(), "other", "parcels")
	wantNotFound(t, "in no account", err)
}

func testCreateProjectConflict(t *testing.T, b *bench) {
	taken := b.bucket(t, func(b *domain.Bucket) { b.Name = "parcels-preview" })
	_, err := b.CreateProject(t.Context(), account, "parcels")
	wantConflict(t, "with a bucket that is there", err)
	buckets, _, err := b.ListBuckets(t.Context(), account, nil, all())
	if err != nil || len(buckets) != 1 || buckets[0].ID != taken.ID {
		t.Errorf("%d buckets, %v", len(buckets), err)
	}
	if _, total, err := b.ListProjects(t.Context(), account, all()); err != nil || total != 0 {
		t.Errorf("%d projects, %v", total, err)
	}
	if _, err := b.CreateProject(t.Context(), account, "letters"); err != nil {
		t.Fatal(err)
	}
	_, err = b.CreateProject(t.Context(), account, "letters")
	wantConflict(t, "again", err)
}

func testBucketFields(t *testing.T, b *bench) {
	want := domain.Bucket{
		Account: account, Name: "bucket", Description: "größer ☃", Retrievable: true, CreatedOn: noon, UpdatedOn: noon,
		Tags: map[string]string{"": "empty name", "empty value": "", "a.b": "c", "line\nbreak": "\"\u0000\\", "☃": "ü"},
	}
	got, err := b.CreateBucket(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	wantID(t, got.ID, "bckt", 32)
	want.ID = got.ID
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	read, err := b.GetBucket(t.Context(), bucketRef(got))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, read); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	bare := b.bucket(t, func(b *domain.Bucket) { b.Retrievable = false })
	if read, err := b.GetBucket(t.Context(), bucketRef(bare)); err != nil || read.Retrievable || read.Tags == nil || len(read.Tags) != 0 {
		t.Errorf("%+v, %v", read, err)
	}
	_, err = b.CreateBucket(t.Context(), domain.Bucket{Account: account, Name: "bucket"})
	wantConflict(t, "again", err)
	_, err = b.CreateBucket(t.Context(), domain.Bucket{Account: "other", Name: "bucket"})
	wantNotFound(t, "in no account", err)
}

func testListBuckets(t *testing.T, b *bench) {
	var want []string
	for i := range 7 {
		want = append(want, b.bucket(t).Name)
		if i%3 == 2 {
			b.clock.advance(time.Millisecond)
		}
	}
	var got []string
	for offset := 0; offset < 9; offset += 3 {
		page, total, err := b.ListBuckets(t.Context(), account, nil, store.Page{Limit: 3, Offset: offset})
		if err != nil || total != 7 {
			t.Fatalf("total %d, %v", total, err)
		}
		for _, bucket := range page {
			got = append(got, bucket.Name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	for _, offset := range []int{7, 1 << 32, 1 << 40} {
		page, total, err := b.ListBuckets(t.Context(), account, nil, store.Page{Limit: 1000, Offset: offset})
		if err != nil || total != 7 || len(page) != 0 {
			t.Errorf("after %d: %d of %d, %v", offset, len(page), total, err)
		}
	}
}

func testBucketTags(t *testing.T, b *bench) {
	odd := map[string]string{
		"env": "prod", "%": "_", "a": "b\"],[\"c", "quote\"": "'", "\\": "\n", "☃": "\u0000", "ENV": "Prod", "": "",
	}
	tagged := b.bucket(t, func(b *domain.Bucket) { b.Tags = odd })
	other := b.bucket(t, func(b *domain.Bucket) { b.Tags = map[string]string{"env": "prod", "x": "y"} })
	b.bucket(t)
	find := func(tags map[string]string) []string {
		t.Helper()
		list, total, err := b.ListBuckets(t.Context(), account, tags, all())
		if err != nil || total != len(list) {
			t.Fatalf("%d of %d, %v", len(list), total, err)
		}
		var names []string
		for _, bucket := range list {
			names = append(names, bucket.Name)
		}
		return names
	}
	for name, value := range odd {
		want := []string{tagged.Name}
		if name == "env" {
			want = append(want, other.Name)
		}
		if diff := cmp.Diff(want, find(map[string]string{name: value})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", name, diff)
		}
	}
	if got := find(odd); len(got) != 1 {
		t.Errorf("all of them: %v", got)
	}
	for _, tags := range []map[string]string{
		{"env": "Prod"}, {"env": "pro"}, {"nv": "prod"}, {"env": "prod", "no": "x"}, {"a": "b"}, {"_": "_"}, {"\xff": ""}, {"no": ""},
	} {
		if got := find(tags); len(got) != 0 {
			t.Errorf("%q finds %v", tags, got)
		}
		_, err := b.GetBucket(t.Context(), store.BucketRef{Account: account, Bucket: tagged.Name, Tags: tags})
		wantNotFound(t, fmt.Sprintf("with %q", tags), err)
	}
	if _, err := b.GetBucket(t.Context(), store.BucketRef{Account: account, Bucket: tagged.Name, Tags: odd}); err != nil {
		t.Error(err)
	}
}

func testUpdateBucket(t *testing.T, b *bench) {
	before := b.bucket(t, func(b *domain.Bucket) { b.Tags = map[string]string{"a": "b"} })
	b.clock.advance(time.Minute)
	got, err := b.UpdateBucket(t.Context(), bucketRef(before), func(bucket *domain.Bucket) error {
		bucket.ID, bucket.Account, bucket.Name, bucket.Retrievable = "x", "x", "x", false
		bucket.CreatedOn, bucket.UpdatedOn = time.Time{}, time.Time{}
		bucket.Description, bucket.Tags = "changed", map[string]string{"c": "d"}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := before
	want.Description, want.Tags, want.UpdatedOn = "changed", map[string]string{"c": "d"}, noon.Add(time.Minute)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("updated (-want +got):\n%s", diff)
	}
	_, err = b.UpdateBucket(t.Context(), bucketRef(before), func(bucket *domain.Bucket) error {
		bucket.Description = "lost"
		return errChange
	})
	if !errors.Is(err, errChange) {
		t.Errorf("a refused change: %v", err)
	}
	if read, err := b.GetBucket(t.Context(), bucketRef(before)); err != nil || !cmp.Equal(want, read) {
		t.Errorf("%+v, %v", read, err)
	}
	none := bucketRef(before)
	none.Tags = map[string]string{"a": "b"}
	_, err = b.UpdateBucket(t.Context(), none, func(*domain.Bucket) error { return nil })
	wantNotFound(t, "with tags that it no longer has", err)
}

var errChange = errors.New("refused") //nolint:gochecknoglobals // compared with

func testDeleteBucket(t *testing.T, b *bench) {
	bucket, kept := b.bucket(t, func(b *domain.Bucket) { b.Tags = map[string]string{"a": "b"} }), b.bucket(t)
	var hashes [][]byte
	for range 3 {
		view := b.consumer(t, bucket, 2)
		hashes = append(hashes, view.Keys[0].Hash, view.Keys[1].Hash)
	}
	safe := b.consumer(t, kept, 1)
	ref := bucketRef(bucket)
	ref.Tags = map[string]string{"a": "c"}
	wantNotFound(t, "with another tag", b.DeleteBucket(t.Context(), ref))
	ref.Tags = nil
	asked := 0
	ref.Guard = func(domain.Consumer) error {
		if asked++; asked == 3 {
			return errChange
		}
		return nil
	}
	if err := b.DeleteBucket(t.Context(), ref); !errors.Is(err, errChange) || asked != 3 {
		t.Errorf("guarded: %v after %d", err, asked)
	}
	for _, hash := range hashes {
		if _, _, err := b.FindKey(t.Context(), [][]byte{hash}); err != nil {
			t.Errorf("a refused deletion took a key: %v", err)
		}
	}
	ref.Guard = nil
	if err := b.DeleteBucket(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	for _, hash := range hashes {
		_, _, err := b.FindKey(t.Context(), [][]byte{hash})
		wantNotFound(t, "a key of a deleted bucket", err)
	}
	wantNotFound(t, "again", b.DeleteBucket(t.Context(), ref))
	_, err := b.GetBucket(t.Context(), ref)
	wantNotFound(t, "get", err)
	if _, _, err := b.FindKey(t.Context(), [][]byte{safe.Keys[0].Hash}); err != nil {
		t.Errorf("another bucket's key: %v", err)
	}
	// The name is free again, and nothing of the old bucket comes back with it.
	fresh := b.bucket(t, func(b *domain.Bucket) { b.Name = bucket.Name })
	if list, total, err := b.ListConsumers(t.Context(), account, fresh.Name, store.ConsumerFilter{Page: all()}, store.Parts{}); err != nil || total != 0 || len(list) != 0 {
		t.Errorf("%d consumers, %v", total, err)
	}
}

func testBucketConcurrent(t *testing.T, b *bench) {
	var made, refused atomic.Int64
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			_, err := b.CreateBucket(t.Context(), domain.Bucket{Account: account, Name: "bucket"})
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
	if _, total, err := b.ListBuckets(t.Context(), account, nil, all()); err != nil || total != 1 {
		t.Errorf("%d buckets, %v", total, err)
	}
}

func testBucketConcurrentUpdates(t *testing.T, b *bench) {
	bucket := b.bucket(t)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			_, err := b.UpdateBucket(t.Context(), bucketRef(bucket), func(b *domain.Bucket) error {
				b.Tags[fmt.Sprint(i)] = "x"
				return nil
			})
			if err != nil {
				t.Errorf("update: %v", err)
			}
		})
	}
	wg.Wait()
	if got, err := b.GetBucket(t.Context(), bucketRef(bucket)); err != nil || len(got.Tags) != 20 {
		t.Errorf("%d tags, %v", len(got.Tags), err)
	}
}

func testBucketAccounts(t *testing.T, b *bench) {
	if _, _, err := b.CreateAccount(t.Context(), "other", b.apiKey()); err != nil {
		t.Fatal(err)
	}
	bucket := b.bucket(t)
	ref := store.BucketRef{Account: "other", Bucket: bucket.Name}
	_, err := b.GetBucket(t.Context(), ref)
	wantNotFound(t, "get", err)
	_, err = b.UpdateBucket(t.Context(), ref, func(*domain.Bucket) error { return nil })
	wantNotFound(t, "update", err)
	wantNotFound(t, "delete", b.DeleteBucket(t.Context(), ref))
	list, total, err := b.ListBuckets(t.Context(), "other", nil, all())
	if err != nil || total != 1 || list[0].Name != "admin" {
		t.Errorf("%d, %v", total, err)
	}
	same := b.bucket(t, func(b *domain.Bucket) { b.Account, b.Name = "other", bucket.Name })
	if same.ID == bucket.ID || bytes.Equal([]byte(same.Account), []byte(bucket.Account)) {
		t.Errorf("%+v", same)
	}
}

// testUnstorable asks for names that a caller can send and no database keeps.
func testUnstorable(t *testing.T, b *bench) {
	bucket := b.bucket(t)
	consumer := b.consumer(t, bucket, 0)
	for _, name := range []string{"\x00", "a\xffb", "\xed\xa0\x80"} {
		_, err := b.GetAccount(t.Context(), name)
		wantNotFound(t, "account", err)
		_, err = b.GetBucket(t.Context(), store.BucketRef{Account: account, Bucket: name})
		wantNotFound(t, "bucket", err)
		_, err = b.GetBucket(t.Context(), store.BucketRef{Account: name, Bucket: bucket.Name})
		wantNotFound(t, "bucket of an account", err)
		ref := consumerRef(consumer)
		ref.Consumer = name
		_, err = b.GetConsumer(t.Context(), ref, store.Parts{})
		wantNotFound(t, "consumer", err)
		_, err = b.GetKey(t.Context(), consumerRef(consumer), name, false)
		wantNotFound(t, "key", err)
		wantNotFound(t, "manager", b.DeleteManager(t.Context(), consumerRef(consumer), name))
		for doing, list := range map[string]func() (int, error){
			"buckets": func() (int, error) { _, n, err := b.ListBuckets(t.Context(), name, nil, all()); return n, err },
			"buckets by tag": func() (int, error) {
				_, n, err := b.ListBuckets(t.Context(), account, map[string]string{name: name}, all())
				return n, err
			},
			"projects": func() (int, error) { _, n, err := b.ListProjects(t.Context(), name, all()); return n, err },
			"audit by actor": func() (int, error) {
				_, n, err := b.ListAudit(t.Context(), store.AuditFilter{Account: account, Actor: name, Page: all()})
				return n, err
			},
			"audit by action": func() (int, error) {
				_, n, err := b.ListAudit(t.Context(), store.AuditFilter{Account: account, Action: name, Page: all()})
				return n, err
			},
			"consumers by manager": func() (int, error) {
				_, n, err := b.ListConsumers(t.Context(), account, bucket.Name, store.ConsumerFilter{ManagerEmail: name, Page: all()}, store.Parts{})
				return n, err
			},
		} {
			if n, err := list(); n != 0 || err != nil {
				t.Errorf("%s: %d, %v", doing, n, err)
			}
		}
	}
}
