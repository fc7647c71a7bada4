package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"waybill.dev/shared/domain"
)

const basicPlan = `{"key":"their_plan","name":"Basic","currency":"USD","billingCadence":"P1M","phases":[{"key":"only","name":"Only","rateCards":[
	{"type":"usage_based","key":"their_feature","name":"Calls","featureKey":"their_feature","price":{"type":"unit","amount":"0.10"},"entitlementTemplate":{"type":"metered","issueAfterReset":1000}}]}]}`

// theirMetering makes a meter, a feature and a draft of a plan in a bucket, and returns the ids of
// the last two.
func (r *rig) theirMetering(bucket string) (feature, plan string) {
	r.do(http.MethodPost, bucket+"/meters", `{"slug":"their_meter","aggregation":"SUM","valueProperty":"$.total","eventType":"their_meter","groupBy":{"route":"$.route"}}`).want(http.StatusCreated)
	feature = r.do(http.MethodPost, bucket+"/features", `{"key":"their_feature","name":"Calls","meterSlug":"their_meter"}`).want(http.StatusCreated).text("id")
	plan = r.do(http.MethodPost, bucket+"/plans", basicPlan).want(http.StatusCreated).text("id")
	return feature, plan
}

// What nothing charges is kept as it is given: prices, and the currency, which a draft also keeps where none is given.
func TestPrices(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	bucket := r.bucket("partners")
	r.theirMetering(bucket)
	const price = `{"type":"stairs","steps":[1,2.50]}`
	plan := strings.NewReplacer("their_plan", "euro_plan", "USD", "EUR", `{"type":"unit","amount":"0.10"}`, price).Replace(basicPlan)
	made := r.do(http.MethodPost, bucket+"/plans", plan).want(http.StatusCreated)
	changed := r.do(http.MethodPut, bucket+"/plans/"+made.text("id"), strings.NewReplacer(`"key":"euro_plan",`, "", `"currency":"EUR",`, "").Replace(plan)).want(http.StatusOK)
	for _, a := range []answer{made, changed} {
		a.field("currency", "EUR")
		if !strings.Contains(string(a.body), price) {
			t.Errorf("the price is another one: %s", a.body)
		}
	}
}

// A plan goes from draft to archived; consumers get it while it is active, and keep it.
func TestMetering(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	bucket := r.bucket("partners")
	r.holder(bucket, "bakery", domain.ScopeEventsRead)
	feature, plan := r.theirMetering(bucket)
	subscription := bucket + "/consumers/bakery/subscription"
	r.do(http.MethodGet, subscription, "").want(http.StatusNotFound).field("detail", "There is no such consumer, or it has no subscription.")
	r.do(http.MethodPut, subscription, `{"planKey":"their_plan"}`).want(http.StatusConflict)
	r.do(http.MethodPut, subscription, `{"planKey":"unknown"}`).want(http.StatusNotFound).field("detail", "There is no such plan.")
	draft := string(r.do(http.MethodGet, bucket+"/plans/"+plan, "").want(http.StatusOK).body)
	r.do(http.MethodPut, bucket+"/plans/"+plan, strings.Replace(draft, `"currency":"USD",`, "", 1)).want(http.StatusOK).field("key", "their_plan").field("currency", "USD")
	r.do(http.MethodPut, bucket+"/plans/"+plan, strings.Replace(basicPlan, `"key":"their_plan",`, "", 1)).want(http.StatusOK)
	r.do(http.MethodPost, bucket+"/plans/"+plan+"/archive", "").want(http.StatusConflict)
	r.do(http.MethodPost, bucket+"/plans/"+plan+"/publish", "").want(http.StatusOK)
	r.do(http.MethodPost, bucket+"/plans/"+plan+"/publish", "").want(http.StatusConflict)
	r.do(http.MethodPut, bucket+"/plans/"+plan, strings.Replace(basicPlan, `"key":"their_plan",`, "", 1)).want(http.StatusConflict)
	r.do(http.MethodDelete, bucket+"/plans/"+plan, "").want(http.StatusConflict)
	if got := r.do(http.MethodPut, subscription, `{"planKey":"their_plan","version":1}`).want(http.StatusOK).text("planId"); got != plan {
		t.Errorf("subscribed to %s, want %s", got, plan)
	}
	if got := string(r.do(http.MethodGet, bucket+"/consumers/bakery/access", "").want(http.StatusOK).body); !strings.Contains(got, `"their_feature":{"hasAccess":true,"balance":1000,"usage":0,"overage":0`) {
		t.Errorf("access: %s", got)
	}
	r.do(http.MethodDelete, bucket+"/meters/their_meter", "").want(http.StatusConflict)
	r.do(http.MethodPost, bucket+"/plans/"+plan+"/archive", "").want(http.StatusOK)
	r.do(http.MethodGet, subscription, "").want(http.StatusOK)
	r.do(http.MethodDelete, subscription, "").want(http.StatusNoContent)
	r.do(http.MethodPut, subscription, `{"planKey":"their_plan"}`).want(http.StatusConflict)
	r.do(http.MethodDelete, bucket+"/features/"+feature, "").want(http.StatusNoContent)
	r.do(http.MethodGet, bucket+"/meters/their_meter/query?windowSize=DAY&groupBy=route&groupBy=subject", "").want(http.StatusOK)
	r.do(http.MethodPost, bucket+"/meters/their_meter/query", `{"filterGroupBy":{"route":"/a"}}`).want(http.StatusOK)
	r.do(http.MethodPost, bucket+"/meters/their_meter/query", `{"filterGroupBy":{"route":["/a","/b"]}}`).want(http.StatusOK)
	r.do(http.MethodPost, bucket+"/meters/their_meter/query", `{"filterGroupBy":{"a":[],"b":[1],"c":2,"route":null}}`).faults("/filterGroupBy/a", "/filterGroupBy/b", "/filterGroupBy/c", "/filterGroupBy/route")
	r.do(http.MethodPost, bucket+"/meters/their_meter/query", `{"filterGroupBy":{"route":"`+strings.Repeat("x", 16<<10)+`"}}`).faults("/filterGroupBy")
	r.do(http.MethodGet, bucket+"/meters/their_meter/group-by/route/values", "").want(http.StatusOK)
	r.do(http.MethodGet, bucket+"/meters/their_meter/group-by/x/values", "").want(http.StatusNotFound)
	r.do(http.MethodDelete, bucket+"/meters/their_meter", "").want(http.StatusNoContent)
}

// What is wrong with a body is told at its place.
func TestMeteringFaults(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	bucket := r.bucket("partners")
	r.theirMetering(bucket)
	card := func(text string) string {
		return `{"key":"x","name":"x","currency":"USD","billingCadence":"P1M","phases":[{"key":"only","name":"x","rateCards":[` + text + `]}]}`
	}
	for i, c := range []struct{ path, body, pointer string }{
		{"/meters", `{"slug":"A","aggregation":"COUNT","eventType":"a"}`, "/slug"},
		{"/meters", `{"slug":"a","aggregation":"AVG","eventType":"a"}`, "/aggregation"},
		{"/meters", `{"slug":"a","aggregation":"SUM","eventType":"a"}`, "/valueProperty"},
		{"/meters", `{"slug":"a","aggregation":"SUM","eventType":"a","valueProperty":"$.bytes"}`, "/valueProperty"},
		{"/meters", `{"slug":"a","aggregation":"COUNT","eventType":"a","groupBy":{"x":"$.header"}}`, "/groupBy/x"},
		{"/meters", `{"slug":"a","aggregation":"COUNT","eventType":"a","eventFrom":"2026-01-01T00:30:00Z"}`, "/eventFrom"},
		{"/features", `{"key":"a","name":"a","meterSlug":"none"}`, "/meterSlug"},
		{"/features", `{"key":"a","name":"a","meterSlug":"their_meter","meterGroupByFilters":{"x":"y"}}`, "/meterGroupByFilters"},
		{"/plans", card(`{"type":"flat_fee","key":"a","name":"a","featureKey":"none"}`), "/phases/0/rateCards/0/featureKey"},
		{"/plans", card(`{"type":"flat_fee","key":"a","name":"a","billingCadence":"P1W"}`), "/phases/0/rateCards/0/billingCadence"},
		{"/plans", card(`{"type":"flat_fee","key":"a","name":"a","price":"1.5"}`), "/phases/0/rateCards/0/price"},
		{"/plans", card(`{"type":"flat_fee","key":"a","name":"a","featureKey":"their_feature","entitlementTemplate":{"type":"metered"}}`), "/phases/0/rateCards/0/entitlementTemplate/issueAfterReset"},
		{"/plans", card(`{"type":"flat_fee","key":"a","name":"a","featureKey":"their_feature","entitlementTemplate":{"type":"static","config":true}}`), "/phases/0/rateCards/0/entitlementTemplate/config"},
		{"/plans", `{"key":"x","name":"x","currency":"eur","billingCadence":"P1M","phases":[{"key":"a","name":"a","rateCards":[]}]}`, "/currency"},
		{"/plans", `{"key":"x","name":"x","currency":"USD","billingCadence":"P1M","phases":[{"key":"a","name":"a","rateCards":[]},{"key":"b","name":"b","rateCards":[]}]}`, "/phases/0/duration"},
	} {
		got := string(r.do(http.MethodPost, bucket+c.path, c.body).want(http.StatusBadRequest).body)
		if !strings.Contains(got, fmt.Sprintf("%q", c.pointer)) {
			t.Errorf("%d: %s, want a fault at %s", i, got, c.pointer)
		}
	}
}
