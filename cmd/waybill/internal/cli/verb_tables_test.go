package cli_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTables(t *testing.T) {
	t.Parallel()
	rows := []struct{ name, command, answer, stdout, stderr string }{
		{
			"a list", "keys list partners acme",
			`{"data":[{"id":"key_1","key":"****1a2b3c4d","description":"","expiresOn":"2026-11-21T10:11:12.345Z"},{"id":"key_2","key":"****5e6f7a8b","description":"CI\u0007"}],"limit":2,"offset":0,"total":2}`,
			"ID     KEY           EXPIRES               DESCRIPTION\n" +
				"key_1  ****1a2b3c4d  2026-11-21T10:11:12Z  -\n" +
				"key_2  ****5e6f7a8b  never                 CI\uFFFD\n", "",
		},
		{"who has the key", "whoami", "", "ACCOUNT  northwind\nSUB      bootstrap\n", ""},
		{"an empty list", "webhooks list", `[]`, "", "There are no webhooks.\n"},
		{
			"a bare array", "webhooks list", `[{"id":"w","active":false,"url":"https://example.com"}]`,
			"ID  ACTIVE  URL\nw   no      https://example.com\n", "",
		},
		{"a list of texts", "meters values partners calls route", `["/orders","/ship\u0007ments"]`, "VALUE\n/orders\n/ship\uFFFDments\n", ""},
		{"more to come", "deliveries list", `{"data":[{"id":"d","status":"held","attemptCount":0,"eventId":"e"}],"nextCursor":"abc"}`, "ID  STATUS  TRIES  EVENT\nd   held    0      e\n", "1 are shown. All of them: --all\n"},
		{
			"state of webhooks", "webhooks list",
			`[{"id":"w","active":true,"url":"https://example.com","events":["shipment.created","shipment.delivered"],"health":{"state":"circuitOpen","waiting":0,"held":1620,"scheduled":3}},{"id":"y","active":true,"url":"https://example.com","events":["shipment.created"],"health":{"state":"healthy"}},{"id":"x","active":false,"disabledReason":"gone","url":"https://example.com","events":["shipment.created"]}]`,
			"ID  ACTIVE  URL                  EVENTS                               STATE\n" +
				"w   yes     https://example.com  shipment.created,shipment.delivered  circuit open, 1620 held, 3 scheduled\n" +
				"y   yes     https://example.com  shipment.created                     healthy\n" +
				"x   no      https://example.com  shipment.created                     inactive: gone\n", "",
		},
		{
			"one thing", "buckets get partners",
			`{"id":"bckt_1","name":"partners","createdOn":"2026-11-21T10:11:12.345Z","updatedOn":"2026-11-21T10:11:12.345Z","isRetrievable":false,"description":"Keys of our partners","tags":{"b":"2","a":"1"}}`,
			"NAME         partners\nID           bckt_1\nRETRIEVABLE  no\nTAGS         a=1,b=2\nDESCRIPTION  Keys of our partners\n" +
				"CREATED      2026-11-21T10:11:12Z\nUPDATED      2026-11-21T10:11:12Z\n", "",
		},
		{
			"lists inside", "deliveries get d",
			`{"id":"d","status":"failed","attemptCount":1,"reason":"webhookDeleted","attempts":[{"number":1,"startedAt":"2026-11-21T10:11:12.345Z","durationMs":12,"status":500,"responseBody":"no"}]}`,
			"ID      d\nSTATUS  failed\nTRIES   1\nREASON  webhookDeleted\n\nATTEMPTS\n" +
				"N  STARTED                   TOOK   STATUS  ANSWER\n1  2026-11-21T10:11:12.345Z  12 ms  500     no\n", "",
		},
		{
			"an answer that had more", "deliveries get d",
			`{"id":"d","status":"delivered","attempts":[{"number":1,"status":200,"responseBody":"ok","responseBodyTruncated":true}]}`,
			"ID      d\nSTATUS  delivered\n\nATTEMPTS\n" +
				"N  STATUS  ANSWER  TRUNCATED\n1  200     ok      yes\n", "",
		},
		{
			"what the consumer has", "consumers get partners acme --include-api-keys",
			`{"name":"acme","scopes":[],"apiKeys":[{"id":"key_1","key":"****1a2b3c4d","createdOn":"2026-11-21T10:11:12.345Z"}]}`,
			"NAME    acme\nSCOPES  -\n\nAPI KEYS\nID     KEY           EXPIRES\nkey_1  ****1a2b3c4d  never\n", "",
		},
		{
			"statistics", "statistics --by class",
			`{"step":"hour","data":[{"start":"2026-11-21T10:00:00.000Z","class":"ok","deliveries":2,"attempts":3,"succeeded":3,"failed":0,"latencyMs":{"p50":41.98,"p95":180.22,"p99":180.22}}]}`,
			"START                 CLASS  DELIVERIES  ATTEMPTS  OK  FAILED  P50    P95     P99\n" +
				"2026-11-21T10:00:00Z  ok     2           3         3   0       41 ms  180 ms  180 ms\n", "",
		},
		{
			"health", "webhooks health w",
			`{"webhookId":"w","state":"failing","circuit":{"open":false,"failuresInARow":7},"windows":{"1h":{"attempts":10,"succeeded":3,"failed":7,"latencyMs":{"p50":1,"p95":2,"p99":3}},"24h":{"attempts":0,"succeeded":0,"failed":0,"latencyMs":null}},"waiting":0,"held":0,"scheduled":7,"oldestUndelivered":{"deliveryId":"d1","acceptedAt":"2026-11-21T09:11:12.345Z"},"lastFailureAt":"2026-11-21T10:11:12.345Z","answers":[{"at":"2026-11-21T10:11:12.345Z","statusCode":503,"class":"http_5xx","body":"busy\u0007\nnow"},{"at":"2026-11-21T10:11:11.345Z","class":"timeout"}]}`,
			"failing\n  failures in a row   7\n  last failure        2026-11-21T10:11:12Z\n  waiting             0\n  held                0\n  scheduled           7\n  oldest undelivered  d1\n  accepted            2026-11-21T09:11:12Z\n\n" +
				"LAST  ATTEMPTS  OK  FAILED  P50   P95   P99\n1h    10        3   7       1 ms  2 ms  3 ms\n24h   0         0   0       -     -     -\n\n" +
				"Last answers:\n  2026-11-21T10:11:12Z  http_5xx  503  busy\uFFFD now\n  2026-11-21T10:11:11Z  timeout\n", "",
		},
		{
			"health of a degraded one", "webhooks health w",
			`{"webhookId":"w","state":"healthy","degraded":true,"circuit":{"open":false,"failuresInARow":0},"problem":{"cause":"http_5xx","since":"2026-11-21T10:00:00.000Z","quiet":false},"windows":{"1h":{"attempts":20,"succeeded":18,"failed":2,"latencyMs":null}},"waiting":0,"held":0,"scheduled":2,"answers":[]}`,
			"degraded\n  failures in a row   0\n  cause               http_5xx\n  since               2026-11-21T10:00:00Z\n  waiting             0\n  held                0\n  scheduled           2\n\n" +
				"LAST  ATTEMPTS  OK  FAILED\n1h    20        18  2\n", "",
		},
		{
			"changes", "audit list",
			`{"data":[{"timestamp":"2026-11-21T10:11:12.345Z","action":"create-key","actor":{"sub":"bootstrap"},"resources":[{"type":"bucket","id":"bckt_1","metadata":{"name":"partners"}},{"type":"key","id":"key_1","metadata":null}],"success":false}],"pagination":{"limit":20,"offset":0,"total":1,"hasMore":false}}`,
			"TIME                  ACTION      ACTOR      RESOURCES       DONE\n2026-11-21T10:11:12Z  create-key  bootstrap  partners key_1  no\n", "",
		},
		{
			"what would turn the eye", "keys list partners acme",
			`{"data":[{"id":"key_1","key":"****1a2b3c4d","description":"exe.\u202egnp\u2066\u200b"}],"limit":1,"offset":0,"total":1}`,
			"ID     KEY           EXPIRES  DESCRIPTION\nkey_1  ****1a2b3c4d  never    exe.\uFFFDgnp\uFFFD\uFFFD\n", "",
		},
		{
			"what ends", "expiring",
			`{"data":[{"kind":"receiverCertificate","expiresAt":"2026-11-23T09:12:00.000Z","webhookId":"w","url":"https://x.example/hooks","advice":"Renew it."},{"kind":"apiKey","expiresAt":"2026-11-24T09:12:00.000Z","bucketName":"b","consumerName":"c","keyId":"key_1","advice":"x"}],"more":false}`,
			"ENDS                  KIND                  WEBHOOK  URL                      BUCKET  CONSUMER  KEY\n2026-11-23T09:12:00Z  receiver certificate  w        https://x.example/hooks  -       -         -\n2026-11-24T09:12:00Z  api key               -        -                        b       c         key_1\n", "",
		},
		{
			"nothing ends", "expiring", `{"data":[],"more":false}`, "", "Nothing ends within 14 days.\n",
		},
		{
			"a webhook with ends", "webhooks get w",
			`{"id":"w","active":true,"timeoutSeconds":2.5,"receiverCertificateExpiresAt":"2026-11-23T09:12:00.000Z"}`,
			"ID                           w\nACTIVE                       yes\nTIMEOUT                      2.5 s\nRATE                         none\nRECEIVER'S CERTIFICATE ENDS  2026-11-23T09:12:00Z\n", "",
		},
		{
			"a long list", "webhooks get w",
			`{"id":"w","active":true,"events":["shipment.created","shipment.in_transit","shipment.delivered","shipment.exception"],"timeoutSeconds":2.5}`,
			"ID       w\nACTIVE   yes\nEVENTS   shipment.created,shipment.in_transit,shipment.delivered,\n         shipment.exception\n" +
				"TIMEOUT  2.5 s\nRATE     none\n", "",
		},
		{
			"data of an event", "events get e", `{"id":"e","data":{"data":[1],"shipmentId":"<s>"},"deliveries":[]}`,
			"ID    e\nDATA  {\"data\":[1],\"shipmentId\":\"<s>\"}\n", "",
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r := call(t, http.StatusOK, row.answer, strings.Fields(row.command)...)
			if diff := cmp.Diff([]string{row.stdout, row.stderr}, []string{r.stdout, r.stderr}); r.code != 0 || diff != "" {
				t.Errorf("exit code %d (-want +r.asked):\n%s", r.code, diff)
			}
		})
	}
}
