package api_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	api "waybill.dev/services/api"
	"waybill.dev/shared/store/auditlog"
)

// named is an operation's name as the audit log writes names.
func named(operation string) string {
	switch operation {
	case "registerWebhook":
		return auditlog.ActionCreateWebhook
	case "rotateWebhookSecret":
		return auditlog.ActionRotateSecret
	}
	return strings.ToLower(regexp.MustCompile("[A-Z]").ReplaceAllString(operation, "-$0"))
}

// A change is named alike, whether it was made or refused.
func TestActionsAreTheStores(t *testing.T) {
	t.Parallel()
	// These have no route: a person answers an invitation in the console, a gateway activates a build, and DNS says whose a hostname is.
	without := []string{
		auditlog.ActionAcceptInvitation, auditlog.ActionDeclineInvitation, auditlog.ActionActivateBuild,
		auditlog.ActionContestDomain, auditlog.ActionKeepDomain, auditlog.ActionMoveDomain,
	}
	actions := slices.DeleteFunc(auditlog.Actions(), func(action string) bool { return slices.Contains(without, action) })
	for _, route := range api.Routes() {
		if route.Method == http.MethodGet || route.Publishing || // events are in a log of their own
			route.Operation == "queryMeterByBody" || route.Operation == "testWebhookFilter" { // nothing is sent
			if route.Action != "" {
				t.Errorf("%s changes nothing, and is %q in the audit log", route.Operation, route.Action)
			}
			continue
		}
		if want := named(route.Operation); route.Action != want {
			t.Errorf("%s is %q in the audit log, want %q", route.Operation, route.Action, want)
		}
		at := slices.Index(actions, route.Action)
		if at < 0 {
			t.Errorf("%s is %q in the audit log, which the store does not know", route.Operation, route.Action)
			continue
		}
		actions = slices.Delete(actions, at, at+1)
	}
	if len(actions) > 0 {
		t.Errorf("no route is refused as %v", actions)
	}
}

// Those who watch an account hear of each change of what they see live: of webhooks, events, deliveries and jobs.
func TestChangesAreTold(t *testing.T) {
	t.Parallel()
	// Pages show none of this live.
	untold := []string{"setCursor", "deleteCursor", "rotateSigningKeys", "publishEvents"} // events are told by their ids, whoever publishes them
	for _, route := range api.Routes() {
		live := slices.ContainsFunc([]string{"/v1/webhooks", "/v1/events", "/v1/deliveries", "/v1/jobs"}, func(path string) bool { return strings.HasPrefix(route.Path, path) })
		changes := route.Action != "" || route.Publishing
		if want := live && changes && !slices.Contains(untold, route.Operation); len(route.Tells) > 0 != want {
			t.Errorf("%s tells %v", route.Operation, route.Tells)
		}
	}
}
