package api_test

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/domain"
)

// page is what a page of any list may have, with room for what is around the entries.
const page = 4<<20 + 4<<10

// However large the entries of a list are, an answer ends at 4 MiB, and the pages lead to all
// of them.
func TestPagesEndBySize(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		t.Run("events", func(t *testing.T) { largeEvents(t, r.in(t)) })
		t.Run("consumers", func(t *testing.T) { largeConsumers(t, r.in(t)) })
		t.Run("webhooks", func(t *testing.T) { largeWebhooks(t, r.in(t)) })
	})
}

func largeEvents(t *testing.T, r *rig) {
	t.Helper()
	note := strings.Repeat("x", 255<<10)
	const events = 20
	for i := range events {
		r.insist(http.MethodPost, "/v1/events", fmt.Sprintf(`{"id":"evt_%d","type":"shipment.created","data":{"shipmentId":"s","note":%q}}`, i, note)).want(http.StatusAccepted)
	}
	seen, query := map[any]bool{}, "?limit=1000"
	for pages := 1; ; pages++ {
		a := r.insist(http.MethodGet, "/v1/events"+query, "").want(http.StatusOK)
		if len(a.body) > page {
			t.Fatalf("an answer has %d bytes", len(a.body))
		}
		for _, e := range a.items("data") {
			seen[e["id"]] = true
		}
		next, ok := a.object()["nextCursor"].(string)
		if !ok {
			if pages < 2 || len(seen) != events {
				t.Errorf("%d events on %d pages", len(seen), pages)
			}
			return
		}
		query = "?limit=1000&cursor=" + url.QueryEscape(next)
	}
}

func largeConsumers(t *testing.T, r *rig) {
	t.Helper()
	path := r.bucket("large-consumers")
	body := `{"name":"c%d","metadata":{"a":"` + strings.Repeat("x", 16<<10-8) + `"},"tags":{"b":"` + strings.Repeat("y", 16<<10-8) + `"},"apiKeys":[{},{}]}`
	var want []string
	for i := range 140 {
		r.insist(http.MethodPost, path+"/consumers", fmt.Sprintf(body, i)).want(http.StatusCreated)
		want = append(want, fmt.Sprintf("c%d", i))
	}
	// What was stored before there was a bound is still shown.
	large := domain.Consumer{Account: domain.DefaultAccount, Bucket: "large-consumers", Name: "old", Metadata: []byte(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`)}
	if _, err := r.store.CreateConsumer(t.Context(), large, nil, nil); err != nil {
		t.Fatal(err)
	}
	want = append(want, "old")
	for _, query := range []string{"?limit=1000", "?limit=1000&include-api-keys=true&key-format=visible&include-managers=true"} {
		var got []string
		for len(got) < len(want) {
			a := r.insist(http.MethodGet, fmt.Sprintf("%s/consumers%s&offset=%d", path, query, len(got)), "").want(http.StatusOK)
			a.field("total", float64(len(want))).field("limit", 1000.)
			if names := a.names(); len(a.body) <= page && len(names) > 0 {
				got = append(got, names...)
				continue
			}
			t.Fatalf("an answer has %d bytes", len(a.body))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
}

func largeWebhooks(t *testing.T, r *rig) {
	t.Helper()
	const webhooks = 720
	for range webhooks {
		w := domain.Webhook{
			ID: domain.WebhookID(uuid.NewString()), Account: domain.DefaultAccount, URL: "https://example.com/", Events: domain.EventTypes(), Active: true,
			Timeout: domain.DefaultTimeout, MaxInFlight: domain.DefaultMaxInFlight, Secret: domain.NewSecret(),
			Description: strings.Repeat("\x01", 1024), // six bytes each in JSON
		}
		if _, _, err := r.store.CreateWebhook(t.Context(), w, nil); err != nil {
			t.Fatal(err)
		}
	}
	path, seen := "/v1/webhooks", map[any]bool{}
	for pages := 1; ; pages++ {
		a := r.insist(http.MethodGet, path, "").want(http.StatusOK)
		var list []map[string]any
		a.into(&list)
		if len(a.body) > page || a.header.Get("X-Total-Count") != strconv.Itoa(webhooks) {
			t.Fatalf("%d webhooks in %d bytes, X-Total-Count %q", len(list), len(a.body), a.header.Get("X-Total-Count"))
		}
		for _, w := range list {
			seen[w["id"]] = true
		}
		_, rest, more := strings.Cut(a.header.Get("Link"), `rel="prev", <`)
		if pages == 1 {
			_, rest, more = strings.Cut(a.header.Get("Link"), `rel="first", <`)
		}
		if !more {
			if pages < 2 || len(seen) != webhooks {
				t.Errorf("%d webhooks on %d pages; Link is %s", len(seen), pages, a.header.Get("Link"))
			}
			return
		}
		path, _, _ = strings.Cut(rest, ">")
	}
}

// Tags and metadata are small; a limit of bytes says so before anything is stored.
func TestTagsAndMetadataAreSmall(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	bucket := r.bucket("small")
	consumer := bucket + "/consumers"
	_, _ = r.holder(bucket, "there")
	tags := func(size int) string { return `"tags":{"a":"` + strings.Repeat("x", size) + `","b":"c"}` }
	metadata := func(size int) string { return `"metadata":{"a":"` + strings.Repeat("x", size) + `"}` }
	for _, c := range []struct {
		method, path, body string
		status             int
		pointers           []string
	}{
		{http.MethodPost, consumer, `{"name":"c1",` + tags(16<<10-15) + `}`, http.StatusCreated, nil},
		{http.MethodPost, consumer, `{"name":"c2",` + metadata(16<<10-8) + `}`, http.StatusCreated, nil},
		{http.MethodPost, consumer, `{"name":"c3",` + tags(16<<10) + `,` + metadata(16<<10) + `}`, http.StatusBadRequest, []string{"/metadata", "/tags"}},
		{http.MethodPatch, consumer + "/there", `{` + tags(16<<10) + `}`, http.StatusBadRequest, []string{"/tags"}},
		{http.MethodPatch, consumer + "/there", `{` + metadata(16<<10) + `}`, http.StatusBadRequest, []string{"/metadata"}},
		{http.MethodPatch, bucket, `{` + tags(16<<10) + `}`, http.StatusBadRequest, []string{"/tags"}},
		{http.MethodPost, bucketsPath, `{"name":"another",` + tags(900<<10) + `}`, http.StatusBadRequest, []string{"/tags"}},
	} {
		a := r.do(c.method, c.path, c.body).want(c.status)
		if c.pointers != nil {
			a.faults(c.pointers...)
		}
	}
	// What is large already can be read, kept through a change of something else, and replaced.
	large := domain.Consumer{Account: domain.DefaultAccount, Bucket: "small", Name: "old", Metadata: []byte(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`)}
	if _, err := r.store.CreateConsumer(t.Context(), large, nil, nil); err != nil {
		t.Fatal(err)
	}
	r.do(http.MethodPatch, consumer+"/old", `{"description":"d"}`).want(http.StatusOK)
	if kept, err := r.store.GetConsumer(t.Context(), access.ConsumerRef{Account: domain.DefaultAccount, Bucket: "small", Consumer: "old"}, access.Parts{}); err != nil || len(kept.Metadata) < 1<<20 {
		t.Errorf("%d bytes of metadata are left, %v", len(kept.Metadata), err)
	}
	r.do(http.MethodPatch, consumer+"/old", `{"metadata":{}}`).want(http.StatusOK)
}

// A cursor that is made up is the caller's fault on either database.
func TestForgedCursors(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(_ *testing.T, r *rig) {
		for _, forged := range []string{
			`{"l":"e","a":"default","t":9223372036854775807,"i":"evt_1"}`, `{"l":"e","a":"default","t":1750000000000,"i":"a\u0000b"}`,
			`{"l":"d","a":"default","i":"7n42DGM5Tflk9n8mt7Fhc7"}`,
		} {
			sum := binary.BigEndian.AppendUint32([]byte(forged), crc32.ChecksumIEEE([]byte(forged)))
			for _, cursor := range [][]byte{[]byte(forged), sum} {
				for _, path := range []string{"/v1/events", "/v1/deliveries", "/v1/rejected"} {
					r.do(http.MethodGet, path+"?cursor="+base64.RawURLEncoding.EncodeToString(cursor), "").faults("?cursor")
				}
			}
		}
		for _, cursor := range []string{"%00", "%ff", "1%00", "-1", "99999999999999999999", "0", "1.5", "%0a1"} {
			r.do(http.MethodGet, "/v1/rejected?cursor="+cursor, "").faults("?cursor")
		}
	})
}
