package api_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sorted(texts []string) []string {
	texts = slices.Clone(texts)
	slices.Sort(texts)
	return texts
}

// canary is in every bad value: no answer and no log may repeat it.
const canary = "canary7f3a"

// Every bad input has its status, its code and all of its places, and is never echoed.
func TestBadInput(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	id := r.register(plainWebhook).text("id")
	hook := "/v1/webhooks/" + id
	long := strings.Repeat("x", 3000)
	batch := func(n int, more string) string {
		list := make([]string, 0, n+1)
		for i := range n {
			list = append(list, event(fmt.Sprint("e", i)))
		}
		if more != "" {
			list = append(list, more)
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	manyHeaders := make([]string, 0, 21)
	for i := range 21 {
		manyHeaders = append(manyHeaders, fmt.Sprintf(`"X-H-%d":"v"`, i))
	}
	with := func(more string) string {
		return `{"url":"http://127.0.0.1:9/","events":["shipment.created"],` + more + `}`
	}
	const post, patch, get = http.MethodPost, http.MethodPatch, http.MethodGet
	for _, tc := range []struct {
		name, method, path, body string
		status                   int
		places                   []string
	}{
		{"register nothing", post, "/v1/webhooks", `{}`, 400, []string{"/events", "/url"}},
		{"register without a body", post, "/v1/webhooks", ``, 400, []string{""}},
		{"register an array", post, "/v1/webhooks", `[]`, 400, []string{""}},
		{"not JSON", post, "/v1/webhooks", `{"url":` + canary, 400, []string{""}},
		{"garbage after it", post, "/v1/webhooks", plainWebhook + canary, 400, []string{""}},
		{"two bodies", post, "/v1/webhooks", plainWebhook + plainWebhook, 400, []string{""}},
		{"bad UTF-8", post, "/v1/webhooks", with("\"description\":\"" + canary + "\xff\""), 400, []string{""}},
		{"U+0000", post, "/v1/webhooks", with(`"description":"` + canary + `\u0000"`), 400, []string{"/description"}},
		{"key given twice", post, "/v1/webhooks", with(`"url":"http://127.0.0.1:9/` + canary + `"`), 400, []string{"/url"}},
		{"key in another case", post, "/v1/webhooks", with(`"URL":"http://127.0.0.1:9/` + canary + `"`), 400, []string{"/URL"}},
		{"unknown field", post, "/v1/webhooks", with(`"uri":"` + canary + `"`), 400, []string{"/uri"}},
		{"too deep", post, "/v1/webhooks", with(`"id":` + strings.Repeat("[", 64) + strings.Repeat("]", 64)), 400, []string{"/id" + strings.Repeat("/0", 63)}},
		{
			"wrong types", post, "/v1/webhooks",
			`{"url":1,"events":"shipment.created","active":"yes","description":{},"headers":[],"retryScheduleSeconds":5,"timeoutSeconds":"5","maxInFlight":"3","ratePerSecond":"1","secret":1}`,
			400,
			[]string{"/active", "/description", "/events", "/headers", "/maxInFlight", "/ratePerSecond", "/retryScheduleSeconds", "/secret", "/timeoutSeconds", "/url"},
		},
		{
			"out of bounds", post, "/v1/webhooks",
			`{"url":"` + long + `","events":[],"description":"` + long + `","headers":{` + strings.Join(manyHeaders, ",") + `},"retryScheduleSeconds":[0.01,700000],"timeoutSeconds":0.5,"maxInFlight":5001,"ratePerSecond":0,"secret":"whsec_` + canary + `"}`,
			400,
			[]string{"/description", "/events", "/headers", "/maxInFlight", "/ratePerSecond", "/retryScheduleSeconds/0", "/retryScheduleSeconds/1", "/secret", "/timeoutSeconds", "/url"},
		},
		{"nulls", post, "/v1/webhooks", `{"url":null,"events":null,"active":null,"description":null}`, 400, []string{"/active", "/description", "/events", "/url"}},
		{"unknown and repeated events", post, "/v1/webhooks", `{"url":"http://127.0.0.1:9/","events":["shipment.created","` + canary + `","shipment.created",1]}`, 400, []string{"/events/1", "/events/2", "/events/3"}},
		{"twelve events", post, "/v1/webhooks", `{"url":"http://127.0.0.1:9/","events":["a","b","c","d","e","f","g","h","i","j","k","l"]}`, 400, []string{"/events"}},
		{"schedule beyond the retention", post, "/v1/webhooks", with(`"retryScheduleSeconds":[604000,800]`), 400, []string{"/retryScheduleSeconds"}},
		{"schedule of 21", post, "/v1/webhooks", with(`"retryScheduleSeconds":[1` + strings.Repeat(",1", 20) + `]`), 400, []string{"/retryScheduleSeconds"}},
		{"no order", post, "/v1/webhooks", with(`"ordering":"event","orderingMaxWaitSeconds":604801`), 400, []string{"/ordering", "/orderingMaxWaitSeconds"}},
		{"an order of another kind", post, "/v1/webhooks", with(`"ordering":true,"orderingMaxWaitSeconds":"1h"`), 400, []string{"/ordering", "/orderingMaxWaitSeconds"}},
		{"a negative wait", patch, hook, `{"orderingMaxWaitSeconds":-1}`, 400, []string{"/orderingMaxWaitSeconds"}},
		{"half a delivery in flight", post, "/v1/webhooks", with(`"maxInFlight":1.5`), 400, []string{"/maxInFlight"}},
		{
			"headers", post, "/v1/webhooks",
			with(`"headers":{"Host":"` + canary + `","webhook-id":"` + canary + `","Idempotency-Key":"` + canary + `","Bad Name":"x","X-Bad":"` + canary + `\n","X-Ok":"a","x-ok":"b"}`), 400,
			[]string{"/headers/Bad Name", "/headers/Host", "/headers/Idempotency-Key", "/headers/X-Bad", "/headers/webhook-id", "/headers/x-ok"},
		},
		{"url not absolute", post, "/v1/webhooks", `{"url":"/` + canary + `","events":["shipment.created"]}`, 400, []string{"/url"}},
		{"url with userinfo", post, "/v1/webhooks", `{"url":"http://u:` + canary + `@127.0.0.1/","events":["shipment.created"]}`, 400, []string{"/url"}},
		{"url with fragment", post, "/v1/webhooks", `{"url":"http://127.0.0.1/#` + canary + `","events":["shipment.created"]}`, 400, []string{"/url"}},
		{"url of another scheme", post, "/v1/webhooks", `{"url":"ftp://127.0.0.1/` + canary + `","events":["shipment.created"]}`, 400, []string{"/url"}},
		{"url to a private address", post, "/v1/webhooks", `{"url":"http://10.0.0.1/` + canary + `","events":["shipment.created"]}`, 400, []string{"/url"}},
		{"url to a private address, spelt otherwise", post, "/v1/webhooks", `{"url":"http://0xa000001/` + canary + `","events":["shipment.created"]}`, 400, []string{"/url"}},
		{"page below", get, "/v1/webhooks?limit=0&offset=-1", ``, 400, []string{"limit", "offset"}},
		{"a parameter where there are none", get, hook + "?" + canary + "x=1", ``, 400, []string{canary + "x"}},
		{"a parameter of a change", patch, hook + "?" + canary + "x=1", `{"name":1}`, 400, []string{"/name", canary + "x"}},
		{"page above", get, "/v1/webhooks?limit=1001&" + canary + "x=1", ``, 400, []string{canary + "x", "limit"}},

		{"patch to null", patch, hook, `{"url":null,"events":null,"active":null,"description":null,"headers":null,"retryScheduleSeconds":null,"timeoutSeconds":null,"maxInFlight":null}`, 400,
			[]string{"/active", "/description", "/events", "/headers", "/maxInFlight", "/retryScheduleSeconds", "/timeoutSeconds", "/url"}},
		{"patch the unknown", patch, hook, `{"name":"` + canary + `"}`, 400, []string{"/name"}},
		{"patch the secret", patch, hook, `{"secret":"whsec_` + canary + `"}`, 400, []string{"/secret"}},
		{"rotate with an overlap too long", post, hook + "/rotate-secret", `{"overlapSeconds":604801}`, 400, []string{"/overlapSeconds"}},
		{"rotate with a negative overlap", post, hook + "/rotate-secret", `{"overlapSeconds":-1,"x":1}`, 400, []string{"/overlapSeconds", "/x"}},
		{"signing by what there is not", post, "/v1/webhooks", with(`"signing":"` + canary + `"`), 400, []string{"/signing"}},
		{"signing by nothing", patch, hook, `{"signing":null}`, 400, []string{"/signing"}},
		{"rotate signing keys wrongly", post, "/v1/signing-keys/rotate", `{"overlapSeconds":604801,"x":1}`, 400, []string{"/overlapSeconds", "/x"}},
		{"test with an unknown type", post, hook + "/test", `{"type":"` + canary + `"}`, 400, []string{"/type"}},
		{"test with a number", post, hook + "/test", `{"type":1}`, 400, []string{"/type"}},
		{"replay nothing", post, hook + "/replay", `{}`, 400, []string{"/since"}},
		{"replay wrongly", post, hook + "/replay", `{"since":"` + canary + `","until":1,"status":"` + canary + `","x":1}`, 400, []string{"/since", "/status", "/until", "/x"}},
		{"replay backwards", post, hook + "/replay", `{"since":"2026-01-02T00:00:00Z","until":"2026-01-01T00:00:00Z"}`, 400, []string{"/until"}},

		{"replay another's words", post, hook + "/replay", `{"since":"2026-01-01T00:00:00Z","status":"held","webhookId":"` + canary + `","eventId":"a.` + canary + `","dryRun":"` + canary + `"}`, 400, []string{"/dryRun", "/eventId", "/status", "/webhookId"}},
		{"retry without a filter", post, "/v1/deliveries/retry", `{}`, 400, []string{""}},
		{"retry without a filter, dry", post, "/v1/deliveries/retry", `{"dryRun":true}`, 400, []string{""}},
		{"retry wrongly", post, "/v1/deliveries/retry", `{"webhookId":"` + canary + `","eventId":"","eventType":"x","reason":"` + canary + `","shipmentId":"","class":"` + canary + `","statusCode":99,"test":1,"status":"` + canary + `","since":1,"limit":1,"unknown":1}`, 400, []string{"/class", "/eventId", "/eventType", "/limit", "/reason", "/shipmentId", "/since", "/status", "/statusCode", "/test", "/unknown", "/webhookId"}},
		{"retry backwards", post, "/v1/deliveries/retry", `{"since":"2026-01-02T00:00:00Z","until":"2026-01-01T00:00:00Z"}`, 400, []string{"/until"}},

		{"publish nothing", post, "/v1/events", ``, 400, []string{""}},
		{"publish no event", post, "/v1/events", `"` + canary + `"`, 400, []string{""}},
		{"publish an empty batch", post, "/v1/events", `[]`, 400, []string{""}},
		{"publish an empty event", post, "/v1/events", `{}`, 400, []string{"/data", "/type"}},
		{
			"event with every fault", post, "/v1/events",
			`{"id":"a.` + canary + `","type":"` + canary + `","timestamp":"` + canary + `","data":{"shipmentId":"","sequence":"` + canary + `"},"more":"` + canary + `"}`, 400,
			[]string{"/data/sequence", "/data/shipmentId", "/id", "/more", "/timestamp", "/type"},
		},
		{"event with a key given twice", post, "/v1/events", `{"type":"shipment.created","type":"shipment.created","data":{"shipmentId":"s"}}`, 400, []string{"/type"}},
		{"event cut off", post, "/v1/events", `{"type":"shipment.created"`, 400, []string{""}},
		{"1001 events", post, "/v1/events", batch(1001, ""), 400, []string{""}},
		{"one bad event among 1000", post, "/v1/events", batch(999, `{"type":"shipment.created","data":{"shipmentId":7}}`), 400, []string{"/999/data/shipmentId"}},
		{"two bad events", post, "/v1/events", `[{"type":"x","data":{"shipmentId":"s"}},` + event("good") + `,{"data":1}]`, 400, []string{"/0/type", "/2/data", "/2/type"}},
		{"event of 257 KiB", post, "/v1/events", `{"type":"shipment.created","data":{"shipmentId":"s","x":"` + strings.Repeat("x", 257<<10) + `"}}`, 413, nil},
		{"event of 257 KiB in a batch", post, "/v1/events", batch(2, `{"type":"shipment.created","data":{"shipmentId":"s","x":"`+strings.Repeat("x", 257<<10)+`"}}`), 413, nil},
		{"batch of 9 MiB", post, "/v1/events", "[" + strings.Repeat(" ", 9<<20) + "]", 413, nil},
		{"webhook of 2 MiB", post, "/v1/webhooks", "{" + strings.Repeat(" ", 2<<20) + "}", 413, nil},

		{"events, every filter wrong", get, "/v1/events?type=" + canary + "&since=" + canary + "&until=1&limit=1001&cursor=" + canary + "&x=1&source=" + canary + "&shipmentId=", ``, 400, []string{"limit", "shipmentId", "since", "source", "type", "until", "x"}},
		{"events, no cursor of ours", get, "/v1/events?cursor=" + canary, ``, 400, []string{"cursor"}},
		{"deliveries, every filter wrong", get, "/v1/deliveries?webhookId=" + canary + "&eventId=a.b&status=" + canary + "&since=x&limit=-5&eventType=x&shipmentId=" + strings.Repeat("x", 129) + "&reason=x&class=x&statusCode=600&test=1", ``, 400,
			[]string{"class", "eventId", "eventType", "limit", "reason", "shipmentId", "since", "status", "statusCode", "test", "webhookId"}},
		{"deliveries, no cursor of ours", get, "/v1/deliveries?cursor=" + canary, ``, 400, []string{"cursor"}},
		{"deliveries, the same filter twice", get, "/v1/deliveries?status=failed&status=held", ``, 400, []string{"status"}},
		{"rejected, no cursor of ours", get, "/v1/rejected?cursor=" + canary, ``, 400, []string{"cursor"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := r.do(tc.method, tc.path, tc.body).want(tc.status)
			var problem struct {
				Code   string `json:"code"`
				Errors []struct {
					Pointer   *string `json:"pointer"`
					Parameter *string `json:"parameter"`
					Detail    string  `json:"detail"`
				} `json:"errors"`
			}
			a.into(&problem)
			if want := map[int]string{400: "INVALID_INPUT", 413: "TOO_LARGE"}[tc.status]; problem.Code != want {
				t.Errorf("code %s, want %s", problem.Code, want)
			}
			var places []string
			for _, e := range problem.Errors {
				if (e.Pointer == nil) == (e.Parameter == nil) || e.Detail == "" {
					t.Errorf("a fault has not one place and a detail: %s", a.body)
					continue
				}
				if e.Pointer != nil {
					places = append(places, *e.Pointer)
				} else {
					places = append(places, *e.Parameter)
				}
			}
			if tc.status == 400 {
				if diff := cmp.Diff(tc.places, sorted(places)); diff != "" {
					t.Errorf("places (-want +got):\n%s\n%s", diff, a.body)
				}
			}
			if text := string(a.body); strings.Contains(text, canary) && !slices.Contains(tc.places, canary+"x") {
				t.Errorf("the value is echoed: %s", text)
			}
			if text := r.logs.String(); strings.Contains(text, canary) {
				t.Errorf("the value is logged")
			}
		})
	}
}

func TestMedia(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	_, _ = io.WriteString(zip, plainWebhook)
	_ = zip.Close()
	for name, tc := range map[string]struct {
		status int
		body   string
		tweak  tweak
	}{
		"json":                  {201, plainWebhook, header("Content-Type", "application/json")},
		"json, utf-8":           {201, plainWebhook, header("Content-Type", "Application/JSON; charset=UTF-8")},
		"none":                  {201, plainWebhook, without("Content-Type")},
		"identity":              {201, plainWebhook, header("Content-Encoding", "identity")},
		"text":                  {415, plainWebhook, header("Content-Type", "text/plain")},
		"form":                  {415, plainWebhook, header("Content-Type", "application/x-www-form-urlencoded")},
		"json in another set":   {415, plainWebhook, header("Content-Type", "application/json; charset=latin1")},
		"nonsense":              {415, plainWebhook, header("Content-Type", "; ;")},
		"cloud event":           {415, plainWebhook, header("Content-Type", "application/cloudevents+json")},
		"gzip":                  {415, packed.String(), header("Content-Encoding", "gzip")},
		"two types":             {415, plainWebhook, func(q *http.Request) { q.Header["Content-Type"] = []string{"application/json", "text/plain"} }},
		"chunked":               {201, plainWebhook, func(q *http.Request) { q.ContentLength = -1 }},
		"chunked, and too long": {413, plainWebhook + strings.Repeat(" ", 1<<20), func(q *http.Request) { q.ContentLength = -1 }},
		"bad idempotency key":   {400, plainWebhook, header("Idempotency-Key", "with space")},
		"long idempotency key":  {400, plainWebhook, header("Idempotency-Key", strings.Repeat("x", 256))},
		"good idempotency key":  {201, plainWebhook, header("Idempotency-Key", strings.Repeat("x", 255))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := r.do(http.MethodPost, "/v1/webhooks", tc.body, tc.tweak).want(tc.status)
			want := map[int]string{400: "INVALID_INPUT", 413: "TOO_LARGE", 415: "UNSUPPORTED_MEDIA_TYPE"}[tc.status]
			if want != "" && a.text("code") != want {
				t.Errorf("code %s, want %s", a.text("code"), want)
			}
		})
	}
}
