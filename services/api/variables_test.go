package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const variablesOf = "/v1/accounts/default/projects/shop/branches/"

// A branch's variables are made, listed, changed and deleted, whatever the branch is called.
// What is secret is never told again, by answers, logs or the audit log.
func TestVariables(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		r.do(http.MethodPost, "/v1/projects", `{"name":"shop"}`).want(http.StatusCreated)
		for path, branch := range map[string]string{"main": "main", "feature%2Fa": "feature/a", "~preview": "~preview", "%7epreview%2f": ""} {
			list := variablesOf + path + "/variables"
			if branch == "" {
				r.do(http.MethodPost, list, `{"name":"A","isSecret":false,"value":"x"}`).faults("?branchName")
				r.do(http.MethodGet, list, "").want(http.StatusNotFound).field("detail", "There is no such branch.")
				continue
			}
			r.do(http.MethodGet, list, "").want(http.StatusOK).field("data", []any{}).field("total", 0.0)
			made := r.do(http.MethodPost, list, `{"name":"CARRIER_URL","isSecret":false,"value":"https://é.example/\n"}`).want(http.StatusCreated)
			made.fields("name", "branch", "isSecret", "value", "createdOn", "updatedOn").field("value", "https://é.example/\n").field("branch", branch).field("isSecret", false)
			if want, got := variablesOf+strings.NewReplacer("feature/a", "feature%2Fa").Replace(branch)+"/variables/CARRIER_URL", made.header.Get("Location"); got != want {
				t.Errorf("Location is %q, want %q", got, want)
			}
			hidden := r.do(http.MethodPost, list, `{"name":"CARRIER_TOKEN","isSecret":true,"value":"hush-canary-1"}`).want(http.StatusCreated).field("value", "").field("isSecret", true)
			r.do(http.MethodPost, list, `{"name":"CARRIER_TOKEN","isSecret":false,"value":"hush-canary-2"}`).want(http.StatusConflict).field("detail", "The branch has a variable of this name already.")
			all := r.do(http.MethodGet, list, "").want(http.StatusOK).field("total", 2.0)
			if diff := cmp.Diff([]map[string]any{made.object(), hidden.object()}, all.items("data")); diff != "" {
				t.Errorf("listed (-made +got):\n%s", diff)
			}
			r.do(http.MethodGet, list+"?limit=1&offset=1", "").want(http.StatusOK).field("data", []any{hidden.object()}).field("limit", 1.0).field("offset", 1.0)

			r.do(http.MethodPatch, list+"/CARRIER_URL", `{"value":""}`).want(http.StatusOK).field("value", "").field("isSecret", false)
			r.do(http.MethodPatch, list+"/CARRIER_TOKEN", `{"value":"hush-canary-3"}`).want(http.StatusOK).field("value", "")
			r.do(http.MethodPatch, list+"/CARRIER_TOKEN", `{}`).want(http.StatusOK).field("name", "CARRIER_TOKEN")
			r.do(http.MethodPatch, list+"/NONE", `{}`).want(http.StatusNotFound).field("detail", "There is no such variable.")
			r.do(http.MethodDelete, list+"/CARRIER_URL", "").want(http.StatusNoContent)
			r.do(http.MethodDelete, list+"/CARRIER_URL", "").want(http.StatusNotFound)
			if names := r.do(http.MethodGet, list, "").want(http.StatusOK).names(); len(names) != 1 {
				t.Errorf("what is left: %v", names)
			}
			r.do(http.MethodPut, list, "").want(http.StatusMethodNotAllowed)
		}
		log := r.do(http.MethodGet, "/v1/accounts/default/audit-logs?action=update-variable", "").want(http.StatusOK)
		entry := log.items("data")[0]
		if got := strings.Join(resourceNames(entry), ", "); !strings.HasPrefix(got, "project shop, branch ") || !strings.HasSuffix(got, ", variable CARRIER_TOKEN") {
			t.Errorf("the audit log tells of %s", got)
		}
		for where, text := range map[string]string{
			"the audit log": string(log.body), "the log": r.logs.String(),
			"all of the audit log": string(r.do(http.MethodGet, "/v1/accounts/default/audit-logs?limit=100", "").body),
		} {
			if strings.Contains(text, "hush-canary") {
				t.Errorf("%s tells a secret: %s", where, text)
			}
		}
	})
}

func resourceNames(entry map[string]any) []string {
	names := []string{}
	for _, item := range entry["resources"].([]any) { //nolint:forcetypeassert // the document says so
		resource, _ := item.(map[string]any)
		metadata, _ := resource["metadata"].(map[string]any)
		names = append(names, fmt.Sprintf("%v %v", resource["type"], metadata["name"]))
	}
	return names
}

// Bodies of variables are read strictly, and no value comes back.
func TestVariableBodies(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	r.do(http.MethodPost, "/v1/projects", `{"name":"shop"}`).want(http.StatusCreated)
	list := variablesOf + "main/variables"
	create := func(name, value string) answer {
		return r.do(http.MethodPost, list, `{"name":"`+name+`","isSecret":true,"value":"`+value+`"}`)
	}
	for _, name := range []string{"", "a", "1A", "_A", "A-B", "A B", "É", "WAYBILL_", "WAYBILL_X", strings.Repeat("A", 65)} {
		create(name, "hush-canary").faults("/name")
	}
	for _, name := range []string{"A", "A1_", "WAYBILLX", strings.Repeat("B", 64)} {
		create(name, strings.Repeat("x", 5120)).want(http.StatusCreated)
	}
	for _, value := range []string{strings.Repeat("x", 5121), strings.Repeat("é", 2561), `a\u0000b`} {
		create("C", value).faults("/value")
		r.do(http.MethodPatch, list+"/A", `{"value":"`+value+`"}`).faults("/value")
	}
	create("C", strings.Repeat("é", 2560)).want(http.StatusCreated)
	r.do(http.MethodPost, list, `{}`).faults("/isSecret", "/name", "/value")
	r.do(http.MethodPost, list, `{"name":7,"isSecret":"yes","value":null,"branch":"x"}`).faults("/branch", "/isSecret", "/name", "/value")
	r.do(http.MethodPatch, list+"/A", `{"isSecret":false,"name":"D","value":1}`).faults("/isSecret", "/name", "/value")
	r.do(http.MethodPost, list+"?x=1", `{"name":"E","isSecret":false,"value":""}`).faults("?x")
	if strings.Contains(r.logs.String(), "hush-canary") {
		t.Error("a value is in the log")
	}
	for _, branch := range []string{"-a", ".", "a%20b", "a%00", "%ff", strings.Repeat("x", 101), "%C3%A9", "~other"} {
		a := r.do(http.MethodGet, variablesOf+branch+"/variables", "").want(http.StatusNotFound)
		if branch != "." {
			a.field("detail", "There is no such branch.")
		}
	}
	r.do(http.MethodPost, "/v1/accounts/default/projects/none/branches/main/variables", `{"name":"A","isSecret":false,"value":""}`).want(http.StatusNotFound).field("detail", "There is no such project.")
	for i := range 95 {
		create(fmt.Sprintf("V_%d", i), "x").want(http.StatusCreated)
	}
	create("ONE_MORE", "x").want(http.StatusConflict).field("detail", "The branch has 100 variables. It can't have more.")
}
