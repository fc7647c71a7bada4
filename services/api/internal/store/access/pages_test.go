package access_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/storetest"
)

// Lists whose rows are large: their pages end by size, and yet lead to every row.
func pageTests() storetest.Tests[*bench] {
	return storetest.Tests[*bench]{
		"ends a page of large buckets":           testLargeBuckets,
		"ends a page of large consumers":         testLargeConsumers,
		"ends a page of consumers by their keys": testConsumersOfManyKeys,
	}
}

const kib = 1 << 10

func testLargeBuckets(t *testing.T, b *bench) {
	var want []string
	for range 9 {
		bucket := b.bucket(t, func(bucket *domain.Bucket) { bucket.Tags = map[string]string{"large": strings.Repeat("x", 900*kib)} })
		want = append(want, bucket.Name)
	}
	got := storetest.Walk(t, len(want), func(offset int) ([]string, int, int) {
		list, total, err := b.ListBuckets(t.Context(), account, nil, store.Page{Limit: 1000, Offset: offset})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		size := 0
		for _, bucket := range list {
			names, size = append(names, bucket.Name), size+len(bucket.Tags["large"])
		}
		return names, size, total
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("buckets (-want +got):\n%s", diff)
	}
}

func testLargeConsumers(t *testing.T, b *bench) {
	bucket := b.bucket(t)
	var want []string
	for i := range 12 {
		size := 1000 * kib
		if i == 5 {
			size = 5000 * kib // more than a page: it is one by itself
		}
		c := b.consumer(t, bucket, 1, func(c *domain.Consumer) { c.Metadata = json.RawMessage(`{"a":"` + strings.Repeat("x", size) + `"}`) })
		want = append(want, c.Name)
	}
	for _, with := range []access.Parts{{}, everything()} {
		got := storetest.Walk(t, len(want), func(offset int) ([]string, int, int) {
			list, total, err := b.ListConsumers(t.Context(), account, bucket.Name, access.ConsumerFilter{Page: store.Page{Limit: 1000, Offset: offset}}, with)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			size := 0
			for _, c := range list {
				names, size = append(names, c.Name), size+len(c.Metadata)
				if with.Keys && len(c.Keys) != 1 {
					t.Errorf("%s has %d keys", c.Name, len(c.Keys))
				}
			}
			return names, size, total
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("consumers with %v (-want +got):\n%s", with, diff)
		}
	}
}

func testConsumersOfManyKeys(t *testing.T, b *bench) {
	bucket := b.bucket(t)
	var want []string
	for range 5 {
		c := b.consumer(t, bucket, 0)
		for range 2 {
			b.describedKeys(t, c, 550)
		}
		want = append(want, c.Name)
	}
	for range 60 {
		want = append(want, b.consumer(t, bucket, 0).Name)
	}
	pages := 0
	got := storetest.Walk(t, len(want), func(offset int) ([]string, int, int) {
		pages++
		list, total, err := b.ListConsumers(t.Context(), account, bucket.Name, access.ConsumerFilter{Page: store.Page{Limit: 1000, Offset: offset}}, access.Parts{Keys: true})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		size := 0
		for _, c := range list {
			names = append(names, c.Name)
			for _, k := range c.Keys {
				size += len(k.Description)
			}
			if len(c.Keys) != 0 && len(c.Keys) != 1000 {
				t.Errorf("%s comes with %d keys", c.Name, len(c.Keys))
			}
		}
		return names, size, total
	})
	if diff := cmp.Diff(want, got); diff != "" || pages < 3 {
		t.Errorf("consumers on %d pages (-want +got):\n%s", pages, diff)
	}
	one, err := b.GetConsumer(t.Context(), access.ConsumerRef{Account: account, Bucket: bucket.Name, Consumer: want[0]}, everything())
	if err != nil || len(one.Keys) != 1000 {
		t.Errorf("one consumer comes with %d keys, %v", len(one.Keys), err)
	}
}

// describedKeys makes n keys of a consumer, each with as long a description as there may be.
func (b *bench) describedKeys(t *testing.T, c access.ConsumerView, n int) {
	t.Helper()
	fresh := make([]domain.APIKey, n)
	for i := range fresh {
		fresh[i] = b.apiKey()
		fresh[i].Description = strings.Repeat("ä", 1024)
	}
	if _, err := b.CreateKeys(t.Context(), consumerRef(c), fresh); err != nil {
		t.Fatal(err)
	}
}
