package growthtest

import (
	"fmt"
	"slices"

	"strings"
	"time"

	"waybill.dev/services/api"
)

// call is one way to call an operation or a page. What is not said is taken from its route: each
// parameter of the path stands for something that is in both databases, see names.
type call struct {
	path  string // instead of the route's
	query string
	body  string // JSON, or with application/x-www-form-urlencoded
	as    string // tells the call from others of the operation
	// refused is a status that is as good as the route's own; 0: there is none.
	refused int
	// elsewhere says that TestServices does it, because the services must run for it.
	elsewhere bool
}

const (
	bucketPath   = "/v1/accounts/default/key-buckets/" + bucket
	consumerPath = bucketPath + "/consumers/" + consumer
	accountPath  = "/v1/accounts/default"
)

// names are what the parameters of paths stand for. What an operation takes away has a number of its own.
func names(deliveries deliveryIDs) *strings.Replacer {
	return strings.NewReplacer(
		"{webhookId}", webhook, "/v1/webhooks/{id}", "/v1/webhooks/"+webhook, "/v1/events/{id}", "/v1/events/"+event, "/v1/deliveries/{id}", "/v1/deliveries/"+deliveries.failed,
		"/v1/jobs/{id}", "/v1/jobs/"+"01900000-0000-7000-8000-000000000001",
		"{eventId}", event, "{deliveryId}", deliveries.failed, "{shipmentId}", shipment, "{eventType}", "shipment.created", "{jobId}", "01900000-0000-7000-8000-000000000001",
		"{accountName}", "default", "{account}", "default", "{bucketName}", bucket, "{consumerName}", consumer, "{projectName}", "project-1", "{branchName}", "branch-1", "{variableName}", "NAME",
		"{environmentName}", deployment, "{keyId}", numbered("key_", 1), "{managerId}", numbered("mngr_", 1),
		"{deploymentName}", deployment, "{buildId}", "01900000-0000-7000-8000-000000000001", "{statusId}", "01900000-0000-7000-8001-000000000001", "{requestId}", "req-1",
		"{tunnelId}", numbered("tnl_", 1), "{operationId}", "op-1", "{certificateId}", numbered("ca_", 1), "{cursorName}", "cursor-1",
		"{meterIdOrSlug}", "meter_1", "{groupByKey}", "subject", "{featureId}", numbered("ftr_", 1), "{planId}", numbered("pln_", 1),
		"{file}", "feed", "{code}", "not-found", "{tab}", "deliveries", "{sequence}", "1",
	)
}

func numbered(prefix string, n int) string { return fmt.Sprintf("%s%022d", prefix, n) }

// deliveryIDs are deliveries by their state.
type deliveryIDs struct{ failed, again string }

// operations has a row for each operation of the API, in the order in which they are called.
func operations(d deliveryIDs) map[string][]call {
	now := time.Now().UTC()
	day := now.Add(-24 * time.Hour).Format(time.RFC3339)
	hour := now.Add(-time.Hour).Format(time.RFC3339)
	from := now.Add(-24 * time.Hour).Truncate(time.Hour).Format(time.RFC3339)
	none := []call{{}}
	list := []call{{query: "limit=50"}, {as: "page", query: "limit=50&offset=20"}}
	return map[string][]call{
		"checkHealth": none, "checkReadiness": none, "whoAmI": none, "getOpenAPI": none, "getAsyncAPI": none, "showDocs": none, "getDocsFile": none, "explainProblem": none,
		"listWebhooks": append([]call{{as: "health", query: "limit=50&include=health"}, {as: "troubled", query: "limit=50&include=health&troubled=true"}}, list...), "getWebhook": {{}, {as: "health", query: "include=health"}},
		"registerWebhook":     {{body: `{"url":"http://127.0.0.1:9/x","events":["shipment.created"]}`}},
		"updateWebhook":       {{body: `{"description":"x"}`}},
		"rotateWebhookSecret": {{body: `{}`}}, "deleteWebhook": {{path: "/v1/webhooks/00000000-0000-7000-8000-000000000090"}},
		"acknowledgeProblem": {{path: "/v1/webhooks/00000000-0000-7000-8000-000000000009/acknowledgement", body: `{}`}}, "reopenProblem": {{path: "/v1/webhooks/00000000-0000-7000-8000-000000000019/acknowledgement"}},
		"testWebhook":       {{body: `{}`}},
		"testWebhookFilter": {{body: `{"filter":{"data.weightKg":{"$gt":10}},"lastEvents":100}`}},
		"listSigningKeys":   none, "rotateSigningKeys": {{body: `{}`}}, "getSigningKeySet": none, "listExpiring": none,
		"publishEvents": {{elsewhere: true, body: `{"id":"evt_new","type":"shipment.created","timestamp":"2026-01-02T03:04:05Z","data":{"shipmentId":"shp-1"}}`}},
		"listEvents": {
			{}, {as: "type", query: "type=shipment.delivered"}, {as: "source", query: "source=rest"}, {as: "no source", query: "source=nats"}, {as: "shipment", query: "shipmentId=" + shipment},
			{as: "since", query: "since=" + hour}, {as: "until", query: "until=" + day},
		},
		"getEvent": none,
		"listDeliveries": {
			{}, {as: "status", query: "status=failed"}, {as: "delivered", query: "status=delivered"}, {as: "pending", query: "status=pending"}, {as: "webhook", query: "webhookId=" + webhook}, {as: "event", query: "eventId=" + event},
			{as: "type", query: "eventType=shipment.created"}, {as: "shipment", query: "shipmentId=" + shipment}, {as: "reason", query: "reason=scheduleExhausted"}, {as: "class", query: "class=http_5xx"},
			{as: "no class", query: "class=dns"}, {as: "code", query: "statusCode=500"}, {as: "no code", query: "statusCode=404"}, {as: "test", query: "test=true"}, {as: "since", query: "since=" + hour},
			{as: "webhook and status", query: "status=held&webhookId=" + webhook}, {as: "webhook without any", query: "webhookId=00000000-0000-7000-8000-000000000004"},
		},
		"getDelivery": none, "retryDelivery": {{path: "/v1/deliveries/" + d.again + "/retry"}},
		"getStatistics":    {{query: "step=hour&since=" + day}, {as: "webhook", query: "step=hour&by=webhook&since=" + day, refused: 400}},
		"getWebhookHealth": none, "explainDelivery": {{query: "deliveryId=" + d.failed}, {as: "event", query: "eventId=" + event + "&webhookId=" + webhook}},
		"readFeed": {{query: "limit=20"}}, "listCursors": none, "getCursor": none, "setCursor": {{body: `{"cursor":"none"}`, refused: 400}}, "deleteCursor": {{path: "/v1/webhooks/" + webhook + "/cursors/cursor-90"}},
		"replayWebhook":   {{body: `{"since":"` + hour + `","dryRun":true}`}},
		"retryDeliveries": {{body: `{"status":"failed","dryRun":true}`}, {as: "undelivered", body: `{"dryRun":true,"since":"` + day + `"}`}, {as: "one hour", body: `{"status":"failed","dryRun":true,"since":"` + hour + `"}`}},
		"listJobs":        none, "getJob": none, "cancelJob": {{refused: 409}}, "listRejected": none,
		"listAccounts": list, "createAccount": {{body: `{"name":"another"}`}}, "getAccount": none, "createAdminKey": {{body: `{}`}},
		"getProject": none, "updateProject": {{body: `{"productionBranch":"release"}`}}, "listProjects": list, "createProject": {{body: `{"name":"another"}`}},
		"listAuditLogs": {{}, {as: "page", query: "limit=50&offset=20"}, {as: "action", query: "action=create-webhook"}, {as: "no action", query: "action=delete-webhook"}, {as: "actor", query: "actor=sub-1"}, {as: "failed", query: "success=false"}, {as: "since", query: "startDate=" + hour}},
		"listBuckets":   append([]call{{as: "consumers", query: "include-consumers=true"}}, list...), "createBucket": {{body: `{"name":"another"}`}}, "getBucket": none, "updateBucket": {{body: `{"description":"x"}`}}, "deleteBucket": {{path: accountPath + "/key-buckets/bucket-90"}},
		"listConsumers": {{query: "limit=50"}, {as: "with keys", query: "limit=50&include-api-keys=true&include-managers=true"}, {as: "manager", query: "limit=50&manager-email=m2@example.com"}, {as: "search", query: "limit=50&q=consumer-2"}, {as: "no search", query: "limit=50&q=nobody"}}, "createConsumer": {{query: "with-api-key=true", body: `{"name":"another"}`}},
		"getConsumer": none, "updateConsumer": {{body: `{"description":"x"}`}}, "deleteConsumer": {{path: bucketPath + "/consumers/consumer-91"}},
		"rollKeys": {{path: bucketPath + "/consumers/consumer-3/roll-key", body: `{"expiresOn":"2030-01-02T03:04:05Z"}`}}, "listKeys": list, "createKey": {{body: `{}`}}, "createKeys": {{body: `[{}]`}}, "getKey": none,
		"updateKey": {{body: `{"description":"x"}`}}, "deleteKey": {{path: bucketPath + "/consumers/consumer-5/keys/" + numbered("key_", 5)}},
		"listManagers": list, "createManager": {{body: `{"email":"a@example.com","sub":"a"}`}}, "getManager": none, "deleteManager": {{path: bucketPath + "/consumers/consumer-1/managers/" + numbered("mngr_", 7)}},
		"listEnvironments": {{query: "limit=50&accountName=default&projectName=project-1"}, {as: "all", query: "limit=50&accountName=default&projectName=*"}}, "getEnvironment": none,
		"createDeploymentSource": {{body: `{"accountName":"default","projectName":"project-1","branchName":"branch-7"}`}}, "uploadDeploymentSource": {{query: "expires=1&signature=x", refused: 403}},
		"getDeploymentStatus": none, "listDeployments": {{query: "limit=50"}, {as: "branch", query: "branchName=branch-7"}, {as: "type", query: "limit=50&environmentType=preview"}, {as: "search", query: "limit=50&q=branch-7"}, {as: "no search", query: "limit=50&q=nothing"}}, "getDeployment": none,
		"deleteDeployment": {{path: "/v1/deployments/project-1-main-0000000090"}}, "redeploy": {{body: `{"buildId":"01900000-0000-7000-8000-000000000001"}`}},
		"listBuilds": list, "getBuildLogs": none, "listVariables": none, "createVariable": {{body: `{"name":"B","isSecret":false,"value":"x"}`}}, "updateVariable": {{body: `{"value":"x"}`}},
		"deleteVariable":  {{path: accountPath + "/projects/project-1/branches/branch-90/variables/NAME"}},
		"listRecentCalls": {{}, {as: "consumer", query: "consumers=consumer-1"}}, "getCallStatistics": {{query: "filter=last-24-hours"}},
		"listRequestLogs": {
			{}, {as: "class", query: "httpStatus=5xx"}, {as: "no class", query: "httpStatus=4xx"}, {as: "method", query: "httpMethod=POST"}, {as: "no method", query: "httpMethod=PUT"}, {as: "route", query: "routePath=/rare"}, {as: "no route", query: "routePath=/none"},
			{as: "severity", query: "severity=error"}, {as: "search", query: "search=req-5"}, {as: "time", query: "startTime=" + hour},
		},
		"getRequestLog": none,
		"listTunnels":   list, "createTunnel": {{body: `{"name":"another"}`}}, "getTunnel": none, "deleteTunnel": {{path: accountPath + "/tunnels/" + numbered("tnl_", 90)}},
		"rotateTunnelToken": {{body: `{}`}}, "getTunnelTeardown": {{refused: 404}}, "getTunnelServices": none,
		"configureTunnelServices": {{body: `{"version":1,"services":[{"name":"orders","endpoint":"http://orders.internal:3000","configurations":[{"project":"project-1","accessibleBy":["production"]}]}]}`}},
		"getTunnelProvisioning":   none,
		"listMeters":              list, "createMeter": {{body: `{"slug":"another","aggregation":"COUNT","eventType":"another"}`}}, "getMeter": none, "updateMeter": {{body: `{"name":"x"}`}}, "deleteMeter": {{path: bucketPath + "/meters/meter_90", refused: 409}},
		"queryMeter": {{query: "from=" + from + "&windowSize=HOUR"}, {as: "subject", query: "from=" + from + "&subject=consumer-1"}}, "queryMeterByBody": {{body: `{"from":"` + from + `"}`}}, "listMeterGroupValues": {{query: "from=" + from, refused: 404}},
		"listFeatures": list, "createFeature": {{body: `{"key":"another","name":"x","meterSlug":"meter_1"}`}}, "getFeature": none, "archiveFeature": {{path: bucketPath + "/features/" + numbered("ftr_", 80)}},
		"listPlans": list, "createPlan": {{body: plan("another")}}, "getPlan": none, "updatePlan": {{body: plan("")}}, "publishPlan": none, "archivePlan": none,
		"deletePlan": {{path: bucketPath + "/plans/" + numbered("pln_", 80)}}, "getSubscription": none, "setSubscription": {{body: `{"planKey":"plan_1"}`, refused: 409}}, "deleteSubscription": {{path: bucketPath + "/consumers/consumer-9/subscription"}}, "getAccess": none,
		"listCustomDomains": list, "createCustomDomain": {{body: `{"hostname":"new.example.com","deploymentName":"` + deployment + `"}`}}, "updateCustomDomain": {{body: `{"hostname":"h1.example.com","deploymentName":"project-1-main-0000000002"}`}},
		"deleteCustomDomain": {{query: "hostname=h90.example.com"}}, "verifyCustomDomain": {{body: `{"hostname":"h2.example.com"}`}},
		"putCustomDomainCertificate": {{body: `{"hostname":"h3.example.com","certificate":"CERTIFICATE","privateKey":"KEY"}`, refused: 400}}, "deleteCustomDomainCertificate": {{body: `{"hostname":"h4.example.com"}`}},
		"listClientMtlsCaCertificates": list, "createClientMtlsCaCertificate": {{body: `{"name":"another","certificate":"AUTHORITY"}`, refused: 400}}, "getClientMtlsCaCertificate": none,
		"updateClientMtlsCaCertificate": {{body: `{"name":"renamed"}`}}, "deleteClientMtlsCaCertificate": {{path: accountPath + "/client-mtls-ca-certificates/" + numbered("ca_", 90)}},
	}
}

func plan(key string) string {
	text := `"name":"Basic","currency":"USD","billingCadence":"P1M","phases":[{"key":"default","name":"Default","rateCards":[{"type":"flat_fee","key":"feature_1","name":"x","featureKey":"feature_1","billingCadence":"P1M"}]}]}`
	if key == "" {
		return "{" + text
	}
	return `{"key":"` + key + `",` + text
}

// asked is a call with the route that it is of.
type asked struct {
	name   string
	method string
	target string
	body   string
	good   []int
}

func ask(route *api.Route, c call, names *strings.Replacer) asked {
	a := asked{name: route.Operation, method: route.Method, target: c.path, body: c.body}
	if c.as != "" {
		a.name += ", " + c.as
	}
	if a.target == "" {
		a.target = names.Replace(route.Path)
	}
	if c.query != "" {
		a.target += "?" + c.query
	}
	if c.refused != 0 {
		a.good = append(a.good, c.refused)
	}
	return a
}

// well reports whether a status is one that was asked for.
func (a asked) well(status int) bool { return status/100 == 2 || slices.Contains(a.good, status) }
