package api_test

import (
	"net/http"
	"strings"
	"testing"

	"waybill.dev/shared/domain"
)

// Meters, features and plans are made on pages, consumers are given plans, and what they have used is
// shown. Another account's are not there.
func TestConsoleMetering(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	b := r.browser().signIn(adminKey)
	bucket := r.bucket("partners")
	r.holder(bucket, "bakery", domain.ScopeEventsRead)
	b.get("/console/metering").want(t, http.StatusOK, "").has(t, "partners")
	at := "/console/metering/partners"
	b.get(at).want(t, http.StatusOK, "").has(t, "No meters yet", "No features yet", "New meter")
	b.post(at, "slug", "A").want(t, http.StatusBadRequest, "").has(t, "aria-invalid")
	b.post(at, "slug", "calls", "aggregation", "SUM", "eventType", "calls", "groups", "true").want(t, http.StatusSeeOther, at)
	b.post(at, "slug", "calls", "aggregation", "SUM", "eventType", "calls").want(t, http.StatusConflict, "").has(t, "has a meter of this slug already")
	b.post(at+"/features", "key", "calls", "name", "").want(t, http.StatusBadRequest, "").has(t, "aria-invalid")
	b.post(at+"/features", "key", "calls", "name", "Calls", "meterSlug", "calls").want(t, http.StatusSeeOther, at)
	b.post(at+"/features", "key", "old", "name", "Old").want(t, http.StatusSeeOther, at)
	b.get(at).want(t, http.StatusOK, "").has(t, "calls", "deployment", "Archive…")

	plans := at + "/plans"
	document := strings.NewReplacer("their_feature", "calls", "their_plan", "basic").Replace(basicPlan)
	b.get(plans).want(t, http.StatusOK, "").has(t, "No plans yet", "waybill plans create partners plan.json")
	b.post(plans, "document", "{").want(t, http.StatusBadRequest, "").has(t, "must be JSON")
	b.post(plans, "document", `{"key":"x"}`).want(t, http.StatusBadRequest, "").has(t, "/phases")
	made := b.post(plans, "document", document).header.Get("Location")
	b.get(made).want(t, http.StatusOK, "").has(t, "draft", "1\u202f000 in", "Change the draft", "Publish…")
	b.post(made, "document", "no").want(t, http.StatusBadRequest, "").has(t, "must be JSON")
	b.post(made, "document", strings.Replace(document, `"key":"basic",`, "", 1)).want(t, http.StatusSeeOther, made)

	consumer := at + "/consumers/bakery"
	b.get(consumer).want(t, http.StatusOK, "").has(t, "No plan", "No plan is active", "waybill subscriptions set partners bakery PLAN")
	b.post(consumer, "planKey", "basic").want(t, http.StatusConflict, "").has(t, "draft")
	b.get(made+"/publish").want(t, http.StatusOK, "").has(t, "Publish basic 1?")
	b.post(made+"/publish").want(t, http.StatusSeeOther, made)
	b.post(consumer, "planKey", "basic").want(t, http.StatusSeeOther, consumer)
	b.get(consumer).want(t, http.StatusOK, "").has(t, "0 of 1\u202f000", "<meter", `value="0"`, "Take the plan away…")
	b.get(at+"/consumers").want(t, http.StatusOK, "").has(t, "bakery", "basic", "0 of 1\u202f000")
	b.get(at+"/meters/calls").want(t, http.StatusOK, "").has(t, "Nothing was counted")

	b.get(at+"/meters/calls/delete").want(t, http.StatusOK, "").has(t, "Delete meter calls?")
	b.post(at+"/meters/calls/delete").want(t, http.StatusConflict, "").has(t, "A feature uses the meter")
	old := r.do(http.MethodGet, bucket+"/features", "").want(http.StatusOK).items("data")[1]["id"].(string) //nolint:forcetypeassert // the document says so
	b.post(at+"/features/"+old+"/archive").want(t, http.StatusSeeOther, at)
	b.post(made+"/archive").want(t, http.StatusSeeOther, made)
	b.get(consumer+"/delete").want(t, http.StatusOK, "").has(t, "Take the plan of bakery away?", "waybill subscriptions delete partners bakery")
	b.post(consumer+"/delete").want(t, http.StatusSeeOther, consumer)
	b.get(consumer).want(t, http.StatusOK, "").has(t, "No plan")
	draft := b.post(plans, "document", document).header.Get("Location")
	b.post(draft+"/delete").want(t, http.StatusSeeOther, plans)
	b.get(draft).want(t, http.StatusNotFound, "")

	stranger := r.browser().signIn(r.secondAccount("second"))
	for _, page := range []string{at, plans, made, at + "/consumers", consumer, at + "/meters/calls"} {
		stranger.get(page).want(t, http.StatusNotFound, "")
	}
}
