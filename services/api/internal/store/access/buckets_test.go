package access_test

import (
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

func bucketTests() storetest.Tests[*bench] {
	return storetest.Tests[*bench]{
		"keeps every field of a bucket":     testBucketFields,
		"lists buckets oldest first":        testListBuckets,
		"filters buckets by odd tags":       testBucketTags,
		"updates a bucket":                  testUpdateBucket,
		"deletes a bucket with all in it":   testDeleteBucket,
		"makes a bucket name once":          testBucketConcurrent,
		"loses no concurrent bucket update": testBucketConcurrentUpdates,
		"keeps accounts' buckets apart":     testBucketAccounts,
	}
}

func (b *bench) bucket(t *testing.T, change ...func(*domain.Bucket)) domain.Bucket {
	t.Helper()
	bucket := domain.Bucket{Account: account, Name: fmt.Sprintf("bucket-%d", b.Next()), Retrievable: true}
	for _, c := range change {
		c(&bucket)
	}
	created, err := b.CreateBucket(t.Context(), bucket)
	if err != nil {
		t.Fatalf("create bucket: %v", err)
	}
	return created
}

func bucketRef(b domain.Bucket) access.BucketRef {
	return access.BucketRef{Account: b.Account, Bucket: b.Name}
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
	storetest.WantConflict(t, "again", err)
	_, err = b.CreateBucket(t.Context(), domain.Bucket{Account: "other", Name: "bucket"})
	storetest.WantNotFound(t, "in no account", err)
}

func testListBuckets(t *testing.T, b *bench) {
	var want []string
	for i := range 7 {
		want = append(want, b.bucket(t).Name)
		if i%3 == 2 {
			b.Clock.Advance(time.Millisecond)
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
		_, err := b.GetBucket(t.Context(), access.BucketRef{Account: account, Bucket: tagged.Name, Tags: tags})
		storetest.WantNotFound(t, fmt.Sprintf("with %q", tags), err)
	}
	if _, err := b.GetBucket(t.Context(), access.BucketRef{Account: account, Bucket: tagged.Name, Tags: odd}); err != nil {
		t.Error(err)
	}
}

func testUpdateBucket(t *testing.T, b *bench) {
	before := b.bucket(t, func(b *domain.Bucket) { b.Tags = map[string]string{"a": "b"} })
	b.Clock.Advance(time.Minute)
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
	storetest.WantNotFound(t, "with tags that it no longer has", err)
}

// errChange is why a change or a guard of a test refuses.
var errChange = errors.New("refused")

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
	storetest.WantNotFound(t, "with another tag", b.DeleteBucket(t.Context(), ref))
	ref.Tags = nil
	asked := 0
	ref.Guard = func(domain.Consumer) error {
		asked++
		if asked == 3 {
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
		storetest.WantNotFound(t, "a key of a deleted bucket", err)
	}
	storetest.WantNotFound(t, "again", b.DeleteBucket(t.Context(), ref))
	_, err := b.GetBucket(t.Context(), ref)
	storetest.WantNotFound(t, "get", err)
	if _, _, err := b.FindKey(t.Context(), [][]byte{safe.Keys[0].Hash}); err != nil {
		t.Errorf("another bucket's key: %v", err)
	}
	// The name is free again, and nothing of the old bucket comes back with it.
	fresh := b.bucket(t, func(b *domain.Bucket) { b.Name = bucket.Name })
	if list, total, err := b.ListConsumers(t.Context(), account, fresh.Name, access.ConsumerFilter{Page: all()}, access.Parts{}); err != nil || total != 0 || len(list) != 0 {
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
				b.Tags[strconv.Itoa(i)] = "x"
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
	ref := access.BucketRef{Account: "other", Bucket: bucket.Name}
	_, err := b.GetBucket(t.Context(), ref)
	storetest.WantNotFound(t, "get", err)
	_, err = b.UpdateBucket(t.Context(), ref, func(*domain.Bucket) error { return nil })
	storetest.WantNotFound(t, "update", err)
	storetest.WantNotFound(t, "delete", b.DeleteBucket(t.Context(), ref))
	list, total, err := b.ListBuckets(t.Context(), "other", nil, all())
	if err != nil || total != 1 || list[0].Name != "admin" {
		t.Errorf("%d, %v", total, err)
	}
	same := b.bucket(t, func(b *domain.Bucket) { b.Account, b.Name = "other", bucket.Name })
	if same.ID == bucket.ID || same.Account == bucket.Account {
		t.Errorf("%+v", same)
	}
}
