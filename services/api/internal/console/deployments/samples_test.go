package deployments

import (
	"net/url"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/consoletest"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, Module(), samples())
}

// samples are data to try the templates with.
func samples() map[string][]any {
	const (
		hostile = "<script>\u202e\u0007"
		at      = "2026-11-18T12:30:00.000Z"
		later   = "2026-11-18T12:30:01.250Z"
	)
	good := build{"b1", "s1", 11, "SUCCESS", at, later, at, hostile}
	bad := build{"<script>", "s2", 12, "ERROR", at, later, "", hostile}
	open := build{"b3", "s3", 13, "BUILDING", at, "", "", hostile}
	changed := at
	full := deployment{
		Name: "<script>", URL: "http://shop.gateway.localhost:8080", ProjectName: hostile, BranchName: hostile, EnvironmentType: "production", State: "STARTED",
		Message: hostile, CreatedOn: at, UpdatedOn: at, Build: &good, LastBuild: &bad, VariablesChangedOn: &changed,
	}
	own := deployment{Name: local, ProjectName: local, BranchName: local, State: "STARTED", Message: hostile}
	tabs := []console.Tab{{Label: "Builds", Path: "/x", Current: true}}
	h, plain := head{full, tabs, true, true}, head{own, tabs, true, false}
	away := &console.Problem{Status: 404, NoOperation: true}
	lacks := &console.Problem{Status: 403, Scope: "gateway:read"}
	typed := console.NewForm(url.Values{"project": {hostile}, "projectName": {hostile}, "search": {hostile}})
	wrong := console.NewForm(url.Values{"projectName": {hostile}})
	wrong.Problem = missing()
	names := options([]string{"shop", "parcels"}, "")
	some := []console.Fact{{Name: "Host", Value: hostile}}
	one := request{hostile, at, "GET", "/" + hostile, hostile, "502", 12.5, hostile, "error", "b1"}
	fine := request{"r", at, "GET", "/a", "", "200", 1, "anonymous", "info", ""}
	traffic := trafficView{head: h, Spans: tabs, Consumer: hostile, Without: "/x", Recent: []recent{{hostile, "GET", hostile, "200", at}, {hostile, "GET", "", "404", at}}, More: 3}
	stats := []counted{{hostile, at, 10, []calls{{"200", 7}, {"404", 2}, {"503", 1}}}}
	traffic.sum(stats, "last-hour")
	traffic.Bars = bars(stats, spans()[0], time.Date(2026, 11, 18, 12, 31, 0, 0, time.UTC))
	lines := map[string][]line{"check": {{at, "error", hostile, hostile, hostile, "/a/b"}, {at, "info", hostile, "", "", ""}, {at, "warn", hostile, "", "", ""}}}
	return map[string][]any{
		"list.html": {
			listView{Form: console.NewForm(url.Values{})},
			listView{Form: typed, Projects: names, Types: types(), May: true, Groups: []group{
				{hostile, []deployment{full, own, {Name: "n", State: "ERRORED"}}, 12, nil, "/x"}, {hostile, nil, 0, lacks, "/x"}, {hostile, nil, 0, nil, "/x"},
			}, Paging: console.Paging{Newer: "?a", Older: "?b"}},
			listView{Form: typed, One: true, Filtered: true, Groups: []group{{Project: hostile}}, May: true},
			listView{Form: typed, One: true, Groups: []group{{Project: hostile}}, May: true},
			listView{Form: typed, One: true, Groups: []group{{Project: hostile, Deployments: []deployment{full}}}, NoProjects: lacks},
			listView{Form: wrong, One: true}, listView{Form: typed, NoList: away, NoProjects: lacks}, listView{Form: typed, HasProject: true},
		},
		"upload.html": {
			uploadView{Form: console.NewForm(url.Values{})}, uploadView{Form: typed, HasProject: true},
			uploadView{Form: wrong, Projects: names, Command: "deploy config --project shop"}, uploadView{Form: typed, NoProjects: lacks},
		},
		"deployment.html": {
			buildsView{}, buildsView{head: h, Builds: []build{open, bad, good, {ID: "b0", Number: 10, Status: "SUCCESS"}}, Bucket: "shop-production", Upload: "waybill deploy config --project shop --branch main", Refresh: true},
			buildsView{head: plain}, buildsView{head: h, NoBuilds: away},
		},
		"build.html": {
			buildView{}, buildView{head: h, Build: open, Known: true, Steps: steps(status{}, nil)},
			buildView{head: h, Build: bad, Known: true, Steps: steps(status{}, lines), Files: byFile(nil, lines), Total: 1, Routes: 3},
			buildView{head: h, Build: good, Known: true, Files: byFile([]fault{{hostile, hostile, hostile, hostile}, {Detail: hostile}}, nil), Total: 2},
		},
		"variables.html": {variablesView{}, variablesView{head: h, Variables: []variable{{hostile, hostile, false, at, false}, {hostile, "", true, at, true}}}, variablesView{head: h, NoVariables: lacks}},
		"traffic.html":   {trafficView{}, traffic, trafficView{head: h, NoFigures: away, NoRecent: lacks}},
		"requests.html": {
			requestsView{Form: console.NewForm(url.Values{})}, requestsView{head: h, Form: typed, Requests: []request{one, fine}, NotKept: 12, Filtered: true, Clear: "/x"},
			requestsView{head: h, Form: typed, Filtered: true}, requestsView{head: h, Form: wrong}, requestsView{head: h, Form: typed, NoList: away},
		},
		"request.html": {
			requestView{}, requestView{head: h, Request: one, Facts: some, Backend: some, MCP: some, Cut: true, Build: "/x", Entries: []entry{
				{at, "error", hostile, hostile, jsontext.Value(`{"a":"<script>"}`)}, {at, "warn", "", hostile, nil}, {at, "info", hostile, hostile, jsontext.Value(`{}`)},
			}},
		},
	}
}
