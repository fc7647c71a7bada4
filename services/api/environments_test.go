package api_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	api "waybill.dev/services/api"
)

// An environment is a deployment, by its branch. Which keys its routes take follows from its type.
func TestEnvironments(t *testing.T) {
	t.Parallel()
	r := prepareRig(t, sqliteURL(t))
	r.options = func(o *api.Options) { o.GatewayURL = "https://gateway.example.com" }
	r.start()
	r.project("shop")
	const path, ofShop = "/v1/environments", "/v1/environments?accountName=default&projectName=shop"
	r.do(http.MethodGet, ofShop, "").want(http.StatusOK).field("data", []any{}).field("total", 0.0)
	names := map[string]string{}
	for _, branch := range []string{"main", "feature/x", "working-copy"} {
		names[branch] = r.upload(branch).text("deploymentName")
	}
	all := r.do(http.MethodGet, ofShop, "").want(http.StatusOK).field("total", 3.0).items("data")
	if len(all) != 3 {
		t.Fatalf("%d environments", len(all))
	}
	for i, want := range []struct{ branch, kind, bucket string }{
		{"main", "production", "shop-production"}, {"feature/x", "preview", "shop-preview"}, {"working-copy", "development", "shop-working-copy"},
	} {
		name := names[want.branch]
		expected := map[string]any{
			"name": name, "createdOn": all[i]["createdOn"], "accountName": "default", "projectName": "shop", "branchName": want.branch, "environmentType": want.kind,
			"deploymentName": name, "urls": []any{"https://" + name + ".gateway.example.com"}, "bucketName": want.bucket,
		}
		if diff := cmp.Diff(expected, all[i]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", want.branch, diff)
		}
		if diff := cmp.Diff(expected, r.do(http.MethodGet, path+"/"+name, "").want(http.StatusOK).object()); diff != "" {
			t.Errorf("%s alone (-want +got):\n%s", want.branch, diff)
		}
	}
	r.do(http.MethodGet, ofShop+"&limit=1&offset=1", "").want(http.StatusOK).field("data", []any{all[1]}).field("total", 3.0)

	r.do(http.MethodGet, path, "").faults("?accountName", "?projectName")
	r.do(http.MethodGet, ofShop+"&branchName=main", "").faults("?branchName")
	for query, kind := range map[string]string{
		"?accountName=default&projectName=none": "project", "?accountName=default&projectName=": "project", "?accountName=none&projectName=shop": "account", "/none": "environment",
	} {
		r.do(http.MethodGet, path+query, "").want(http.StatusNotFound).field("detail", "There is no such "+kind+".")
	}
	second := as(r.secondAccount("second"))
	r.do(http.MethodGet, ofShop, "", second).want(http.StatusNotFound).field("detail", "There is no such account.")
	r.do(http.MethodGet, path+"?accountName=second&projectName=shop", "", second).want(http.StatusNotFound).field("detail", "There is no such project.")
	r.do(http.MethodGet, path+"/"+names["main"], "", second).want(http.StatusNotFound).field("detail", "There is no such environment.")
	r.do(http.MethodGet, path+"/local", "").want(http.StatusNotFound) // this process has no folder
}

// An environment is reached at its active custom domains as well, the default one first. Those that wait for DNS or lead to another
// deployment are none of its own.
func TestEnvironmentsHaveCustomDomains(t *testing.T) {
	t.Parallel()
	names := &dns{}
	r := prepareRig(t, sqliteURL(t))
	r.options = func(o *api.Options) { o.GatewayURL, o.Resolver = "https://gateway.example.com:8443", names }
	r.start()
	r.project("shop")
	main, topic := r.upload("main").text("deploymentName"), r.upload("topic").text("deploymentName")
	for _, d := range []struct{ hostname, deployment string }{
		{"a.shop.example", main}, {"b.shop.example", main}, {"c.shop.example", topic}, {"waits.shop.example", main},
	} {
		record, token := r.do(http.MethodPost, domainsPath, leading(d.hostname, d.deployment)).want(http.StatusCreated).record()
		if d.hostname != "waits.shop.example" {
			names.set(record, token)
			r.do(http.MethodPost, domainsPath+"/verify", `{"hostname":"`+d.hostname+`"}`).want(http.StatusOK).field("status", "active")
		}
	}
	r.do(http.MethodPatch, domainsPath, `{"hostname":"b.shop.example","deploymentName":"`+main+`","isDefault":true}`).want(http.StatusOK)
	want := []any{"https://" + main + ".gateway.example.com:8443", "https://b.shop.example:8443", "https://a.shop.example:8443"}
	r.do(http.MethodGet, "/v1/environments/"+main, "").want(http.StatusOK).field("urls", want)
	list := r.do(http.MethodGet, "/v1/environments?accountName=default&projectName=shop", "").want(http.StatusOK).items("data")
	if diff := cmp.Diff(want, list[0]["urls"]); diff != "" {
		t.Errorf("in the list (-want +got):\n%s", diff)
	}
}

// A changed variable shows on the deployments that take it, until they are built again.
func TestVariablesChanged(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	r.project("shop")
	main, topic := r.upload("main").text("deploymentName"), r.upload("topic").text("deploymentName")
	changed := func(name string) bool {
		return r.do(http.MethodGet, "/v1/deployments/"+name, "").want(http.StatusOK).object()["variablesChangedOn"] != nil
	}
	if changed(main) || changed(topic) {
		t.Error("nothing has changed yet")
	}
	r.do(http.MethodPost, shopPath+"/branches/~preview/variables", `{"name":"A","isSecret":false,"value":"x"}`).want(http.StatusCreated)
	if changed(main) || !changed(topic) {
		t.Errorf("a variable of the previews: production %t, preview %t", changed(main), changed(topic))
	}
	r.do(http.MethodPost, shopPath+"/branches/main/variables", `{"name":"A","isSecret":false,"value":"x"}`).want(http.StatusCreated)
	if !changed(main) {
		t.Error("a variable of the production branch does not show")
	}
}
