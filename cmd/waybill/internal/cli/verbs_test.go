package cli_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/cmd/waybill/internal/cli"
	"waybill.dev/cmd/waybill/internal/verb"
)

const (
	fresh   = "wbk_0123456789ABCDEFGHIJKLMNOPQRSTUV_1a2b3c4d"
	apiKey  = "the-key-of-this-test"
	webhook = "0198e5c2-7c1e-7b5e-8a51-6d0a5f1e2b3c"
	atKeys  = "/v1/accounts/northwind/key-buckets/partners/consumers/acme/keys"

	atVariables = "/v1/accounts/northwind/projects/parcels/branches/feature%2Fa/variables"
)

// asked is what the API was asked.
type asked struct{ Method, Target, Body string }

// api answers everything with status and body, but for who-am-i, which it does not tell of.
func api(t *testing.T, status int, body string, got *[]asked) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+apiKey {
			t.Errorf("%s %s comes with the key %q", r.Method, r.URL, r.Header.Get("Authorization"))
		}
		if r.URL.Path == "/v1/who-am-i" {
			_, _ = io.WriteString(w, `{"sub":"bootstrap","account":"northwind"}`)
			return
		}
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if len(text) > 0 && r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s has a body of type %q", r.Method, r.URL, r.Header.Get("Content-Type"))
		}
		*got = append(*got, asked{r.Method, r.URL.RequestURI(), string(text)})
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// result is what a command did.
type result struct {
	code           int
	asked          []asked
	stdout, stderr string
}

// call runs the command line against an API that answers so.
func call(t *testing.T, status int, body string, args ...string) result {
	t.Helper()
	var r result
	var out, notes bytes.Buffer
	args = append([]string{"waybill"}, args...)
	args = append(args, "--server", api(t, status, body, &r.asked), "--key", apiKey)
	r.code = cli.Main("test", args, strings.NewReader(`{"from":"stdin"}`), &out, &notes)
	r.stdout, r.stderr = out.String(), notes.String()
	return r
}

func TestVerbsAskTheAPI(t *testing.T) {
	t.Parallel()
	const at = "/v1/accounts/northwind"
	rows := []struct {
		command              string
		method, target, body string
	}{
		{"accounts list --limit 5", "GET", "/v1/accounts?limit=5", ""},
		{"accounts create northwind", "POST", "/v1/accounts", `{"name":"northwind"}`},
		{"accounts get northwind", "GET", "/v1/accounts/northwind", ""},
		{"projects get parcels", "GET", at + "/projects/parcels", ""},
		{"managers get partners acme eusr_1", "GET", at + "/key-buckets/partners/consumers/acme/managers/eusr_1", ""},
		{"accounts recover northwind", "POST", "/v1/accounts/northwind/admin-keys", ""},
		{"projects list --offset 3", "GET", at + "/projects?offset=3", ""},
		{"projects create parcels", "POST", "/v1/projects", `{"name":"parcels"}`},
		{"projects update parcels --production-branch release/1", "PATCH", at + "/projects/parcels", `{"productionBranch":"release/1"}`},

		{"environments list parcels --limit 5", "GET", "/v1/environments?accountName=northwind&projectName=parcels&limit=5", ""},
		{"environments list a&b --account other", "GET", "/v1/environments?accountName=other&projectName=a%26b", ""},
		{"environments get parcels-main-a2b3c4d5e6", "GET", "/v1/environments/parcels-main-a2b3c4d5e6", ""},
		{"variables list parcels feature/a --limit 5", "GET", atVariables + "?limit=5", ""},
		{"variables create parcels feature/a TOKEN --secret --value=x=1,2", "POST", atVariables, `{"isSecret":true,"name":"TOKEN","value":"x=1,2"}`},
		{"variables create parcels feature/a TOKEN --value-file -", "POST", atVariables, `{"isSecret":false,"name":"TOKEN","value":"{\"from\":\"stdin\"}"}`},
		{"variables update parcels ~preview TOKEN --value=", "PATCH", at + "/projects/parcels/branches/~preview/variables/TOKEN", `{"value":""}`},
		{"variables update parcels feature/a TOKEN --value-file -", "PATCH", atVariables + "/TOKEN", `{"value":"{\"from\":\"stdin\"}"}`},
		{"variables delete parcels feature/a TOKEN", "DELETE", atVariables + "/TOKEN", ""},

		{"meters list partners --limit 5", "GET", at + "/key-buckets/partners/meters?limit=5", ""},
		{"meters create partners -", "POST", at + "/key-buckets/partners/meters", `{"from":"stdin"}`},
		{"meter get partners calls", "GET", at + "/key-buckets/partners/meters/calls", ""},
		{"meters update partners calls -", "PUT", at + "/key-buckets/partners/meters/calls", `{"from":"stdin"}`},
		{"meters query partners calls --window DAY --group subject --consumer acme", "GET", at + "/key-buckets/partners/meters/calls/query?groupBy=subject&subject=acme&windowSize=DAY", ""},
		{"meters values partners calls route --from 2026-11-01T00:00:00Z", "GET", at + "/key-buckets/partners/meters/calls/group-by/route/values?from=2026-11-01T00%3A00%3A00Z", ""},
		{"meters delete partners calls --yes", "DELETE", at + "/key-buckets/partners/meters/calls", ""},
		{"features list partners", "GET", at + "/key-buckets/partners/features", ""},
		{"features create partners calls --name Calls --meter calls", "POST", at + "/key-buckets/partners/features", `{"key":"calls","meterSlug":"calls","name":"Calls"}`},
		{"features get partners 01K", "GET", at + "/key-buckets/partners/features/01K", ""},
		{"features delete partners 01K --yes", "DELETE", at + "/key-buckets/partners/features/01K", ""},
		{"plans list partners", "GET", at + "/key-buckets/partners/plans", ""},
		{"plans create partners -", "POST", at + "/key-buckets/partners/plans", `{"from":"stdin"}`},
		{"plans get partners 01K", "GET", at + "/key-buckets/partners/plans/01K", ""},
		{"plans update partners 01K -", "PUT", at + "/key-buckets/partners/plans/01K", `{"from":"stdin"}`},
		{"plans publish partners 01K", "POST", at + "/key-buckets/partners/plans/01K/publish", ""},
		{"plans archive partners 01K --yes", "POST", at + "/key-buckets/partners/plans/01K/archive", ""},
		{"plans delete partners 01K --yes", "DELETE", at + "/key-buckets/partners/plans/01K", ""},
		{"subscriptions get partners acme", "GET", at + "/key-buckets/partners/consumers/acme/subscription", ""},
		{"subscriptions set partners acme basic --version 2", "PUT", at + "/key-buckets/partners/consumers/acme/subscription", `{"planKey":"basic","version":2}`},
		{"subscriptions access partners acme", "GET", at + "/key-buckets/partners/consumers/acme/access", ""},
		{"subscriptions delete partners acme --yes", "DELETE", at + "/key-buckets/partners/consumers/acme/subscription", ""},

		{"tunnels list --limit 5", "GET", at + "/tunnels?limit=5", ""},
		{"tunnels create warehouse", "POST", at + "/tunnels", `{"name":"warehouse"}`},
		{"tunnel get tun_1", "GET", at + "/tunnels/tun_1", ""},
		{"tunnels rotate tun_1 --yes", "POST", at + "/tunnels/tun_1/$rotate-token", `{}`},
		{"tunnels rotate tun_1 --overlap 1h --yes", "POST", at + "/tunnels/tun_1/$rotate-token", `{"overlapSeconds":3600}`},
		{"tunnels services tun_1", "GET", at + "/tunnels/tun_1/services-configuration", ""},
		{"tunnels configure tun_1 -", "PUT", at + "/tunnels/tun_1/services-configuration", `{"from":"stdin"}`},
		{"tunnels provisioning tun_1 pst_1", "GET", at + "/tunnels/tun_1/provisioning-operations/pst_1", ""},
		{"tunnels delete tun_1 --yes", "DELETE", at + "/tunnels/tun_1", ""},
		{"tunnels teardown tun_1 tst_1", "GET", at + "/tunnels/tun_1/teardown-operations/tst_1", ""},

		{"domains list --limit 5", "GET", at + "/custom-domains?limit=5", ""},
		{"domains create api.example.org --deployment shop --default", "POST", at + "/custom-domains", `{"deploymentName":"shop","hostname":"api.example.org","isDefault":true}`},
		{"domain update api.example.org --deployment next", "PATCH", at + "/custom-domains", `{"deploymentName":"next","hostname":"api.example.org"}`},
		{"domains verify api.example.org", "POST", at + "/custom-domains/verify", `{"hostname":"api.example.org"}`},
		{"domains certificate api.example.org - /dev/null", "PUT", at + "/custom-domains/certificate", `{"certificate":"{\"from\":\"stdin\"}","hostname":"api.example.org","privateKey":""}`},
		{"domains delete-certificate api.example.org --yes", "DELETE", at + "/custom-domains/certificate", `{"hostname":"api.example.org"}`},
		{"domains delete api.example.org --yes", "DELETE", at + "/custom-domains?hostname=api.example.org", ""},
		{"certificates list --limit 5", "GET", at + "/client-mtls-ca-certificates?limit=5", ""},
		{"certificates create partners -", "POST", at + "/client-mtls-ca-certificates", `{"certificate":"{\"from\":\"stdin\"}","name":"partners"}`},
		{"certificate get mtlsca_1", "GET", at + "/client-mtls-ca-certificates/mtlsca_1", ""},
		{"certificates update mtlsca_1 --name suppliers", "PATCH", at + "/client-mtls-ca-certificates/mtlsca_1", `{"name":"suppliers"}`},
		{"certificates delete mtlsca_1 --yes", "DELETE", at + "/client-mtls-ca-certificates/mtlsca_1", ""},

		{"buckets list --tag team=web --tag a=b=c", "GET", at + "/key-buckets?tag.a=b%3Dc&tag.team=web", ""},
		{"bucket list --account other", "GET", "/v1/accounts/other/key-buckets", ""},
		{"buckets create partners", "POST", at + "/key-buckets", `{"name":"partners"}`},
		{
			"buckets create partners --description x --tag team=web --retrievable=false", "POST", at + "/key-buckets",
			`{"description":"x","isRetrievable":false,"name":"partners","tags":{"team":"web"}}`,
		},
		{"buckets get partners --if-tag team=web", "GET", at + "/key-buckets/partners?tag.team=web", ""},
		{"buckets get a/b%c", "GET", at + "/key-buckets/a%2Fb%25c", ""},
		{"buckets update partners --tag team=app --if-tag team=web", "PATCH", at + "/key-buckets/partners?tag.team=web", `{"tags":{"team":"app"}}`},
		{"buckets update partners --tag=", "PATCH", at + "/key-buckets/partners", `{"tags":{}}`},
		{"buckets delete partners", "DELETE", at + "/key-buckets/partners", ""},

		{
			"consumers list partners --include-api-keys --key-format none --manager-email a@b.c", "GET",
			at + "/key-buckets/partners/consumers?include-api-keys=true&key-format=none&manager-email=a%40b.c", "",
		},
		{
			"consumers create partners acme --scope events:write,events:read --manager a@b.c --metadata {\"n\":1.0} --with-api-key", "POST",
			at + "/key-buckets/partners/consumers?with-api-key=true",
			`{"managers":["a@b.c"],"metadata":{"n":1.0},"name":"acme","scopes":["events:write","events:read"]}`,
		},
		{"consumers get partners acme --include-managers", "GET", at + "/key-buckets/partners/consumers/acme?include-managers=true", ""},
		{"consumers update partners acme --scope mcp:use", "PATCH", at + "/key-buckets/partners/consumers/acme", `{"scopes":["mcp:use"]}`},
		{"consumers delete partners acme --yes", "DELETE", at + "/key-buckets/partners/consumers/acme", ""},
		{"consumers roll partners acme", "POST", at + "/key-buckets/partners/consumers/acme/roll-key", ""},

		{"keys list partners acme --key-format visible", "GET", atKeys + "?key-format=visible", ""},
		{"keys create partners acme --expires 2027-01-02T04:05:06+01:00", "POST", atKeys, `{"expiresOn":"2027-01-02T03:05:06.000Z"}`},
		{"keys create partners acme --count 2 --description x", "POST", atKeys + "/$bulk", `[{"description":"x"},{"description":"x"}]`},
		{"keys create partners acme --import -", "POST", atKeys, `{"key":"{\"from\":\"stdin\"}"}`},
		{"keys get partners acme key_1", "GET", atKeys + "/key_1", ""},
		{"keys update partners acme key_1 --description x", "PATCH", atKeys + "/key_1", `{"description":"x"}`},
		{"keys delete partners acme key_1", "DELETE", atKeys + "/key_1", ""},
		{
			"keys roll partners acme --expires 2027-01-02T03:04:05Z", "POST", at + "/key-buckets/partners/consumers/acme/roll-key",
			`{"expiresOn":"2027-01-02T03:04:05.000Z"}`,
		},
		{"managers list partners acme", "GET", at + "/key-buckets/partners/consumers/acme/managers", ""},
		{
			"managers create partners acme a@b.c --sub ada", "POST", at + "/key-buckets/partners/consumers/acme/managers",
			`{"email":"a@b.c","sub":"ada"}`,
		},
		{"managers delete partners acme eusr_1", "DELETE", at + "/key-buckets/partners/consumers/acme/managers/eusr_1", ""},

		{"webhooks list --limit 10 --troubled", "GET", "/v1/webhooks?include=health&limit=10&troubled=true", ""},
		{
			"webhooks create https://example.com/a", "POST", "/v1/webhooks",
			`{"events":["shipment.created","shipment.in_transit","shipment.delivered","shipment.exception"],"url":"https://example.com/a"}`,
		},
		{
			"webhooks create https://example.com/a --events shipment.created --header X-A=b,c --retry-schedule 5,0.5 --timeout 1500ms --max-in-flight 4 --rate-per-second none --ordering shipment --ordering-max-wait 2m --active=false",
			"POST", "/v1/webhooks",
			`{"active":false,"events":["shipment.created"],"headers":{"X-A":"b,c"},"maxInFlight":4,"ordering":"shipment","orderingMaxWaitSeconds":120,"ratePerSecond":null,"retryScheduleSeconds":[5,0.5],"timeoutSeconds":1.5,"url":"https://example.com/a"}`,
		},
		{
			"webhooks create https://example.com/a --events shipment.created --auth-file -", "POST", "/v1/webhooks",
			`{"auth":{"from":"stdin"},"events":["shipment.created"],"url":"https://example.com/a"}`,
		},
		{"webhooks update " + webhook + " --auth-file -", "PATCH", "/v1/webhooks/" + webhook, `{"auth":{"from":"stdin"}}`},
		{"webhooks update " + webhook + " --auth-file none --active", "PATCH", "/v1/webhooks/" + webhook, `{"active":true,"auth":null}`},
		{"webhooks health " + webhook, "GET", "/v1/webhooks/" + webhook + "/health", ""},
		{"statistics --step day --by class --webhook w", "GET", "/v1/statistics?by=class&step=day&webhookId=w", ""},
		{"webhooks get " + webhook, "GET", "/v1/webhooks/" + webhook, ""},
		{"webhooks update " + webhook + " --url https://example.com/b --active", "PATCH", "/v1/webhooks/" + webhook, `{"active":true,"url":"https://example.com/b"}`},
		{"webhooks update " + webhook + " --target localhost:3000/in", "PATCH", "/v1/webhooks/" + webhook, `{"url":"http://localhost:3000/in"}`},
		{
			"webhooks create --url 127.0.0.1:3000 --events shipment.created", "POST", "/v1/webhooks",
			`{"events":["shipment.created"],"url":"http://127.0.0.1:3000"}`,
		},
		{
			"webhooks create example.com/hooks --events shipment.created", "POST", "/v1/webhooks",
			`{"events":["shipment.created"],"url":"example.com/hooks"}`,
		},
		{"webhooks ls", "GET", "/v1/webhooks?include=health", ""},
		{"webhooks rm " + webhook, "DELETE", "/v1/webhooks/" + webhook, ""},
		{"webhooks delete " + webhook, "DELETE", "/v1/webhooks/" + webhook, ""},
		{"webhooks update " + webhook + " --filter none", "PATCH", "/v1/webhooks/" + webhook, `{"filter":null}`},
		{"webhooks filter-test " + webhook + " --filter -", "POST", "/v1/webhooks/" + webhook + "/filter/test", `{"filter":{"from":"stdin"}}`},
		{"webhooks filter-test " + webhook + " --last 10", "POST", "/v1/webhooks/" + webhook + "/filter/test", `{"lastEvents":10}`},
		{"webhooks filter-test " + webhook, "POST", "/v1/webhooks/" + webhook + "/filter/test", `{}`},
		{"webhooks rotate " + webhook, "POST", "/v1/webhooks/" + webhook + "/rotate-secret", ""},
		{"webhooks rotate " + webhook + " --overlap 1h", "POST", "/v1/webhooks/" + webhook + "/rotate-secret", `{"overlapSeconds":3600}`},
		{"webhooks acknowledge " + webhook, "PUT", "/v1/webhooks/" + webhook + "/acknowledgement", ""},
		{"webhooks acknowledge " + webhook + " --mute-until 2027-01-02T03:04:05Z", "PUT", "/v1/webhooks/" + webhook + "/acknowledgement", `{"mutedUntil":"2027-01-02T03:04:05.000Z"}`},
		{"webhooks reopen " + webhook, "DELETE", "/v1/webhooks/" + webhook + "/acknowledgement", ""},
		{"webhooks test " + webhook + " --file -", "POST", "/v1/webhooks/" + webhook + "/test", `{"data":{"from":"stdin"}}`},
		{"webhooks test " + webhook + " --type shipment.created", "POST", "/v1/webhooks/" + webhook + "/test", `{"type":"shipment.created"}`},
		{
			"webhooks replay " + webhook + " --since 2026-01-01T00:00:00Z --status all", "POST", "/v1/webhooks/" + webhook + "/replay",
			`{"since":"2026-01-01T00:00:00.000Z","status":"all"}`,
		},

		{"events list --type shipment.created --limit 3", "GET", "/v1/events?limit=3&type=shipment.created", ""},
		{"events get evt_1", "GET", "/v1/events/evt_1", ""},
		{"events publish -", "POST", "/v1/events", `{"from":"stdin"}`},
		{"events rejected", "GET", "/v1/rejected", ""},
		{
			"deliveries list --webhook w --event e --status failed --cursor c", "GET",
			"/v1/deliveries?cursor=c&eventId=e&status=failed&webhookId=w", "",
		},
		{"deliveries get d", "GET", "/v1/deliveries/d", ""},
		{"delivery get d", "GET", "/v1/deliveries/d", ""},
		{"deliveries retry d", "POST", "/v1/deliveries/d/retry", ""},
		{"deliveries explain d", "GET", "/v1/explanations?deliveryId=d", ""},
		{"deliveries explain --event e --webhook w", "GET", "/v1/explanations?eventId=e&webhookId=w", ""},
		{"deliveries retry-all --webhook w --event e --status all --since 2026-01-01T00:00:00Z --dry-run", "POST", "/v1/deliveries/retry", `{"dryRun":true,"eventId":"e","since":"2026-01-01T00:00:00.000Z","status":"all","webhookId":"w"}`},
		{
			"deliveries retry-all --type shipment.created --shipment SH-1 --reason scheduleExhausted --class http_5xx --code 503 --test=false", "POST", "/v1/deliveries/retry",
			`{"class":"http_5xx","eventType":"shipment.created","reason":"scheduleExhausted","shipmentId":"SH-1","statusCode":503,"test":false}`,
		},
		{
			"webhooks replay w --since 2026-01-01T00:00:00Z --class timeout --test", "POST", "/v1/webhooks/w/replay",
			`{"class":"timeout","since":"2026-01-01T00:00:00.000Z","test":true}`,
		},
		{"deployments list shop --branch topic/one --environment-type preview --limit 5", "GET", at + "/projects/shop/deployments?branchName=topic%2Fone&environmentType=preview&limit=5", ""},
		{"deployments list --project shop", "GET", at + "/projects/shop/deployments", ""},
		{"deployments get d", "GET", "/v1/deployments/d", ""},
		{"deployments calls d --limit 5", "GET", "/v1/deployments/d/recent-calls?limit=5", ""},
		{"deployments statistics d --filter last-hour", "GET", "/v1/deployments/d/stats-by-status-code?filter=last-hour", ""},
		{"deployments delete d", "DELETE", "/v1/deployments/d", ""},
		{"deployment builds d --offset 3", "GET", "/v1/deployments/d/builds?offset=3", ""},
		{"signing-keys list", "GET", "/v1/signing-keys", ""},
		{"expiring -o json", "GET", "/v1/expiring", ""},
		{"signing-keys rotate --yes", "POST", "/v1/signing-keys/rotate", ""},
		{"signing-keys rotate --overlap 1h --yes", "POST", "/v1/signing-keys/rotate", `{"overlapSeconds":3600}`},
		{"webhooks update w --signing v1a", "PATCH", "/v1/webhooks/w", `{"signing":"v1a"}`},
		{"jobs list --limit 5", "GET", "/v1/jobs?limit=5", ""},
		{"jobs get j", "GET", "/v1/jobs/j", ""},
		{"jobs cancel j", "DELETE", "/v1/jobs/j", ""},
		{
			"audit list --action create-bucket --actor partners/acme --success=false --since 2026-01-01T00:00:00Z", "GET",
			at + "/audit-logs?action=create-bucket&actor=partners%2Facme&startDate=2026-01-01T00%3A00%3A00.000Z&success=false", "",
		},
	}
	tried := make(map[string]bool)
	for _, row := range rows {
		words := strings.Fields(row.command)
		tried[strings.TrimSuffix(words[0], "s")+" "+words[1]] = true
		t.Run(row.command, func(t *testing.T) {
			t.Parallel()
			r := call(t, http.StatusOK, `{"ok":true}`, words...)
			if r.code != 0 {
				t.Errorf("exit code %d:\n%s%s", r.code, r.stdout, r.stderr)
			}
			if diff := cmp.Diff([]asked{{row.method, row.target, row.body}}, r.asked); diff != "" {
				t.Errorf("asked (-want +r.asked):\n%s", diff)
			}
		})
	}
	for _, noun := range verb.Nouns() {
		for _, v := range noun.Verbs {
			if name := strings.TrimSuffix(noun.Name, "s") + " " + v.Name; !tried[name] {
				t.Errorf("no row tries %q", name)
			}
		}
	}
}

func TestTimesMayBeDistances(t *testing.T) {
	t.Parallel()
	r := call(t, http.StatusOK, `{"id":"r","matched":0}`, "webhooks", "replay", webhook, "--since", "2h", "--until", "30m")
	future := call(t, http.StatusOK, `{"id":"key_1"}`, "keys", "create", "partners", "acme", "--expires", "36h")
	var times struct{ Since, Until, ExpiresOn time.Time }
	for _, a := range append(r.asked, future.asked...) {
		if err := json.Unmarshal([]byte(a.Body), &times); err != nil {
			t.Fatal(err)
		}
	}
	for what, off := range map[string]time.Duration{
		"since": time.Since(times.Since) - 2*time.Hour, "until": time.Since(times.Until) - 30*time.Minute,
		"expires": 36*time.Hour - time.Until(times.ExpiresOn),
	} {
		if off < 0 || off > time.Minute {
			t.Errorf("%s is off by %s: %+v", what, off, times)
		}
	}
}

func TestVerbsAreUsedWrongly(t *testing.T) {
	t.Parallel()
	rows := []struct{ command, says string }{
		{"buckets list partners", `"partners" is one argument too many`},
		{"buckets create", "the arguments are BUCKET: 0 given, 1 needed"},
		{"keys get partners acme", "the arguments are BUCKET CONSUMER KEY-ID: 2 given, 3 needed"},
		{"deliveries explain", "give a DELIVERY-ID, or --event and --webhook"},
		{"deliveries explain d --event e", "give a DELIVERY-ID, or --event and --webhook"},
		{"deliveries explain --event e", "give a DELIVERY-ID, or --event and --webhook"},
		{"webhooks lst", "did you mean list?"},
		{"webhooks update w --actve=false", "did you mean --active?"},
		{"webhooks list --url https://elsewhere.example", "name the installation with --server or WAYBILL_SERVER"},
		{"trigger shipment.creatd", "did you mean shipment.created?"},
		{"buckets get ..", `BUCKET must not be ".."`},
		{"buckets update partners", "there is nothing to change: give at least one flag"},
		{"buckets create partners --tag team", "must be name=value"},
		{"buckets create partners --tag a=1 --tag a=2", "has the same name twice"},
		{"buckets create partners --retrievable=maybe", "must be true or false"},
		{"buckets list --limit many", "must be a whole number"},
		{"buckets list -o yaml", "must be table, json or id"},
		{"consumers create partners acme --scope root", "must be one of webhooks:read, webhooks:write"},
		{"consumers create partners acme --metadata [1]", `must be a JSON object such as {"plan":"gold"}`},
		{"keys create partners acme --expires tomorrow", "must be a time such as 2026-12-01T00:00:00Z, or a duration such as 36h"},
		{"keys create partners acme --count 0", "--count must be from 1 to 1000"},
		{"keys create partners acme --count 2 --import -", "--import takes one key; leave out --count"},
		{"keys list partners acme --key-format all", "must be one of masked, none, visible"},
		{"managers create partners acme a@b.c", "--sub is required"},
		{"webhooks replay w", "--since is required"},
		{"projects update parcels", "there is nothing to change: give at least one flag"},
		{"variables create parcels main TOKEN --secret", "give either --value or --value-file"},
		{"variables create parcels main TOKEN --value a --value-file -", "give either --value or --value-file"},
		{"variables update parcels main TOKEN", "there is nothing to change: give at least one flag"},
		{"deliveries retry-all --class slow", "must be one of"},
		{"webhooks create https://example.com --auth-file verbs_test.go", `must name a file with a JSON object such as {"type":"bearer","token":"…"}`},
		{"webhooks create https://example.com --timeout 5", "must be a duration such as 90s or 24h"},
		{"webhooks create https://example.com --retry-schedule a,b", "must be numbers separated by commas"},
		{"webhooks create https://example.com --rate-per-second NaN", "must be a number"},
	}
	for _, row := range rows {
		t.Run(row.command, func(t *testing.T) {
			t.Parallel()
			r := call(t, http.StatusOK, `{}`, strings.Fields(row.command)...)
			if r.code != 2 || r.stdout != "" || !strings.Contains(r.stderr, row.says) || !strings.Contains(r.stderr, "--help' for usage.") {
				t.Errorf("exit code %d, r.stdout %q, r.stderr, which should say %q:\n%s", r.code, r.stdout, row.says, r.stderr)
			}
			if len(r.asked) > 0 {
				t.Errorf("the API was asked all the same: %v", r.asked)
			}
		})
	}
}

func TestJSONIsPrintedAsItCame(t *testing.T) {
	t.Parallel()
	const body = `{"data":[{"name":"partners","tags":{"z":"<1>","a":"2"}}],"limit":1000,"offset":0,"total":1,"n":1.50}`
	r := call(t, http.StatusOK, body, "buckets", "list", "-o", "json")
	if r.code != 0 || r.stdout != body+"\n" || r.stderr != "" {
		t.Errorf("exit code %d, stdout\n%s\nstderr %q", r.code, r.stdout, r.stderr)
	}
	r = call(t, http.StatusNoContent, "", "buckets", "delete", "partners", "-o", "json")
	if r.code != 0 || r.stdout != "" || r.stderr != "Bucket partners is deleted, with its consumers and keys.\n" {
		t.Errorf("exit code %d, r.stdout %q, r.stderr %q", r.code, r.stdout, r.stderr)
	}
}

func TestProblemsAreToldInFull(t *testing.T) {
	t.Parallel()
	r := call(t, http.StatusBadRequest, `{"type":"about:blank","title":"Bad Request","status":400,"code":"INVALID_INPUT",
		"detail":"The request has 2 faults; see errors.","errors":[{"pointer":"/name","detail":"must match ^[a-z0-9-]{5,128}$"},
		{"parameter":"limit","detail":"must be a whole number\u001b[31m"}]}`, "buckets", "create", "no", "-o", "json")
	want := "waybill: the API answers 400 INVALID_INPUT: The request has 2 faults; see errors.\n" +
		"  /name: must match ^[a-z0-9-]{5,128}$\n  limit: must be a whole number\uFFFD[31m\n"
	if r.code != 1 || r.stdout != "" || r.stderr != want {
		t.Errorf("exit code %d, r.stdout %q, stderr\n%swant\n%s", r.code, r.stdout, r.stderr, want)
	}
	r = call(t, http.StatusInternalServerError, `{"code":"INTERNAL","detail":"It failed.","requestId":"req-7"}`, "webhooks", "list")
	if want := "waybill: the API answers 500 INTERNAL: It failed.\n  The server's log has more under request req-7.\n"; r.stderr != want {
		t.Errorf("stderr\n%swant\n%s", r.stderr, want)
	}
	r = call(t, http.StatusOK, `<html>`, "webhooks", "list")
	if r.code != 1 || r.stdout != "" || !strings.HasPrefix(r.stderr, "waybill: read answer: the server at http://127.0.0.1:") || !strings.Contains(r.stderr, "is not Waybill") {
		t.Errorf("what is no JSON: exit code %d, r.stdout %q, r.stderr %q", r.code, r.stdout, r.stderr)
	}
}

func TestFreshSecretsAreShownOnce(t *testing.T) {
	t.Parallel()
	rows := []struct {
		command, answer, shows string
		once                   string
	}{
		{"keys create partners acme", `{"id":"key_1","key":"` + fresh + `"}`, fresh, "The key is shown in full only now"},
		{"keys create partners acme --count 2", `{"data":[{"id":"key_1","key":"` + fresh + `"}],"total":1}`, fresh, "The key is shown in full only now"},
		{"keys roll partners acme", `{"id":"key_1","key":"` + fresh + `"}`, fresh, "The key is shown in full only now"},
		{"accounts recover northwind", `{"key":"` + fresh + `"}`, fresh, "The key is shown in full only now"},
		{"accounts create northwind", `{"name":"northwind","key":"` + fresh + `"}`, fresh, "The key is shown in full only now"},
		{"consumers create partners acme --with-api-key", `{"name":"acme","apiKeys":[{"id":"key_1","key":"` + fresh + `"}]}`, fresh, "The key is shown in full only now"},
		{"consumers create partners acme", `{"name":"acme"}`, "acme", ""},
		{"webhooks create https://example.com", `{"id":"w","secret":"whsec_abc"}`, "whsec_abc", "The signing secret is shown only now"},
		{"webhooks rotate w", `{"secret":"whsec_abc","previousSecretExpiresAt":"2026-11-22T10:00:00.000Z"}`, "2026-11-22T10:00:00Z", "The signing secret is shown only now"},
		{"keys update partners acme key_1 --description x", `{"id":"key_1","key":"****1a2b3c4d"}`, "****1a2b3c4d", ""},
	}
	for _, row := range rows {
		for _, form := range []string{"table", "json"} {
			t.Run(row.command+" "+form, func(t *testing.T) {
				t.Parallel()
				r := call(t, http.StatusOK, row.answer, append(strings.Fields(row.command), "-o", form)...)
				shows := row.shows
				if form == "json" {
					shows = row.answer
				}
				if r.code != 0 || strings.Count(r.stdout, shows) != 1 || !strings.HasPrefix(r.stderr, row.once) || (row.once == "") != (r.stderr == "") {
					t.Errorf("exit code %d, stdout\n%s\nstderr\n%s", r.code, r.stdout, r.stderr)
				}
				if strings.Contains(r.stderr, fresh) || strings.Contains(r.stderr, "whsec_") {
					t.Errorf("stderr has the secret: %s", r.stderr)
				}
			})
		}
	}
}

func TestFilesAreReadAsTheyAre(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "event.json")
	const text = "[ {\"id\":\"e\"} ]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := call(t, http.StatusAccepted, `{"events":[{"id":"e","duplicate":true}]}`, "events", "publish", file)
	if diff := cmp.Diff([]asked{{"POST", "/v1/events", text}}, r.asked); diff != "" || r.stdout != "EVENT  DUPLICATE\ne      yes\n" {
		t.Errorf("stdout\n%s\nasked (-want +r.asked):\n%s", r.stdout, diff)
	}
	r = call(t, http.StatusAccepted, `{}`, "events", "publish", file+".missing")
	if r.code != 1 || len(r.asked) > 0 || !strings.Contains(r.stderr, "no such file") {
		t.Errorf("a file that is missing: exit code %d, r.stderr %q", r.code, r.stderr)
	}
}
