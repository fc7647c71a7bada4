package access

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/families/buckets"
	"waybill.dev/services/api/internal/families/consumers"
	"waybill.dev/services/api/internal/families/keys"
	"waybill.dev/services/api/internal/families/managers"
	"waybill.dev/shared/domain"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, Module(), samples())
}

// samples are data to try the templates with: empty, full and hostile, and with faults.
func samples() map[string][]any {
	const markup = "</textarea><script>\""
	const hostile = "<script>alert(1)</script>\u202e\x00 مرحبا"
	at := new("2026-11-18T15:02:11Z")
	tags := map[string]string{"team": "web", hostile: hostile}
	b := buckets.Bucket{ID: "b_1", Name: "partners", CreatedOn: at, UpdatedOn: at, IsRetrievable: true, Description: hostile, Tags: tags}
	c := consumers.Consumer{ID: "c_1", Name: "acme", CreatedOn: at, UpdatedOn: at, Description: hostile, Tags: tags, Metadata: jsontext.Value(`{"a":"<script>"}`), Scopes: []domain.Scope{domain.ScopeAdmin}}
	l := place{Bucket: "partners", Consumer: "acme", Key: "key_1"}
	k := keys.Key{ID: "key_1", CreatedOn: at, UpdatedOn: at, Description: hostile, ExpiresOn: at, Key: "****12345678"}
	wrong := &console.Form{Values: url.Values{"name": {markup}, "scopes": {"admin"}, "tags": {markup}}, Problem: &console.Problem{
		Title: "Invalid input", Status: http.StatusBadRequest, Detail: hostile, Faults: []console.Fault{{Pointer: "/name", Detail: hostile}, {Pointer: "/more", Detail: hostile}},
	}}
	refused := &console.Problem{Status: http.StatusForbidden, Scope: domain.ScopeBucketsRead}
	choices := []scopeChoice{{"admin", "everything", true, true}, {"mcp:use", "MCP", false, false}}
	some := console.Paging{Newer: "/console/access", Older: "/console/access?offset=50"}
	empty := console.NewForm(url.Values{})
	return map[string][]any{
		"buckets.html":       {bucketsView{}, bucketsView{tabs(root), []bucketRow{{Bucket: b, Consumers: 3, Keys: 4, More: true, Ends: b.CreatedOn}, {Bucket: b, NoConsumers: refused}}, some, true}},
		"bucket-form.html":   {bucketForm{Form: empty}, bucketForm{Form: wrong}, bucketForm{Place: l.bucket(), Form: wrong}},
		"bucket.html":        {bucketView{}, bucketView{Email: hostile, May: true, Problem: refused}, bucketView{l.bucket(), b, tagsOf(tags), domain.Scopes(), []consumerLine{{"acme", hostile, "/console", []held{{"admin", true, false}, {"mcp:use", false, true}, {"events:read", false, false}}, 1, at, 2}, {}}, 2, some, nil, "", hostile, true}},
		"consumer-form.html": {consumerForm{Form: empty}, consumerForm{Form: wrong, Scopes: choices, Ends: lives("Never")}, consumerForm{Place: l.consumer(), Form: wrong, Scopes: choices}},
		"consumer.html": {
			consumerView{}, consumerView{NoKeys: refused, NoManagers: refused, Exceeds: true},
			consumerView{l.consumer(), c, tagsOf(tags), choices, true, []keyLine{{k, "/console", true, true}, {keys.Key{ID: "key_2"}, "/console", false, false}}, 2, some, nil, []managerLine{{managers.Manager{ID: "m_1", CreatedOn: at, Email: hostile, Sub: hostile}, "/console"}, {managers.Manager{AcceptedOn: at}, "/console"}}, 3, nil, true, false},
		},
		"key-form.html":     {keyForm{Form: empty}, keyForm{l, wrong, lives("Never")}},
		"roll.html":         {keyForm{Form: empty}, keyForm{l, wrong, lives("At once")}},
		"key.html":          {keyView{Form: empty}, keyView{l, k, true, true, wrong, lives("As it is"), true}},
		"manager-form.html": {managerForm{Form: empty}, managerForm{l, wrong}},
		"lacks.html":        {lacks{}, lacks{domain.ScopeAdmin, root}},
		"made.html":         {madeKeys{}, madeKeys{l, hostile, []keys.Key{k, {Key: "wbk_<b>"}}, "/console"}},
		"projects.html":     {namesView{Form: empty}, namesView{tabs(projectsPath), "default", []named{{ID: "p_1", Name: hostile, CreatedOn: at}}, some, wrong, true}},
		"accounts.html":     {namesView{Form: empty}, namesView{tabs(accountsPath), "default", []named{{ID: "a_1", Name: "default", CreatedOn: at}, {ID: "a_2", Name: hostile, CreatedOn: at}}, some, wrong, true}},
	}
}
