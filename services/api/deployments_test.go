package api_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	api "waybill.dev/services/api"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
)

const (
	sourcesPath = "/v1/deployments/sources"
	uploadsPath = "/v1/deployment-uploads"
	shopPath    = "/v1/accounts/default/projects/shop"
)

// archive calls an operation that takes an archive.
func (r *rig) archive(method, path, media, body string, tweaks ...tweak) answer {
	r.t.Helper()
	a := r.send(method, path, body, append([]tweak{header("Content-Type", media)}, tweaks...)...)
	path, _, _ = strings.Cut(path, "?")
	if err := documented().Answer(method, path, a.status, a.header, a.body); err != nil {
		r.t.Errorf("not as documented: %v", err)
	}
	return a
}

// upload uploads an archive for a branch of the project shop in one step.
func (r *rig) upload(branch string) answer {
	r.t.Helper()
	query := url.Values{"accountName": {"default"}, "projectName": {"shop"}, "branchName": {branch}}
	return r.archive(http.MethodPost, sourcesPath+"?"+query.Encode(), "application/zip", "PK "+branch).want(http.StatusAccepted)
}

func (r *rig) project(name string) {
	r.t.Helper()
	r.do(http.MethodPost, "/v1/projects", fmt.Sprintf(`{"name":%q}`, name)).want(http.StatusCreated)
}

// start an upload of two steps, and return the place of its URL.
func (r *rig) begin(branch string) (place string, a answer) {
	r.t.Helper()
	a = r.do(http.MethodPost, sourcesPath, fmt.Sprintf(`{"accountName":"default","projectName":"shop","branchName":%q}`, branch)).want(http.StatusCreated)
	whole := a.text("uploadUrl")
	place, ok := strings.CutPrefix(whole, r.url)
	if !ok {
		r.t.Fatalf("the URL %s is not below %s", whole, r.url)
	}
	return place, a
}

// ended ends a build, as a gateway does.
func (r *rig) ended(id string, status domain.BuildStatus) {
	r.t.Helper()
	now := r.store.Moment(time.Now())
	exec := func(statement string, args ...any) {
		r.t.Helper()
		if err := r.store.Writing(r.t.Context()).Exec(statement, args...).Error; err != nil {
			r.t.Fatal(err)
		}
	}
	exec("UPDATE gateway_builds SET status = ?, finished_at = ?, routes = 3, log = ?, steps = ?, faults = ? WHERE id = ?", string(status), now,
		`[{"step":"unpack","timestamp":"2026-06-10T12:00:00.123456Z","level":"info","message":"2 files"},{"step":"check","timestamp":"2026-06-10T12:00:01Z","level":"error","message":"is wrong","file":"a.oas.json","operation":"op","pointer":"/x"}]`,
		`[{"name":"unpack","status":"SUCCESS","startedOn":"2026-06-10T12:00:00Z","finishedOn":"2026-06-10T12:00:01Z"}]`,
		`[{"file":"a.oas.json","operation":"op","pointer":"/x","detail":"is wrong"}]`, id)
	if status == domain.BuildSuccess {
		exec("UPDATE gateway_deployments SET state = 'STARTED', active_build = ?, active_number = (SELECT number FROM gateway_builds WHERE id = ?) WHERE name = (SELECT deployment FROM gateway_builds WHERE id = ?)", id, id, id)
	}
}

// An archive that is uploaded in two steps, or in one, becomes a build that waits; gateways are
// told.
func TestUploads(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		var told atomic.Int32
		stop, err := r.bus.Listen(bus.SubjectGateway, func([]byte) { told.Add(1) })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
		r.project("shop")
		name := domain.DeploymentName("default", "shop", "main")

		place, begun := r.begin("main")
		statusID := begun.text("statusId")
		if begun.text("deploymentName") != name || !strings.HasSuffix(begun.header.Get("Location"), shopPath+"/deployment-status/"+statusID) {
			t.Errorf("%s, Location %s", begun.body, begun.header.Get("Location"))
		}
		waiting := r.do(http.MethodGet, shopPath+"/deployment-status/"+statusID, "").want(http.StatusOK)
		waiting.field("status", "IN_PROGRESS")
		r.do(http.MethodGet, "/v1/deployments/"+name, "").want(http.StatusNotFound).field("detail", "There is no such deployment.")

		put := r.archive(http.MethodPut, place, "application/x-www-form-urlencoded", "PK archive", without("Authorization")).want(http.StatusAccepted)
		if put.text("statusId") != statusID || put.text("url") != "" {
			t.Errorf("%s", put.body)
		}
		again := r.archive(http.MethodPut, place, "application/zip", "PK archive", without("Authorization")).want(http.StatusConflict)
		again.field("code", "CONFLICT")
		if !strings.Contains(again.text("detail"), "uploaded already") {
			t.Errorf("%s", again.body)
		}

		one := r.upload("main")
		if one.text("deploymentName") != name || one.text("statusId") == statusID || one.text("buildId") == put.text("buildId") {
			t.Errorf("%s", one.body)
		}
		status := r.do(http.MethodGet, shopPath+"/deployment-status/"+one.text("statusId"), "").want(http.StatusOK)
		want := map[string]any{
			"status": "IN_PROGRESS", "url": "", "buildResult": map[string]any{"buildId": one.text("buildId"), "routes": 0.0, "errors": []any{}},
			"steps": map[string]any{"unpack": idle("QUEUED"), "variables": idle("QUEUED"), "check": idle("QUEUED"), "activate": idle("QUEUED")},
		}
		if diff := cmp.Diff(want, status.object()); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
		builds := r.do(http.MethodGet, "/v1/deployments/"+name+"/builds", "").want(http.StatusOK).items("data")
		if len(builds) != 2 || builds[0]["id"] != put.text("buildId") || builds[1]["number"] != 2.0 || builds[1]["status"] != "QUEUED" {
			t.Errorf("%v", builds)
		}
		eventually(t, "gateways are told of both", func() bool { return told.Load() >= 2 })

		log := r.do(http.MethodGet, "/v1/accounts/default/audit-logs?limit=3", "").want(http.StatusOK).items("data")
		for i, action := range []string{"upload-deployment-source", "upload-deployment-source", "create-deployment-source"} {
			actor, _ := log[i]["actor"].(map[string]any)
			if log[i]["action"] != action || actor["sub"] != "bootstrap" || actor["type"] != "bootstrap" || log[i]["success"] != true {
				t.Errorf("audit entry %d is %v", i, log[i])
			}
		}
	})
}

func idle(status string) any {
	return map[string]any{"status": status, "startedOn": nil, "finishedOn": nil}
}

// The URL of an upload is the permission: one that was altered or is late is refused, whether
// there is such an upload or not, and of many archives at once one is taken.
func TestUploadURL(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	r.project("shop")
	place, _ := r.begin("main")
	other, _ := r.begin("other")
	path, query, _ := strings.Cut(place, "?")
	otherPath, otherQuery, _ := strings.Cut(other, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	with := func(name, value string) string {
		changed := url.Values{"expires": values["expires"], "signature": values["signature"]}
		changed.Set(name, value)
		if value == "" {
			changed.Del(name)
		}
		return path + "?" + changed.Encode()
	}
	signature := values.Get("signature")
	for _, altered := range []string{
		path, path + "?" + otherQuery, otherPath + "?" + query, with("expires", "9999999999"), with("expires", values.Get("expires")+"0"), with("expires", ""),
		with("signature", ""), with("signature", signature[1:]), with("signature", "A"+signature[1:]), with("signature", signature+"="), place + "&more=1", place + "&expires=1",
		strings.TrimSuffix(path, path[len(path)-1:]) + "?" + query, uploadsPath + "/0190c0f0-0000-7000-8000-000000000000?" + query, uploadsPath + "/x%00?" + query,
	} {
		if altered == place {
			continue
		}
		a := r.archive(http.MethodPut, altered, "application/zip", "PK archive")
		a.want(http.StatusForbidden)
		if !strings.Contains(a.text("detail"), "not one that an upload was started with") {
			t.Errorf("%s: %s", altered, a.body)
		}
	}
	var good, used atomic.Int32
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() {
			switch a := r.archive(http.MethodPut, place, "", "PK archive", without("Authorization")); a.status {
			case http.StatusAccepted:
				good.Add(1)
			case http.StatusConflict:
				used.Add(1)
			default:
				t.Errorf("%s: %d %s", a.call, a.status, a.body)
			}
		})
	}
	group.Wait()
	if good.Load() != 1 || used.Load() != 5 {
		t.Errorf("%d were taken, %d refused", good.Load(), used.Load())
	}
}

// An archive has its bounds; what is refused does not use up the URL of an upload.
func TestUploadBounds(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	r.project("shop")
	place, _ := r.begin("main")
	const one = sourcesPath + "?accountName=default&projectName=shop&branchName=main"
	most := strings.Repeat("x", domain.MaxArchive)
	r.archive(http.MethodPut, place, "application/zip", most+"x").want(http.StatusRequestEntityTooLarge)
	r.archive(http.MethodPost, one, "application/zip", most+"x").want(http.StatusRequestEntityTooLarge)
	r.archive(http.MethodPut, place, "application/zip", "").want(http.StatusBadRequest)
	r.archive(http.MethodPost, one, "application/gzip", "").want(http.StatusBadRequest)
	r.archive(http.MethodPost, one, "application/zip", "PK", header("Content-Encoding", "gzip")).want(http.StatusUnsupportedMediaType)
	r.archive(http.MethodPut, place, "application/zip", "PK", header("Content-Encoding", "gzip")).want(http.StatusUnsupportedMediaType)
	for _, media := range []string{"application/x-tar", "text/plain", "application/zip, application/zip", "multipart/form-data; boundary=x"} {
		r.archive(http.MethodPost, one, media, "PK").want(http.StatusUnsupportedMediaType)
	}
	r.archive(http.MethodPost, one, "application/json", `{"accountName":"default","projectName":"shop","branchName":"main"}`).want(http.StatusBadRequest)
	for query, parameters := range map[string][]string{
		"": {"accountName", "projectName", "branchName"}, "?accountName=default&projectName=shop&branchName=~preview": {"branchName"},
		"?accountName=default&projectName=shop&branchName=main&more=1": {"more"}, "?accountName=&projectName=shop&branchName=a%20b": {"accountName", "branchName"},
	} {
		a := r.archive(http.MethodPost, sourcesPath+query, "application/zip", "PK").want(http.StatusBadRequest)
		for _, name := range parameters {
			if !bytes.Contains(a.body, []byte(`{"parameter":"`+name+`"`)) {
				t.Errorf("%s: %s is not named: %s", query, name, a.body)
			}
		}
	}
	for body, pointer := range map[string]string{
		`{}`: "/accountName", `{"accountName":"default","projectName":"shop"}`: "/branchName", `{"accountName":"default","projectName":"shop","branchName":"~preview"}`: "/branchName",
		`{"accountName":"default","projectName":"shop","branchName":"main","sha":"x"}`: "/sha", `{"accountName":1,"projectName":"shop","branchName":"main"}`: "/accountName",
	} {
		a := r.do(http.MethodPost, sourcesPath, body).want(http.StatusBadRequest)
		if !bytes.Contains(a.body, []byte(`{"pointer":"`+pointer+`"`)) {
			t.Errorf("%s: %s", body, a.body)
		}
	}
	// What was refused has not used the URL up, and the largest archive fits.
	r.archive(http.MethodPut, place, "application/zip", most, without("Authorization")).want(http.StatusAccepted)
}

// Uploads of one minute are bounded, refused ones too; and each account's by itself.
func TestUploadsOfAMinute(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	r.project("shop")
	second := r.secondAccount("second")
	begin := func(body string, tweaks ...tweak) answer { return r.do(http.MethodPost, sourcesPath, body, tweaks...) }
	const good = `{"accountName":"default","projectName":"shop","branchName":"main"}`
	for range 29 {
		begin(good).want(http.StatusCreated)
		begin(`{}`).want(http.StatusBadRequest)
	}
	r.upload("main")
	place, _ := r.begin("main")
	refused := begin(good).want(http.StatusTooManyRequests)
	refused.field("code", "RATE_LIMITED")
	if wait := refused.header.Get("Retry-After"); wait == "" || wait == "0" {
		t.Errorf("Retry-After is %q", wait)
	}
	r.archive(http.MethodPost, sourcesPath+"?accountName=default&projectName=shop&branchName=main", "application/zip", "PK").want(http.StatusTooManyRequests)
	// One that has been started can be ended.
	r.archive(http.MethodPut, place, "application/zip", "PK").want(http.StatusAccepted)
	begin(`{"accountName":"second","projectName":"none","branchName":"main"}`, as(second)).want(http.StatusNotFound)
}

// An account that has as many deployments as it may have can still upload to those, and gets room for
// another one by deleting one.
func TestMostDeployments(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	r.project("shop")
	there := r.upload("there").text("deploymentName")
	now := r.store.Moment(time.Now())
	if err := r.store.Writing(t.Context()).Exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO gateway_deployments (name, account, project, branch, environment_type, state, message, active_build, active_number, last_number, version, created_at, created_by, updated_at)
		SELECT 'shop-' || i, 'default', 'shop', 'b' || i, 'preview', 'STARTED', '', '', 0, 0, 1, ?, '', ? FROM n`, domain.MaxDeployments-1, now, now).Error; err != nil {
		t.Fatal(err)
	}
	const one = sourcesPath + "?accountName=default&projectName=shop&branchName=more"
	for _, refused := range []answer{
		r.archive(http.MethodPost, one, "application/zip", "PK archive"),
		r.do(http.MethodPost, sourcesPath, `{"accountName":"default","projectName":"shop","branchName":"more"}`),
	} {
		refused.want(http.StatusConflict).field("code", "CONFLICT")
		if !strings.Contains(refused.text("detail"), "as many deployments as it may have") {
			t.Errorf("%s: %s", refused.call, refused.body)
		}
	}
	r.upload("there")
	r.do(http.MethodDelete, "/v1/deployments/"+there, "").want(http.StatusNoContent)
	r.upload("more")
}

// A deployment is shown with its builds, deployed again, rolled back, and deleted.
func TestDeployments(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		r.project("shop")
		first := r.upload("main")
		name := first.text("deploymentName")
		path := "/v1/deployments/" + name
		r.ended(first.text("buildId"), domain.BuildSuccess)
		second := r.upload("main")
		r.ended(second.text("buildId"), domain.BuildError)
		r.upload("feature/x")

		got := r.do(http.MethodGet, path, "").want(http.StatusOK).object()
		build, _ := got["build"].(map[string]any)
		last, _ := got["lastBuild"].(map[string]any)
		want := map[string]any{
			"name": name, "url": "", "label": "main", "urlParameter": name, "loggingId": name, "accountName": "default", "projectName": "shop", "state": "STARTED",
			"message": "", "branchName": "main", "environmentType": "production", "variablesChangedOn": nil, "archives": got["archives"],
			"build": build, "lastBuild": last, "createdOn": got["createdOn"], "updatedOn": got["updatedOn"],
		}
		if diff := cmp.Diff(want, got); diff != "" || build["id"] != first.text("buildId") || build["routes"] != 3.0 || last["number"] != 2.0 || last["status"] != "ERROR" || last["createdBy"] != "bootstrap" {
			t.Errorf("build %v, newest %v (-want +got):\n%s", build, last, diff)
		}
		for query, names := range map[string][]string{
			"": {"main", "feature/x"}, "?environmentType=preview": {"feature/x"}, "?branchName=main": {"main"}, "?branchName=none": {}, "?limit=1&offset=1": {"feature/x"},
		} {
			list := r.do(http.MethodGet, shopPath+"/deployments"+query, "").want(http.StatusOK)
			branches := []string{}
			for _, d := range list.items("data") {
				branches = append(branches, d["branchName"].(string))
			}
			if diff := cmp.Diff(names, branches); diff != "" {
				t.Errorf("%s (-want +got):\n%s", query, diff)
			}
		}
		r.do(http.MethodGet, shopPath+"/deployments?environmentType=test", "").want(http.StatusBadRequest)
		r.do(http.MethodGet, "/v1/accounts/default/projects/none/deployments", "").want(http.StatusNotFound).field("detail", "There is no such project.")

		status := r.do(http.MethodGet, shopPath+"/deployment-status/"+second.text("statusId"), "").want(http.StatusOK).object()
		wantStatus := map[string]any{
			"status": "ERROR", "url": "",
			"steps": map[string]any{
				"unpack":    map[string]any{"status": "SUCCESS", "startedOn": "2026-06-10T12:00:00.000Z", "finishedOn": "2026-06-10T12:00:01.000Z"},
				"variables": idle("SKIPPED"), "check": idle("SKIPPED"), "activate": idle("SKIPPED"),
			},
			"buildResult": map[string]any{"buildId": second.text("buildId"), "routes": 3.0, "errors": []any{
				map[string]any{"file": "a.oas.json", "operation": "op", "pointer": "/x", "detail": "is wrong"},
			}},
		}
		if diff := cmp.Diff(wantStatus, status); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}

		logs := path + "/builds/" + second.text("buildId") + "/logs"
		unpack := []any{map[string]any{"step": "unpack", "timestamp": "2026-06-10T12:00:00.123Z", "level": "info", "message": "2 files"}}
		check := []any{map[string]any{"step": "check", "timestamp": "2026-06-10T12:00:01Z", "level": "error", "message": "is wrong", "file": "a.oas.json", "operation": "op", "pointer": "/x"}}
		all := map[string]any{"api": map[string]any{"unpack": unpack, "variables": []any{}, "check": check, "activate": []any{}}}
		for query, want := range map[string]map[string]any{
			"": all, "?stage=api": all, "?stage=api&step=check": {"api": map[string]any{"check": check}}, "?stage=dev-portal": {"devPortal": map[string]any{}},
		} {
			if diff := cmp.Diff(want, r.do(http.MethodGet, logs+query, "").want(http.StatusOK).object()); diff != "" {
				t.Errorf("log%s (-want +got):\n%s", query, diff)
			}
		}
		for _, query := range []string{"?step=check", "?stage=portal", "?stage=api&step=none", "?stage=", "?more=1"} {
			r.do(http.MethodGet, logs+query, "").want(http.StatusBadRequest)
		}
		r.do(http.MethodGet, path+"/builds/0190c0f0-0000-7000-8000-000000000000/logs", "").want(http.StatusNotFound)

		again := r.do(http.MethodPost, path+"/deploy", "").want(http.StatusAccepted)
		again.field("status", "request enqueued")
		r.do(http.MethodGet, shopPath+"/deployment-status/"+again.text("statusId"), "").want(http.StatusOK).field("status", "IN_PROGRESS")
		r.do(http.MethodPost, path+"/deploy", fmt.Sprintf(`{"buildId":%q}`, second.text("buildId"))).want(http.StatusConflict).
			field("detail", "The archive of this build is not kept any more, because the build failed. Upload it again.")
		back := r.do(http.MethodPost, path+"/deploy", fmt.Sprintf(`{"buildId":%q}`, first.text("buildId"))).want(http.StatusAccepted)
		if back.text("buildId") == again.text("buildId") || back.text("buildId") == second.text("buildId") {
			t.Errorf("%s", back.body)
		}
		r.do(http.MethodPost, path+"/deploy", `{"buildId":"0190c0f0-0000-7000-8000-000000000000"}`).want(http.StatusNotFound).field("detail", "There is no such build.")
		r.do(http.MethodPost, "/v1/deployments/none/deploy", `{"buildId":"0190c0f0-0000-7000-8000-000000000000"}`).want(http.StatusNotFound).field("detail", "There is no such deployment.")
		r.do(http.MethodPost, path+"/deploy", `{"more":1}`).want(http.StatusBadRequest)

		r.do(http.MethodDelete, path, "").want(http.StatusNoContent)
		for method, place := range map[string]string{http.MethodGet: "", http.MethodPost: "/deploy", http.MethodDelete: ""} {
			r.do(method, path+place, "").want(http.StatusNotFound).field("detail", "There is no such deployment.")
		}
		entries := r.do(http.MethodGet, "/v1/accounts/default/audit-logs?action=redeploy&success=true", "").want(http.StatusOK).items("data")
		removed := r.do(http.MethodGet, "/v1/accounts/default/audit-logs?action=delete-deployment&success=true", "").want(http.StatusOK).items("data")
		if len(entries) != 2 || len(removed) != 1 {
			t.Errorf("%d and %d entries", len(entries), len(removed))
		}
	})
}

// URLs are told where the API knows where gateways answer.
func TestDeploymentURLs(t *testing.T) {
	t.Parallel()
	r := prepareRig(t, sqliteURL(t))
	r.options = func(o *api.Options) { o.GatewayURL = "https://gateway.example.com:8443" }
	r.start()
	r.project("shop")
	a := r.upload("main")
	want := "https://" + a.text("deploymentName") + ".gateway.example.com:8443"
	a.field("url", want)
	r.do(http.MethodGet, "/v1/deployments/"+a.text("deploymentName"), "").want(http.StatusOK).field("url", want)
	r.do(http.MethodGet, shopPath+"/deployment-status/"+a.text("statusId"), "").want(http.StatusOK).field("url", want)
}

// The folder of route files is the deployment local of the default account: it is read again
// when it is deployed, and can't be deleted.
func TestLocalDeployment(t *testing.T) {
	t.Parallel()
	r := prepareRig(t, sqliteURL(t))
	var mu sync.Mutex
	state := api.RouteState{Loaded: time.Now()}
	var faults []api.RouteFault
	var broken error
	r.options = func(o *api.Options) {
		o.RouteState = func() api.RouteState {
			mu.Lock()
			defer mu.Unlock()
			return state
		}
		o.ReloadRoutes = func() ([]api.RouteFault, error) {
			mu.Lock()
			defer mu.Unlock()
			return faults, broken
		}
	}
	r.start()
	second := r.secondAccount("second")
	const path, list = "/v1/deployments/local", "/v1/accounts/default/projects/local/deployments"
	local := r.do(http.MethodGet, path, "").want(http.StatusOK)
	for name, want := range map[string]string{
		"url": r.url, "accountName": "default", "projectName": "local", "branchName": "local", "environmentType": "production", "state": "STARTED", "message": "",
	} {
		local.field(name, want)
	}
	r.do(http.MethodGet, path, "", as(second)).want(http.StatusNotFound)
	r.do(http.MethodPost, path+"/deploy", "", as(second)).want(http.StatusNotFound)
	r.do(http.MethodDelete, path, "", as(second)).want(http.StatusNotFound)
	r.do(http.MethodGet, "/v1/accounts/second/projects/local/deployments", "", as(second)).want(http.StatusNotFound)
	if builds := r.do(http.MethodGet, path+"/builds", "").want(http.StatusOK); len(builds.items("data")) != 0 {
		t.Errorf("%s", builds.body)
	}
	names := func(query string) (names []string, total any) {
		a := r.do(http.MethodGet, list+query, "").want(http.StatusOK)
		for _, d := range a.items("data") {
			names = append(names, d["branchName"].(string))
		}
		return names, a.object()["total"]
	}
	for query, want := range map[string][]string{"": {"local"}, "?branchName=local": {"local"}, "?branchName=main": nil, "?environmentType=preview": nil, "?offset=1": nil} {
		if got, _ := names(query); !cmp.Equal(want, got) {
			t.Errorf("%s: %v", query, got)
		}
	}
	// A project of the same name is beside it.
	r.project("local")
	r.archive(http.MethodPost, sourcesPath+"?accountName=default&projectName=local&branchName=main", "application/zip", "PK").want(http.StatusAccepted)
	r.archive(http.MethodPost, sourcesPath+"?accountName=default&projectName=local&branchName=other", "application/zip", "PK").want(http.StatusAccepted)
	for query, want := range map[string][]string{"": {"local", "main", "other"}, "?limit=1": {"local"}, "?limit=2": {"local", "main"}, "?limit=1&offset=1": {"main"}, "?limit=2&offset=2": {"other"}} {
		if got, total := names(query); !cmp.Equal(want, got) || total != 3.0 {
			t.Errorf("%s: %v of %v", query, got, total)
		}
	}

	again := r.do(http.MethodPost, path+"/deploy", "").want(http.StatusAccepted)
	if again.object()["buildId"] != nil {
		t.Errorf("%s", again.body)
	}
	if entries := r.do(http.MethodGet, "/v1/accounts/default/audit-logs?action=redeploy", "").want(http.StatusOK).items("data"); len(entries) != 1 {
		t.Errorf("%d audit entries", len(entries))
	}
	r.do(http.MethodPost, path+"/deploy", `{"buildId":"x"}`).want(http.StatusNotFound)
	r.do(http.MethodDelete, path, "").want(http.StatusConflict)
	mu.Lock()
	faults = []api.RouteFault{{File: "a.oas.json", Operation: "op", Pointer: "/paths/x", Message: "has an unknown handler"}, {Message: "is empty"}}
	state.Faults, state.FaultsAt = faults, time.Now()
	mu.Unlock()
	refused := r.do(http.MethodPost, path+"/deploy", "").want(http.StatusConflict)
	errs := refused.items("errors")
	if len(errs) != 2 || errs[0]["pointer"] != "/paths/x" || errs[0]["detail"] != "a.oas.json op: has an unknown handler" || errs[1]["detail"] != "is empty" {
		t.Errorf("%s", refused.body)
	}
	if message := r.do(http.MethodGet, path, "").want(http.StatusOK).text("message"); !strings.Contains(message, "a.oas.json op: has an unknown handler; is empty") {
		t.Errorf("message %q", message)
	}
	mu.Lock()
	faults, broken = nil, errors.New("the folder is away")
	mu.Unlock()
	r.do(http.MethodPost, path+"/deploy", "").want(http.StatusInternalServerError)
}

// What nobody has uploaded goes with all else that is too old.
func TestUnusedSourcesArePurged(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	r.project("shop")
	_, a := r.begin("main")
	path := shopPath + "/deployment-status/" + a.text("statusId")
	at := r.store.Moment(time.Now().Add(-2 * time.Hour))
	if err := r.store.Writing(t.Context()).Exec("UPDATE gateway_sources SET created_at = ?", at).Error; err != nil {
		t.Fatal(err)
	}
	late := r.do(http.MethodGet, path, "").want(http.StatusOK)
	late.field("status", "ERROR")
	r.stop()
	r.start() // a relay tidies up when it begins
	eventually(t, "it is gone", func() bool { return r.do(http.MethodGet, path, "").status == http.StatusNotFound })
}
