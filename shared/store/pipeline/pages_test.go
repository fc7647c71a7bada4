package pipeline_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/pipeline/pipelinetest"
	"waybill.dev/shared/store/storetest"
)

// Lists whose rows are large: their pages end by size, and yet lead to every row.
func pageTests() storetest.Tests[*bench] {
	return storetest.Tests[*bench]{
		"ends a page of large events":   testLargeEvents,
		"ends a list of large webhooks": testLargeWebhooks,
	}
}

const kib = 1 << 10

func testLargeEvents(t *testing.T, b *bench) {
	filler := strings.Repeat("x", 255*kib)
	var want []string
	for i := range 40 {
		e := pipelinetest.Event(fmt.Sprintf("evt_%02d", i))
		e.Type = domain.EventTypes()[i%3]
		e.Payload = append(bytes.TrimSuffix(e.Payload, []byte("}}")), `,"note":"`+filler+`"}}`...)
		b.Submit(t, pipeline.Submission{Account: account, Events: []domain.Event{e}})
		b.Clock.Advance(1)
		want = append(want, e.ID)
	}
	b.Submit(t, pipeline.Submission{Account: account, Events: []domain.Event{pipelinetest.Event("evt_small")}})
	var got []string
	filter := pipeline.EventFilter{Account: account, Limit: 1000}
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

func testLargeWebhooks(t *testing.T, b *bench) {
	var want []string
	for range 8 {
		w := b.Webhook(t, func(w *domain.Webhook) {
			w.Headers = []domain.Header{{Name: "X-Large", Value: domain.Secret(strings.Repeat("x", 900*kib))}}
		})
		want = append(want, string(w.ID))
	}
	for _, limit := range []int{0, 1000} {
		got := storetest.Walk(t, len(want), func(offset int) ([]string, int, int) {
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
