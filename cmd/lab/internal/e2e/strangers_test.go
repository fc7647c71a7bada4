package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/stack"
	"waybill.dev/shared/certificate/certificatetest"
	"waybill.dev/shared/domain"
)

// operation is one of the OpenAPI document.
type operation struct {
	method, path string
	scope        string // empty: open to all
	body         string // its example
}

// operations reads the document that is served.
func (w *world) operations() (list []operation) {
	w.Helper()
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(w.ask(w.api, http.MethodGet, "/openapi", "", http.StatusOK).Body, &document); err != nil {
		w.Fatal(err)
	}
	// In order, so that the second account publishes before it has webhooks.
	for _, path := range slices.Sorted(maps.Keys(document.Paths)) {
		item := document.Paths[path]
		for _, method := range []string{"get", "post", "put", "patch", "delete"} {
			raw, ok := item[method]
			if !ok {
				continue
			}
			list = append(list, w.operation(strings.ToUpper(method), path, raw))
		}
	}
	return list
}

func (w *world) operation(method, path string, raw []byte) operation {
	w.Helper()
	var described struct {
		Scope       string                `json:"x-scope"`
		Security    []map[string][]string `json:"security"`
		RequestBody struct {
			Content map[string]struct {
				Example  json.RawMessage
				Examples map[string]struct{ Value json.RawMessage }
			}
		}
	}
	if err := json.Unmarshal(raw, &described); err != nil {
		w.Fatalf("%s %s: %v", method, path, err)
	}
	o := operation{method: method, path: path, scope: described.Scope}
	switch path {
	case explained:
		o.path += "?deliveryId={deliveryId}"
	case "/v1/environments":
		o.path += "?accountName={accountName}&projectName={projectName}"
	case "/v1/deployments/{deploymentName}/stats-by-status-code":
		o.path += "?filter=last-hour"
	}
	if (o.scope == "") != (len(described.Security) == 0) {
		w.Errorf("%s %s: scope %q, security %v", method, path, o.scope, described.Security)
	}
	content := described.RequestBody.Content["application/json"]
	o.body = string(content.Example)
	for _, example := range content.Examples {
		o.body = string(example.Value)
	}
	return o
}

// ask sends a request and wants a status; 0: any.
func (w *world) ask(c *stack.Client, method, path, body string, status int) client.Answer {
	w.Helper()
	a, err := c.Ask(w.Context(), method, path, []byte(body), nil)
	if err != nil {
		w.Fatal(err)
	}
	if status != 0 && a.Status != status {
		w.Errorf("%s %s answers %d, want %d: %.300s", method, path, a.Status, status, a.Body)
	}
	return a
}

// things is one of everything that a path can name.
type things struct {
	account, project, bucket, consumer, key, manager, webhook, event, delivery, job string
	branch, variable                                                                string
	deployment, build, status                                                       string
	signing                                                                         string // a public key
	feature, plan                                                                   string
	tunnel, operation                                                               string
	authority                                                                       string // a CA certificate
}

func (t things) fill(path string) string {
	return strings.NewReplacer(
		"{accountName}", t.account, "{projectName}", t.project, "{bucketName}", t.bucket, "{consumerName}", t.consumer, "{keyId}", t.key, "{managerId}", t.manager,
		"/webhooks/{id}", "/webhooks/"+t.webhook, "/events/{id}", "/events/"+t.event, "/deliveries/{id}", "/deliveries/"+t.delivery,
		"/jobs/{id}", "/jobs/"+t.job, "{deliveryId}", t.delivery, "{branchName}", url.PathEscape(t.branch), "{variableName}", t.variable,
		"{cursorName}", "main", "{deploymentName}", t.deployment, "{buildId}", t.build, "{statusId}", t.status, "{requestId}", t.status, "{environmentName}", t.deployment,
		"{tunnelId}", t.tunnel, "{operationId}", t.operation, "{certificateId}", t.authority,
		"{meterIdOrSlug}", "their_meter", "{groupByKey}", "route", "{featureId}", t.feature, "{planId}", t.plan,
	).Replace(path)
}

// nothing is like things, but nothing of it is there.
func nothing(account string) things {
	return things{
		account, "no-such-project", "no-such-bucket", "no-such-consumer", "key_000000000000000000000000", "eusr_000000000000000000000000",
		"0190c0f0-0000-7000-8000-000000000000", "evt_none", "0000000000000000000000", "job_000000000000000000000000",
		"no-such-branch", "NO_SUCH_VARIABLE",
		"no-such-deployment", "0190c0f0-0000-7000-8000-000000000000", "0190c0f0-0000-7000-8000-000000000000", "",
		strings.Repeat("0", 26), strings.Repeat("0", 26),
		"tun_0000000000000000000000", "pst_0000000000000000000000", "mtlsca_0000000000000000000000",
	}
}

// furnish makes one of everything in the default account.
func (w *world) furnish() things {
	w.Helper()
	create := func(path, body string) string {
		var made struct{ ID string }
		if err := json.Unmarshal(w.ask(w.api, http.MethodPost, path, body, http.StatusCreated).Body, &made); err != nil || made.ID == "" {
			w.Fatalf("POST %s answers no id: %v", path, err)
		}
		return made.ID
	}
	t := things{account: "default", project: "their-project", bucket: "their-bucket", consumer: "their-consumer", branch: "their/branch", variable: "THEIRS"}
	create("/v1/projects", `{"name":"their-project"}`)
	w.ask(w.api, http.MethodPost, t.fill("/v1/accounts/{accountName}/projects/{projectName}/branches/{branchName}/variables"), `{"name":"THEIRS","isSecret":true,"value":"theirs"}`, http.StatusCreated)
	create(bucketsOfDefault, `{"name":"their-bucket"}`)
	consumers := bucketsOfDefault + "/their-bucket/consumers"
	create(consumers, `{"name":"their-consumer","scopes":["events:read"]}`)
	t.key = create(consumers+"/their-consumer/keys", `{}`)
	t.manager = create(consumers+"/their-consumer/managers", `{"email":"a@b.example","sub":"s"}`)
	endpoint, hook := w.register("theirs", nil)
	t.webhook, t.event = hook.ID, w.publish(1)[0]
	w.arrived(endpoint, []string{t.event})
	t.delivery = w.delivery(t.webhook, t.event, "delivered").ID
	w.follow(&t)
	w.dig(&t)
	authority, err := json.Marshal(map[string]string{"name": "theirs", "certificate": certificatetest.NewCA(w, "Theirs", nil).PEM()})
	if err != nil {
		w.Fatal(err)
	}
	t.authority = create("/v1/accounts/default/client-mtls-ca-certificates", string(authority))
	w.meter(&t)
	var job struct{ ID string }
	none := w.ask(w.api, http.MethodPost, "/v1/deliveries/retry", `{"eventId":"`+t.event+`","status":"failed"}`, http.StatusAccepted)
	if err := json.Unmarshal(none.Body, &job); err != nil || job.ID == "" {
		w.Fatalf("a job has no id: %v", err)
	}
	t.job = job.ID
	var upload struct{ DeploymentName, BuildID, StatusID string }
	a, err := w.api.Ask(w.Context(), http.MethodPost, "/v1/deployments/sources?accountName=default&projectName=their-project&branchName=main", []byte("PK no archive"),
		http.Header{"Content-Type": {"application/zip"}})
	if err != nil || a.Status != http.StatusAccepted || json.Unmarshal(a.Body, &upload) != nil {
		w.Fatalf("upload: %d %s, %v", a.Status, a.Body, err)
	}
	t.deployment, t.build, t.status = upload.DeploymentName, upload.BuildID, upload.StatusID
	w.await("the build has ended", patience, func() bool {
		return bytes.Contains(w.ask(w.api, http.MethodGet, t.fill("/v1/deployments/{deploymentName}"), "", http.StatusOK).Body, []byte(`"ERRORED"`))
	})
	return t
}

// follow gives the default account a key to sign with, and its webhook a filter, an authentication and a
// place in its feed.
func (w *world) follow(t *things) {
	w.Helper()
	t.signing = publicKey.FindString(string(w.ask(w.api, http.MethodPost, "/v1/signing-keys/rotate", `{}`, 0).Body))
	if t.signing == "" {
		w.Fatal("a rotation shows no public key")
	}
	w.ask(w.api, http.MethodPatch, t.fill("/v1/webhooks/{id}"), `{"filter":{"data.theirs":{"$ne":1}},"auth":{"type":"bearer","token":"their-token"}}`, http.StatusOK)
	var page struct{ Cursor string }
	if err := json.Unmarshal(w.ask(w.api, http.MethodGet, t.fill("/v1/webhooks/{id}/feed"), "", http.StatusOK).Body, &page); err != nil || page.Cursor == "" {
		w.Fatalf("the feed has no cursor: %v", err)
	}
	w.ask(w.api, http.MethodPut, t.fill("/v1/webhooks/{id}/cursors/{cursorName}"), `{"cursor":"`+page.Cursor+`"}`, http.StatusOK)
}

var publicKey = regexp.MustCompile(`whpk_[0-9A-Za-z+/]+=*`)

// meter makes a meter, a feature and a draft of a plan in the bucket of the default account.
func (w *world) meter(t *things) {
	w.Helper()
	bucket := t.fill("/v1/accounts/{accountName}/key-buckets/{bucketName}")
	w.ask(w.api, http.MethodPost, bucket+"/meters", `{"slug":"their_meter","aggregation":"COUNT","eventType":"their_meter","groupBy":{"route":"$.route"}}`, http.StatusCreated)
	made := func(path, body string) string {
		var it struct{ ID string }
		if err := json.Unmarshal(w.ask(w.api, http.MethodPost, bucket+path, body, http.StatusCreated).Body, &it); err != nil || it.ID == "" {
			w.Fatalf("%s: no id: %v", path, err)
		}
		return it.ID
	}
	t.feature = made("/features", `{"key":"their_feature","name":"Theirs","meterSlug":"their_meter"}`)
	t.plan = made("/plans", `{"key":"their_plan","name":"Theirs","currency":"USD","billingCadence":"P1M","phases":[{"key":"only","name":"Only","rateCards":[]}]}`)
}

// dig makes a tunnel of the default account, with a service.
func (w *world) dig(t *things) {
	w.Helper()
	var made struct{ TunnelID, ID string }
	if err := json.Unmarshal(w.ask(w.api, http.MethodPost, "/v1/accounts/default/tunnels", `{"name":"their-tunnel"}`, http.StatusCreated).Body, &made); err != nil || made.TunnelID == "" {
		w.Fatalf("a tunnel has no id: %v", err)
	}
	t.tunnel = made.TunnelID
	services := `{"version":1,"services":[{"name":"theirs","endpoint":"http://theirs","configurations":[{"project":"their-project","accessibleBy":["preview"]}]}]}`
	if err := json.Unmarshal(w.ask(w.api, http.MethodPut, t.fill("/v1/accounts/default/tunnels/{tunnelId}/services-configuration"), services, http.StatusOK).Body, &made); err != nil || made.ID == "" {
		w.Fatalf("an operation has no id: %v", err)
	}
	t.operation = made.ID
}

// everything is what the default account has.
func (w *world) everything(t things) string {
	w.Helper()
	var all strings.Builder
	for _, path := range []string{
		"/v1/webhooks", "/v1/webhooks/{id}/cursors", "/v1/signing-keys", "/v1/events", "/v1/events/{id}", "/v1/deliveries", "/v1/deliveries/{id}", "/v1/jobs", "/v1/rejected", "/v1/accounts/{accountName}/projects",
		"/v1/accounts/{accountName}/projects/{projectName}/branches/{branchName}/variables",
		"/v1/deployments/{deploymentName}", "/v1/deployments/{deploymentName}/builds",
		"/v1/accounts/{accountName}/tunnels", "/v1/accounts/{accountName}/tunnels/{tunnelId}", "/v1/accounts/{accountName}/tunnels/{tunnelId}/services-configuration", "/v1/accounts/{accountName}/custom-domains",
		"/v1/accounts/{accountName}/client-mtls-ca-certificates",
		"/v1/accounts/{accountName}/key-buckets", "/v1/accounts/{accountName}/audit-logs",
		"/v1/accounts/{accountName}/key-buckets/{bucketName}/consumers?include-api-keys=true&include-managers=true&key-format=visible",
	} {
		fmt.Fprintf(&all, "%s\n%s\n", path, w.ask(w.api, http.MethodGet, t.fill(path), "", http.StatusOK).Body)
	}
	return all.String()
}

// strangersCase is the case that needs a gateway, which ends a build.
const strangersCase = "accounts are strangers"

// strangers tries every operation of the document with a key of another account, with none
// and with one that has no scope.
func strangers(w *world) {
	operations, theirs := w.operations(), w.furnish()
	key := func(path, body string) string {
		shown := shownSecret.FindString(string(w.ask(w.api, http.MethodPost, path, body, http.StatusCreated).Body))
		if shown == "" {
			w.Fatalf("POST %s shows no key", path)
		}
		return shown
	}
	stranger := w.api.As(key("/v1/accounts", `{"name":"second"}`))
	powerless := w.api.As(key(bucketsOfDefault+"/their-bucket/consumers?with-api-key=true", `{"name":"powerless"}`))
	before, tried := w.everything(theirs), 0
	for _, o := range operations {
		if o.scope == "" {
			continue
		}
		tried++
		w.shut(stranger, o, theirs)
		w.ask(w.api.As(""), o.method, theirs.fill(o.path), o.body, http.StatusUnauthorized)
	}
	w.sameName(stranger, theirs)
	if after := w.everything(theirs); after != before {
		w.Errorf("something changed:\n%s\n%s", before, after)
	}
	for _, o := range operations {
		switch domain.Scope(o.scope) {
		case "":
		case domain.ScopeAny:
			w.ask(powerless, o.method, theirs.fill(o.path), o.body, http.StatusOK)
		default:
			w.ask(powerless, o.method, theirs.fill(o.path), o.body, http.StatusForbidden)
		}
	}
	if tried < 30 {
		w.Errorf("the document has %d operations", tried)
	}
}

var ownPlace = regexp.MustCompile(`"(instance|requestId)":"[^"]*"`)

const (
	explained = "/v1/explanations" // answers 200 to any id
	live      = "/v1/live"         // a stream
)

// unexplained fails the case unless an explanation says of what is another's the same as of what
// is not there.
func (w *world) unexplained(stranger *stack.Client, o operation, theirs things) {
	w.Helper()
	none := nothing("second")
	got := w.ask(stranger, o.method, theirs.fill(o.path), "", http.StatusOK)
	want := w.ask(stranger, o.method, none.fill(o.path), "", http.StatusOK)
	if a := bytes.ReplaceAll(got.Body, []byte(theirs.delivery), []byte(none.delivery)); !bytes.Equal(a, want.Body) {
		w.Errorf("%s shows that it is there:\n%s\n%s", o.path, got.Body, want.Body)
	}
}

// shut fails the case unless a stranger is told nothing of what another account has.
func (w *world) shut(stranger *stack.Client, o operation, theirs things) {
	w.Helper()
	switch {
	case o.path == live: // it never ends; the API's own tests have two accounts listen
		return
	case strings.HasPrefix(o.path, explained):
		w.unexplained(stranger, o, theirs)
		return
	case !strings.Contains(o.path, "{"):
		a := w.ask(stranger, o.method, o.path, o.body, 0)
		if o.method == http.MethodGet && a.Status != http.StatusOK {
			w.Errorf("%s %s answers %d: %s", o.method, o.path, a.Status, a.Body)
		}
		for _, id := range []string{`"default"`, "their-", theirs.webhook, `"` + theirs.event + `"`, theirs.delivery, theirs.signing} {
			if bytes.Contains(a.Body, []byte(id)) {
				w.Errorf("%s %s shows what is another's: %s", o.method, o.path, a.Body)
			}
		}
		return
	}
	// Their things in the stranger's own account are not there either.
	mixed := theirs
	mixed.account = "second"
	for there, nowhere := range map[things]things{theirs: nothing("no-such-account"), mixed: nothing("second")} {
		path := there.fill(o.path)
		if strings.Contains(path, "{") {
			w.Errorf("%s: nothing is known to fill it with", path)
		}
		if path == nowhere.fill(o.path) {
			continue // what is the stranger's own
		}
		got := w.ask(stranger, o.method, path, o.body, http.StatusNotFound)
		none := w.ask(stranger, o.method, nowhere.fill(o.path), o.body, http.StatusNotFound)
		if a, b := ownPlace.ReplaceAll(got.Body, nil), ownPlace.ReplaceAll(none.Body, nil); !bytes.Equal(a, b) {
			w.Errorf("%s %s shows that it is there:\n%s\n%s", o.method, path, a, b)
		}
	}
}

// sameName lets the stranger have things of the same names: they are others.
func (w *world) sameName(stranger *stack.Client, theirs things) {
	w.Helper()
	e := event{ID: theirs.event, Type: domain.ShipmentCreated, Timestamp: "2026-11-16T13:04:11+01:00", Data: `{"shipmentId":"other"}`}
	if a := w.ask(stranger, http.MethodPost, "/v1/events", string(e.body()), http.StatusAccepted); !bytes.Contains(a.Body, []byte(`"duplicate":false`)) {
		w.Errorf("another account's event of the same id: %s", a.Body)
	}
	w.ask(stranger, http.MethodPost, "/v1/accounts/second/key-buckets", `{"name":"their-bucket"}`, http.StatusCreated)
	w.ask(stranger, http.MethodDelete, "/v1/accounts/second/key-buckets/their-bucket", "", http.StatusNoContent)
}
