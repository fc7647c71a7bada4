package httpapi

import (
	"net/http"
	"slices"

	"waybill.dev/shared/domain"
)

// publishEvents is the operation that counts apart from all others, see limits, and that
// the audit log leaves to the log of events.
const publishEvents = "publishEvents"

// Limits of request bodies, in bytes. One event has a lower one, see envelope.
const (
	maxResourceBody = 1 << 20
	maxBatchBody    = 8 << 20
)

// Route is one operation: where it is, what it needs, and what answers it.
type Route struct {
	Method string
	Path   string // a {name} stands for one segment
	// Operation names it in the OpenAPI document.
	Operation string
	Summary   string
	// Scope is what the caller must have; empty: the route is open to all.
	Scope domain.Scope
	// Success is the status of a good answer.
	Success int
	handle  func(*server, *call) error
}

// Routes returns every operation. It is the only place where a path gets its handler and
// its scope.
func Routes() []Route {
	return slices.Concat([]Route{
		{http.MethodGet, "/healthz", "checkHealth", "Tells that the process is alive, with the state of store and bus.", "", http.StatusOK, (*server).healthz},
		{http.MethodGet, "/readyz", "checkReadiness", "Tells whether requests can be served, and what is missing if not.", "", http.StatusOK, (*server).readyz},

		{http.MethodGet, "/v1/webhooks", "listWebhooks", "Lists all webhooks, the oldest first.", domain.ScopeWebhooksRead, http.StatusOK, (*server).listWebhooks},
		{http.MethodPost, "/v1/webhooks", "registerWebhook", "Registers a webhook and shows its secret once.", domain.ScopeWebhooksWrite, http.StatusCreated, (*server).registerWebhook},
		{http.MethodGet, "/v1/webhooks/{id}", "getWebhook", "Shows a webhook.", domain.ScopeWebhooksRead, http.StatusOK, (*server).getWebhook},
		{http.MethodPatch, "/v1/webhooks/{id}", "updateWebhook", "Changes the fields that are given.", domain.ScopeWebhooksWrite, http.StatusOK, (*server).updateWebhook},
		{http.MethodDelete, "/v1/webhooks/{id}", "deleteWebhook", "Deletes a webhook; its delivery log stays.", domain.ScopeWebhooksWrite, http.StatusNoContent, (*server).deleteWebhook},
		{http.MethodPost, "/v1/webhooks/{id}/rotate-secret", "rotateWebhookSecret", "Makes a new secret; the old one signs too for a while.", domain.ScopeWebhooksWrite, http.StatusOK, (*server).rotateSecret},
		{http.MethodPost, "/v1/webhooks/{id}/test", "testWebhook", "Sends a sample event to the webhook.", domain.ScopeEventsWrite, http.StatusAccepted, (*server).testWebhook},
		{http.MethodPost, "/v1/webhooks/{id}/replay", "replayWebhook", "Sends the deliveries of a time range again.", domain.ScopeEventsWrite, http.StatusAccepted, (*server).replayWebhook},

		{http.MethodPost, "/v1/events", publishEvents, "Publishes one event, or an array of up to 1000.", domain.ScopeEventsWrite, http.StatusAccepted, (*server).publishEvents},
		{http.MethodGet, "/v1/events", "listEvents", "Lists events, the newest first.", domain.ScopeEventsRead, http.StatusOK, (*server).listEvents},
		{http.MethodGet, "/v1/events/{id}", "getEvent", "Shows an event with its deliveries.", domain.ScopeEventsRead, http.StatusOK, (*server).getEvent},

		{http.MethodGet, "/v1/deliveries", "listDeliveries", "Lists deliveries, the newest first.", domain.ScopeEventsRead, http.StatusOK, (*server).listDeliveries},
		{http.MethodGet, "/v1/deliveries/{id}", "getDelivery", "Shows a delivery with its attempts.", domain.ScopeEventsRead, http.StatusOK, (*server).getDelivery},
		{http.MethodPost, "/v1/deliveries/{id}/retry", "retryDelivery", "Sends a delivery again; its schedule starts anew.", domain.ScopeEventsWrite, http.StatusAccepted, (*server).retryDelivery},

		{http.MethodGet, "/v1/rejected", "listRejected", "Lists messages on the bus that were not valid events, the newest first.", domain.ScopeEventsRead, http.StatusOK, (*server).listRejected},
	}, accountRoutes(), bucketRoutes(), keyRoutes(), docRoutes())
}

// What the management API's paths start with.
const (
	accountPath  = "/v1/accounts/{accountName}"
	bucketPath   = accountPath + "/key-buckets/{bucketName}"
	consumerPath = bucketPath + "/consumers/{consumerName}"
)

func accountRoutes() []Route {
	return []Route{
		{http.MethodGet, "/v1/who-am-i", "whoAmI", "Shows which account and consumer the key belongs to.", domain.ScopeAny, http.StatusOK, (*server).whoAmI},
		{http.MethodGet, "/v1/accounts", "listAccounts", "Lists the key's account; with the bootstrap key, all of them.", domain.ScopeAny, http.StatusOK, (*server).listAccounts},
		{http.MethodPost, "/v1/accounts", "createAccount", "Makes an account and shows its admin key once. Only the bootstrap key may do this.", domain.ScopeAdmin, http.StatusCreated, (*server).createAccount},
		{http.MethodGet, accountPath, "getAccount", "Shows the key's account; with the bootstrap key, any.", domain.ScopeAny, http.StatusOK, (*server).getAccount},
		{http.MethodPost, accountPath + "/admin-keys", "createAdminKey", "Makes another admin key of an account and shows it once. Only the bootstrap key may do this.", domain.ScopeAdmin, http.StatusCreated, (*server).createAdminKey},
		{http.MethodGet, accountPath + "/projects/{projectName}", "getProject", "Shows a project.", domain.ScopeBucketsRead, http.StatusOK, (*server).getProject},
		{http.MethodGet, accountPath + "/projects", "listProjects", "Lists the account's projects, the oldest first.", domain.ScopeBucketsRead, http.StatusOK, (*server).listProjects},
		{http.MethodPost, "/v1/projects", "createProject", "Makes a project of the key's account, with its three buckets.", domain.ScopeBucketsWrite, http.StatusCreated, (*server).createProject},
		{http.MethodGet, accountPath + "/audit-logs", "listAuditLogs", "Lists the changes made to the account, the newest first.", domain.ScopeAdmin, http.StatusOK, (*server).listAudit},
	}
}

func bucketRoutes() []Route {
	return []Route{
		{http.MethodGet, accountPath + "/key-buckets", "listBuckets", "Lists the account's buckets, the oldest first.", domain.ScopeBucketsRead, http.StatusOK, (*server).listBuckets},
		{http.MethodPost, accountPath + "/key-buckets", "createBucket", "Makes a bucket.", domain.ScopeBucketsWrite, http.StatusCreated, (*server).createBucket},
		{http.MethodGet, bucketPath, "getBucket", "Shows a bucket.", domain.ScopeBucketsRead, http.StatusOK, (*server).getBucket},
		{http.MethodPatch, bucketPath, "updateBucket", "Changes the fields that are given.", domain.ScopeBucketsWrite, http.StatusOK, (*server).updateBucket},
		{http.MethodDelete, bucketPath, "deleteBucket", "Deletes a bucket with its consumers, their keys and managers.", domain.ScopeBucketsWrite, http.StatusNoContent, (*server).deleteBucket},

		{http.MethodGet, bucketPath + "/consumers", "listConsumers", "Lists a bucket's consumers, the oldest first.", domain.ScopeBucketsRead, http.StatusOK, (*server).listConsumers},
		{http.MethodPost, bucketPath + "/consumers", "createConsumer", "Makes a consumer. Keys made with it are shown once.", domain.ScopeBucketsWrite, http.StatusCreated, (*server).createConsumer},
		{http.MethodGet, consumerPath, "getConsumer", "Shows a consumer.", domain.ScopeBucketsRead, http.StatusOK, (*server).getConsumer},
		{http.MethodPatch, consumerPath, "updateConsumer", "Changes the fields that are given.", domain.ScopeBucketsWrite, http.StatusOK, (*server).updateConsumer},
		{http.MethodDelete, consumerPath, "deleteConsumer", "Deletes a consumer with its keys and managers.", domain.ScopeBucketsWrite, http.StatusNoContent, (*server).deleteConsumer},
	}
}

func keyRoutes() []Route {
	return []Route{
		{http.MethodPost, consumerPath + "/roll-key", "rollKeys", "Makes a new key and lets the others expire.", domain.ScopeBucketsWrite, http.StatusNoContent, (*server).rollKeys},
		{http.MethodGet, consumerPath + "/keys", "listKeys", "Lists a consumer's keys, the oldest first.", domain.ScopeBucketsRead, http.StatusOK, (*server).listKeys},
		{http.MethodPost, consumerPath + "/keys", "createKey", "Makes a key and shows it once.", domain.ScopeBucketsWrite, http.StatusCreated, (*server).createKey},
		{http.MethodPost, consumerPath + "/keys/$bulk", "createKeys", "Makes several keys and shows them once.", domain.ScopeBucketsWrite, http.StatusCreated, (*server).createKeys},
		{http.MethodGet, consumerPath + "/keys/{keyId}", "getKey", "Shows a key in the form of key-format.", domain.ScopeBucketsRead, http.StatusOK, (*server).getKey},
		{http.MethodPatch, consumerPath + "/keys/{keyId}", "updateKey", "Changes the fields that are given.", domain.ScopeBucketsWrite, http.StatusOK, (*server).updateKey},
		{http.MethodDelete, consumerPath + "/keys/{keyId}", "deleteKey", "Deletes a key.", domain.ScopeBucketsWrite, http.StatusNoContent, (*server).deleteKey},

		{http.MethodGet, consumerPath + "/managers", "listManagers", "Lists a consumer's managers, the oldest first.", domain.ScopeBucketsRead, http.StatusOK, (*server).listManagers},
		{http.MethodPost, consumerPath + "/managers", "createManager", "Adds a manager to a consumer.", domain.ScopeBucketsWrite, http.StatusCreated, (*server).createManager},
		{http.MethodGet, consumerPath + "/managers/{managerId}", "getManager", "Shows a manager of a consumer.", domain.ScopeBucketsRead, http.StatusOK, (*server).getManager},
		{http.MethodDelete, consumerPath + "/managers/{managerId}", "deleteManager", "Removes a manager from a consumer.", domain.ScopeBucketsWrite, http.StatusNoContent, (*server).deleteManager},
	}
}

// docRoutes are open to all: what is said there is no secret.
func docRoutes() []Route {
	return []Route{
		{http.MethodGet, "/openapi", "getOpenAPI", "Returns the document of these operations.", "", http.StatusOK, (*server).openapi},
		{http.MethodGet, "/asyncapi", "getAsyncAPI", "Returns the document of the bus.", "", http.StatusOK, (*server).asyncapi},
		{http.MethodGet, "/docs", "showDocs", "Shows these operations as a page, to read and to try.", "", http.StatusOK, (*server).docs},
		{http.MethodGet, "/docs/{file}", "getDocsFile", "Returns a file of the reference pages.", "", http.StatusOK, (*server).docsFile},
		{http.MethodGet, "/problems/{code}", "explainProblem", "Explains a kind of problem.", "", http.StatusOK, (*server).showProblem},
	}
}
