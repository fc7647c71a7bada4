package api_test

import (
	"bytes"
	"net/http"
	"regexp"
	"strings"
	"testing"

	api "waybill.dev/services/api"
	"waybill.dev/shared/domain"
)

// bodies has a good body for each operation that takes one.
func bodies() map[string]string {
	return map[string]string{
		"registerWebhook":     plainWebhook,
		"updateWebhook":       `{"description":"taken"}`,
		"rotateWebhookSecret": `{}`,
		"rotateSigningKeys":   `{}`,
		"testWebhook":         `{}`,
		"acknowledgeProblem":  `{}`,
		"testWebhookFilter":   `{"filter":{"data.shipmentId":"x"},"lastEvents":10}`,
		"setCursor":           `{"cursor":"x"}`,
		"replayWebhook":       `{"since":"2026-01-01T00:00:00Z"}`,
		"publishEvents":       event("evt_isolation"),
		"retryDelivery":       ``,
		"retryDeliveries":     `{"since":"2026-01-01T00:00:00Z"}`,
		"createAccount":       `{"name":"third"}`,
		"createAdminKey":      `{}`,
		"createProject":       `{"name":"project"}`,
		"updateProject":       `{"productionBranch":"taken"}`,
		"createVariable":      `{"name":"NEW","isSecret":false,"value":"taken"}`,
		"updateVariable":      `{"value":"taken"}`,
		"createBucket":        `{"name":"new-bucket"}`,
		"updateBucket":        `{"description":"taken"}`,
		"createConsumer":      `{"name":"new-consumer"}`,
		"updateConsumer":      `{"description":"taken"}`,
		"createKey":           `{}`,
		"createKeys":          `[{}]`,
		"updateKey":           `{"description":"taken"}`,
		"rollKeys":            `{}`,
		"createManager":       `{"email":"a@b.example","sub":"s"}`,

		"createDeploymentSource": `{"accountName":"default","projectName":"their-project","branchName":"main"}`,
		"redeploy":               `{}`,

		"createMeter":      `{"slug":"taken","aggregation":"COUNT","eventType":"taken"}`,
		"updateMeter":      `{"name":"taken"}`,
		"queryMeterByBody": `{}`,
		"createFeature":    `{"key":"taken","name":"taken"}`,
		"createPlan":       `{"key":"taken","name":"taken","currency":"USD","billingCadence":"P1M","phases":[{"key":"only","name":"Only","rateCards":[]}]}`,
		"updatePlan":       `{"name":"taken","currency":"USD","billingCadence":"P1M","phases":[{"key":"only","name":"Only","rateCards":[]}]}`,
		"setSubscription":  `{"planKey":"their_plan"}`,

		"createTunnel":            `{"name":"taken"}`,
		"rotateTunnelToken":       `{}`,
		"configureTunnelServices": `{"version":1,"services":[]}`,

		"createCustomDomain":            `{"hostname":"new.example.com"}`,
		"updateCustomDomain":            `{"hostname":"theirs.example.com","isDefault":false}`,
		"verifyCustomDomain":            `{"hostname":"theirs.example.com"}`,
		"putCustomDomainCertificate":    certificateBody("theirs.example.com"),
		"deleteCustomDomainCertificate": `{"hostname":"theirs.example.com"}`,

		"createClientMtlsCaCertificate": `{"name":"taken","certificate":"-----BEGIN CERTIFICATE-----"}`,
		"updateClientMtlsCaCertificate": `{"name":"taken"}`,
	}
}

// queries has a good query for each operation that needs one.
func queries() map[string]string {
	return map[string]string{"explainDelivery": "?deliveryId={deliveryId}", "listEnvironments": "?accountName=second&projectName=own", "getCallStatistics": "?filter=last-hour", "deleteCustomDomain": "?hostname=theirs.example.com"}
}

// theirs is everything of the default account that a path can name.
func (r *rig) theirs() *strings.Replacer {
	bucket := r.bucket("their-bucket")
	consumer, _ := r.holder(bucket, "their-consumer")
	key := r.do(http.MethodPost, consumer+"/keys", "").want(http.StatusCreated).text("id")
	manager := r.do(http.MethodPost, consumer+"/managers", `{"email":"a@b.example","sub":"s"}`).want(http.StatusCreated).text("id")
	r.do(http.MethodPost, "/v1/projects", `{"name":"their-project"}`).want(http.StatusCreated)
	r.do(http.MethodPost, "/v1/accounts/default/projects/their-project/branches/their%2Fbranch/variables", `{"name":"THEIRS","isSecret":false,"value":"theirs"}`).want(http.StatusCreated)
	webhook := r.register(plainWebhook).text("id")
	r.insist(http.MethodPost, "/v1/events", event("evt_theirs")).want(http.StatusAccepted)
	delivery := string(r.deliver(webhook, "evt_theirs", domain.StatusFailed, ""))
	job := r.do(http.MethodPost, "/v1/deliveries/retry", `{"eventId":"evt_theirs","status":"held"}`).want(http.StatusAccepted).text("id")
	upload := r.archive(http.MethodPost, sourcesPath+"?accountName=default&projectName=their-project&branchName=main", "application/zip", "PK").want(http.StatusAccepted)
	tunnel, provisioning := r.theirTunnel()
	feature, plan := r.theirMetering("/v1/accounts/default/key-buckets/their-bucket")
	r.do(http.MethodPost, domainsPath, `{"hostname":"theirs.example.com"}`).want(http.StatusCreated)
	return strings.NewReplacer(
		"{tunnelId}", tunnel, "{operationId}", provisioning, "{certificateId}", r.theirCA(),
		"{meterIdOrSlug}", "their_meter", "{groupByKey}", "route", "{featureId}", feature, "{planId}", plan,
		"{deploymentName}", upload.text("deploymentName"), "{statusId}", upload.text("statusId"), "{buildId}", upload.text("buildId"), "{requestId}", "0190c0f0-0000-7000-8000-000000000001",
		"{accountName}", "default", "{bucketName}", "their-bucket", "{consumerName}", "their-consumer", "{keyId}", key, "{managerId}", manager, "{projectName}", "their-project",
		"{branchName}", "their%2Fbranch", "{variableName}", "THEIRS",
		"{deliveryId}", delivery,
		"/webhooks/{id}", "/webhooks/"+webhook, "/events/{id}", "/events/evt_theirs", "/deliveries/{id}", "/deliveries/"+delivery, "/jobs/{id}", "/jobs/"+job,
	)
}

// nobodys is the same with names of nothing.
func nobodys() *strings.Replacer {
	const id = "0190c0f0-0000-7000-8000-000000000000"
	return strings.NewReplacer(
		"{tunnelId}", "tun_0000000000000000000000", "{operationId}", "pst_0000000000000000000000", "{certificateId}", "mtlsca_0000000000000000000000",
		"{meterIdOrSlug}", "no_such_meter", "{groupByKey}", "route", "{featureId}", "00000000000000000000000000", "{planId}", "00000000000000000000000000",
		"{deploymentName}", "no-such-deployment", "{statusId}", id, "{buildId}", id, "{requestId}", id,
		"{accountName}", "no-such-account", "{bucketName}", "no-such-bucket", "{consumerName}", "no-such-consumer",
		"{keyId}", "key_000000000000000000000000", "{managerId}", "eusr_000000000000000000000000", "{projectName}", "no-such-project",
		"{branchName}", "no-such-branch", "{variableName}", "NO_SUCH_VARIABLE",
		"/webhooks/{id}", "/webhooks/"+id, "/events/{id}", "/events/evt_none",
		"/deliveries/{id}", "/deliveries/0000000000000000000000", "/jobs/{id}", "/jobs/"+id,
	)
}

var ownPlace = regexp.MustCompile(`"(instance|requestId)":"[^"]*"`)

// Another account's key finds nothing, whatever it tries, and can't tell what is there
// from what is not.
func TestIsolation(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		theirs, nobodys, body, query := r.theirs(), nobodys(), bodies(), queries()
		second := r.secondAccount("second")
		r.do(http.MethodPost, "/v1/projects", `{"name":"own"}`, as(second)).want(http.StatusCreated)
		everything := func() string {
			var all strings.Builder
			for _, path := range []string{bucketsPath, bucketsPath + "/their-bucket/consumers?include-api-keys=true&include-managers=true&key-format=visible", "/v1/webhooks", "/v1/deliveries", "/v1/events", "/v1/accounts/default/projects", "/v1/accounts/default/projects/their-project/branches/their%2Fbranch/variables", "/v1/accounts/default/projects/their-project/deployments", "/v1/accounts/default/tunnels", "/v1/accounts/default/custom-domains", casPath,
				bucketsPath + "/their-bucket/meters", bucketsPath + "/their-bucket/features", bucketsPath + "/their-bucket/plans"} {
				all.Write(r.do(http.MethodGet, path, "").want(http.StatusOK).body)
			}
			return all.String()
		}
		before := everything()
		for _, route := range api.Routes() {
			if route.Scope == "" || route.Stream { // TestLive is about what streams show
				continue
			}
			there := r.do(route.Method, theirs.Replace(route.Path+query[route.Operation]), body[route.Operation], as(second))
			if strings.Contains(route.Path, "{") {
				if there.status != http.StatusNotFound {
					t.Errorf("%s: status %d: %s", there.call, there.status, there.body)
				}
				nowhere := r.do(route.Method, nobodys.Replace(route.Path+query[route.Operation]), body[route.Operation], as(second))
				if nowhere.status != there.status || !bytes.Equal(ownPlace.ReplaceAll(there.body, nil), ownPlace.ReplaceAll(nowhere.body, nil)) {
					t.Errorf("%s: it shows:\n%s\n%s", there.call, there.body, nowhere.body)
				}
				// A bad body is not looked at before.
				bad := r.do(route.Method, theirs.Replace(route.Path), `{"x":`, as(second))
				if strings.Contains(route.Path, "{accountName}") && route.Method != http.MethodGet && bad.status != http.StatusNotFound {
					t.Errorf("%s with a bad body: status %d", bad.call, bad.status)
				}
				continue
			}
			if route.Method != http.MethodGet {
				continue
			}
			for _, id := range []string{"their", "evt_theirs", "default"} {
				if strings.Contains(string(there.want(http.StatusOK).body), id) {
					t.Errorf("%s shows what is another's: %s", there.call, there.body)
				}
			}
		}
		// An upload for another account's project is one for nobody's.
		for _, at := range []string{"accountName=default&projectName=their-project", "accountName=no-such-account&projectName=no-such-project"} {
			a := r.archive(http.MethodPost, sourcesPath+"?branchName=main&"+at, "application/zip", "PK", as(second)).want(http.StatusNotFound)
			a.field("detail", "There is no such account.")
		}
		r.do(http.MethodPost, sourcesPath, body["createDeploymentSource"], as(second)).want(http.StatusNotFound).field("detail", "There is no such account.")
		if after := everything(); after != before {
			t.Errorf("something changed:\n%s\n%s", before, after)
		}
		if log := r.do(http.MethodGet, "/v1/accounts/default/audit-logs?limit=100", "").want(http.StatusOK); strings.Contains(string(log.body), "second") && strings.Contains(string(log.body), "admin/admin") {
			t.Errorf("another account's attempts are in the log: %s", log.body)
		}
		r.do(http.MethodGet, "/v1/accounts/second/audit-logs", "", as(second)).want(http.StatusOK)

		// Nor does an admin of the first account see the second.
		_, first := r.holder(bucketsPath+"/their-bucket", "admin", domain.ScopeAdmin)
		r.do(http.MethodPost, "/v1/webhooks", plainWebhook, as(second)).want(http.StatusCreated)
		r.do(http.MethodGet, "/v1/webhooks", "", as(first)).want(http.StatusOK)
		for _, path := range []string{"/key-buckets", "/key-buckets/admin", "/key-buckets/admin/consumers", "/key-buckets/admin/consumers/admin/keys", "/projects", "/audit-logs"} {
			r.do(http.MethodGet, "/v1/accounts/second"+path, "", as(first)).want(http.StatusNotFound)
		}
	})
}

// What is not there is named by its kind, and by nothing else.
func TestMissingIsNamed(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	consumer, _ := r.holder(r.bucket("there-is"), "consumer")
	const id = "/0190c0f0-0000-7000-8000-000000000000"
	for path, kind := range map[string]string{
		"/v1/webhooks" + id: "webhook", "/v1/webhooks/nonsense": "webhook", "/v1/events/evt_none": "event",
		"/v1/deliveries/0000000000000000000000": "delivery", "/v1/accounts/none": "account", "/v1/accounts/none/key-buckets": "account",
		"/v1/accounts/default/projects/none": "project", "/v1/accounts/default/projects/none/branches/main/variables": "project", bucketsPath + "/none-such": "bucket", bucketsPath + "/none-such/consumers": "bucket",
		bucketsPath + "/there-is/consumers/none": "consumer", consumer + "/keys/key_000000000000000000000000": "key",
		consumer + "/managers/eusr_000000000000000000000000": "manager",
	} {
		r.do(http.MethodGet, path, "").want(http.StatusNotFound).field("detail", "There is no such "+kind+".")
	}
	r.do(http.MethodPost, "/v1/webhooks"+id+"/test", "").want(http.StatusNotFound).field("detail", "There is no such webhook.")
	r.do(http.MethodPost, "/v1/deliveries/0000000000000000000000/retry", "").want(http.StatusNotFound).field("detail", "There is no such delivery.")
}

// Every operation but the open ones needs a key, and that key the scope of the table.
func TestScopesOfRoutes(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	theirs, body := r.theirs(), bodies()
	keys := map[domain.Scope]string{}
	for _, lacking := range domain.Scopes() {
		var rest []domain.Scope
		for _, scope := range domain.Scopes() {
			if scope != lacking && scope != domain.ScopeAdmin {
				rest = append(rest, scope)
			}
		}
		_, keys[lacking] = r.holder(bucketsPath+"/their-bucket", "lacks-"+strings.ReplaceAll(string(lacking), ":", "-"), rest...)
	}
	_, none := r.holder(bucketsPath+"/their-bucket", "has-none")
	for _, route := range api.Routes() {
		if route.Scope == "" {
			continue
		}
		path := theirs.Replace(route.Path)
		a := r.do(route.Method, path, body[route.Operation], without("Authorization")).want(http.StatusUnauthorized)
		if a.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s: WWW-Authenticate is %q", a.call, a.header.Get("WWW-Authenticate"))
		}
		r.do(route.Method, path, body[route.Operation], as("wbk_abcdefghijklmnopqrstuvwxyz012345_00000000")).want(http.StatusUnauthorized)
		if route.Scope == domain.ScopeAny {
			r.do(route.Method, path, "", as(none)).want(http.StatusOK)
			continue
		}
		lacking := []string{keys[route.Scope], none}
		if route.Or != "" { // who lacks either has the other
			for _, key := range []string{keys[route.Scope], keys[route.Or]} {
				if a := r.do(route.Method, path, body[route.Operation], as(key)); a.status/100 != 2 {
					t.Errorf("%s: status %d with one of two scopes", a.call, a.status)
				}
			}
			lacking = []string{none}
		}
		if route.And != "" {
			lacking = append(lacking, keys[route.And])
		}
		for _, key := range lacking {
			r.do(route.Method, path, body[route.Operation], as(key)).want(http.StatusForbidden).field("code", "FORBIDDEN")
			r.do(route.Method, path, `{"x":`, as(key)).want(http.StatusForbidden)
		}
	}
}
