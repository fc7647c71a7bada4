package deployments

import (
	"net/url"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/families/deployments"
	"waybill.dev/services/api/internal/families/traffic"
	"waybill.dev/services/api/internal/families/variables"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, Module(), samples())
}

// samples are data to try the templates with.
func samples() map[string][]any {
	const hostile = "<script>\u202e\u0007"
	now := time.Date(2026, time.November, 18, 12, 30, 0, 0, time.UTC)
	at, later := web.Stamp(now), web.Stamp(now.Add(1250*time.Millisecond))
	good := build{deployments.Build{ID: "b1", StatusID: "s1", Number: 11, Status: domain.BuildSuccess, CreatedOn: at, FinishedOn: later, ActivatedOn: at, CreatedBy: hostile}}
	bad := build{deployments.Build{ID: "<script>", StatusID: "s2", Number: 12, Status: domain.BuildError, CreatedOn: at, FinishedOn: later, CreatedBy: hostile}}
	open := build{deployments.Build{ID: "b3", StatusID: "s3", Number: 13, Status: domain.BuildBuilding, CreatedOn: at, CreatedBy: hostile}}
	full := deployment{deployments.Deployment{
		Name: "<script>", URL: "http://shop.gateway.localhost:8080", ProjectName: hostile, BranchName: hostile, EnvironmentType: "production", State: "STARTED",
		Message: hostile, CreatedOn: at, UpdatedOn: at, Build: &good.Build, LastBuild: &bad.Build, VariablesChangedOn: at,
	}}
	own := deployment{deployments.Deployment{Name: local, ProjectName: local, BranchName: local, State: "STARTED", Message: hostile}}
	tabs := []console.Tab{{Label: "Builds", Path: "/x", Current: true}}
	h, plain := head{full, tabs, true, true}, head{own, tabs, true, false}
	away := &console.Problem{Status: 404, NoOperation: true}
	lacks := &console.Problem{Status: 403, Scope: "gateway:read"}
	typed := console.NewForm(url.Values{"project": {hostile}, "projectName": {hostile}, "search": {hostile}})
	wrong := console.NewForm(url.Values{"projectName": {hostile}})
	wrong.Refuse("archive", "none")
	names := options([]string{"shop", "parcels"}, "")
	some := []console.Fact{{Name: "Host", Value: hostile}}
	one := traffic.Detail{Request: traffic.Request[[]traffic.Entry]{RequestID: hostile, Timestamp: at, Method: "GET", Path: "/" + hostile, RoutePath: hostile, StatusCode: 502, DurationMs: 12.5, Consumer: hostile, Severity: "error"}}
	rows := []traffic.Request[int]{
		{RequestID: hostile, Timestamp: at, Method: "GET", Path: "/" + hostile, RoutePath: hostile, StatusCode: 502, DurationMs: 12.5, Consumer: hostile, Severity: "error"},
		{RequestID: "r", Timestamp: at, Method: "GET", Path: "/a", StatusCode: 200, DurationMs: 1, Consumer: "anonymous", Severity: "info"},
	}
	entries := []entry{
		{traffic.Entry{Timestamp: at, Severity: "error", Source: hostile, Message: hostile, Attributes: jsontext.Value(`{"a":"<script>"}`)}, "+80 ms"},
		{traffic.Entry{Timestamp: at, Severity: "warn", Message: hostile}, ""}, {traffic.Entry{Severity: "info", Source: hostile, Message: hostile, Attributes: jsontext.Value(`{}`)}, ""},
	}
	figures := trafficView{head: h, Spans: tabs, Consumer: hostile, Without: "/x", Recent: []traffic.Call{{Consumer: hostile, Method: "GET", RoutePath: hostile, StatusCode: "200", TimeStamp: at}, {Consumer: hostile, Method: "GET", StatusCode: "404", TimeStamp: at}}, More: 3}
	calls := traffic.Calls{Consumer: hostile, TotalCalls: 10, CallsByStatusCode: []traffic.StatusCalls{{StatusCode: 200, Calls: 7}, {StatusCode: 404, Calls: 2}, {StatusCode: 503, Calls: 1}}}
	figures.sum([]traffic.Calls{calls}, "last-hour")
	figures.Bars = bars([]traffic.Step{{Calls: calls, TimeStamp: at}}, spans()[0], now.Add(time.Minute))
	lines := map[string][]domain.BuildLine{"check": {{Timestamp: now, Level: "error", Message: hostile, File: hostile, Operation: hostile, Pointer: "/a/b"}, {Timestamp: now, Level: "info", Message: hostile}, {Timestamp: now, Level: "warn", Message: hostile}}}
	return map[string][]any{
		"list.html": {
			listView{Form: console.NewForm(url.Values{})},
			listView{Form: typed, Projects: names, Types: console.Choices("any", "a"), May: true, Groups: []group{
				{hostile, []deployment{full, own, {deployments.Deployment{Name: "n", State: "ERRORED"}}}, 12, nil, "/x"}, {hostile, nil, 0, lacks, "/x"}, {hostile, nil, 0, nil, "/x"},
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
			buildsView{}, buildsView{head: h, Builds: []build{open, bad, good, {deployments.Build{ID: "b0", Number: 10, Status: "SUCCESS"}}}, Bucket: new("shop-production"), Upload: "waybill deploy config --project shop --branch main", Refresh: true},
			buildsView{head: plain}, buildsView{head: h, NoBuilds: away},
		},
		"build.html": {
			buildView{}, buildView{head: h, Build: open, Known: true, Steps: steps(deployments.Status{}, nil)},
			buildView{head: h, Build: bad, Known: true, Steps: steps(deployments.Status{}, lines), Files: byFile(nil, lines), Total: 1, Routes: 3},
			buildView{head: h, Build: good, Known: true, Files: byFile([]domain.BuildFault{{File: hostile, Operation: hostile, Pointer: hostile, Detail: hostile}, {Detail: hostile}}, nil), Total: 2},
		},
		"variables.html": {variablesView{}, variablesView{head: h, Variables: []variable{{Variable: variables.Variable{Name: hostile, Value: hostile, UpdatedOn: at}}, {Variable: variables.Variable{Name: hostile, IsSecret: true, UpdatedOn: at}, Shared: true}}}, variablesView{head: h, NoVariables: lacks}},
		"traffic.html":   {trafficView{}, figures, trafficView{head: h, NoFigures: away, NoRecent: lacks}},
		"requests.html": {
			requestsView{Form: console.NewForm(url.Values{})}, requestsView{head: h, Form: typed, Requests: rows, NotKept: 12, Filtered: true, Clear: "/x"},
			requestsView{head: h, Form: typed, Filtered: true}, requestsView{head: h, Form: wrong}, requestsView{head: h, Form: typed, NoList: away},
		},
		"request.html": {
			requestView{}, requestView{head: h, Request: one, Facts: some, Backend: some, MCP: some, Cut: true, Build: "/x", Entries: entries},
		},
	}
}
