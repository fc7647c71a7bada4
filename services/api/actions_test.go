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
