package storetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// Lists whose rows are large: their pages end by size, and yet lead to every row.
func pageTests() map[string]func(*testing.T, *bench) {
	return map[string]func(*testing.T, *bench){
		"ends a page of large events":            testLargeEvents,
		"ends a page of large buckets":           testLargeBuckets,
		"ends a page of large consumers":         testLargeConsumers,
		"ends a page of consumers by their keys": testConsumersOfManyKeys,
		"ends a list of large webhooks":          testLargeWebhooks,
	}
}

const kib = 1 << 10

func testLargeEvents(t *testing.T, b *bench) {
	filler := strings.Repeat("x", 255*kib)
	var want []string
	for i := range 40 {
		e := event(fmt.Sprintf("evt_%02d", i))
		e.Type = domain.EventTypes()[i%3]
		e.Payload = append(bytes.TrimSuffix(e.Payload, []byte("}}")), `,"note":"`+filler+`"}}`...)
		b.submit(t, store.Submission{Account: account, Events: []domain.Event{e}})
		b.clock.advance(1)
		want = append(want, e.ID)
	}
	b.submit(t, store.Submission{Account: account, Events: []domain.Event{event("evt_small")}})
	var got []string
	filter := store.EventFilter{Account: account, Limit: 1000}
	for pages := 0; ; pages++ {
		page, next, err := b.ListEvents(t.Context(), filter)
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, e := range page {
			size += len(e.Payload)
			got = append(got, e.ID)
		}
		if size > store.MaxPageBytes || len(page) == 0 {
			t.Fatalf("page %d has %d events of %d bytes", pages, len(page), size)
		}
		if next == "" {
			break
		}
		filter.Cursor = next
	}
	slices.Sort(got)
	if diff := cmp.Diff(append(want, "evt_small"), got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// walk reads a list by its offsets, and fails the test when a page is heavier than it may be
// or ends before the list does.
func walk(t *testing.T, total int, page func(offset int) (names []string, bytes, total int)) []string {
	t.Helper()
	var all []string
	for len(all) < total {
		names, size, n := page(len(all))
		if n != total || len(names) == 0 || size > store.MaxPageBytes && len(names) > 1 {
			t.Fatalf("after %d: %d entries of %d bytes, total %d, want %d", len(all), len(names), size, n, total)
		}
		all = append(all, names...)
	}
	return all
}

func testLargeBuckets(t *testing.T, b *bench) {
	var want []string
	for range 9 {
		bucket := b.bucket(t, func(bucket *domain.Bucket) { bucket.Tags = map[string]string{"large": strings.Repeat("x", 900*kib)} })
		want = append(want, bucket.Name)
	}
	got := walk(t, len(want), func(offset int) ([]string, int, int) {
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
	for _, with := range []store.Parts{{}, everything()} {
		got := walk(t, len(want), func(offset int) ([]string, int, int) {
			list, total, err := b.ListConsumers(t.Context(), account, bucket.Name, store.ConsumerFilter{Page: store.Page{Limit: 1000, Offset: offset}}, with)
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

// describedKeys makes n keys of a consumer, each with as long a description as there may be.
func (b *bench) describedKeys(t *testing.T, c store.ConsumerView, n int) {
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
	got := walk(t, len(want), func(offset int) ([]string, int, int) {
		pages++
		list, total, err := b.ListConsumers(t.Context(), account, bucket.Name, store.ConsumerFilter{Page: store.Page{Limit: 1000, Offset: offset}}, store.Parts{Keys: true})
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
	one, err := b.GetConsumer(t.Context(), store.ConsumerRef{Account: account, Bucket: bucket.Name, Consumer: want[0]}, everything())
	if err != nil || len(one.Keys) != 1000 {
		t.Errorf("one consumer comes with %d keys, %v", len(one.Keys), err)
	}
}

func testLargeWebhooks(t *testing.T, b *bench) {
	var want []string
	for range 8 {
		w := b.webhook(t, func(w *domain.Webhook) {
			w.Headers = []domain.Header{{Name: "X-Large", Value: domain.Secret(strings.Repeat("x", 900*kib))}}
		})
		want = append(want, string(w.ID))
	}
	for _, limit := range []int{0, 1000} {
		got := walk(t, len(want), func(offset int) ([]string, int, int) {
			list, healths, total, err := b.ListWebhooks(t.Context(), account, limit, offset)
			if err != nil || len(healths) != len(list) {
				t.Fatalf("%d webhooks, %d healths, %v", len(list), len(healths), err)
			}
			var names []string
			size := 0
			for _, w := range list {
				names, size = append(names, string(w.ID)), size+len(w.Headers[0].Value.Reveal())
			}
			return names, size, total
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("webhooks (-want +got):\n%s", diff)
		}
	}
}
