package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/cmd/waybill/internal/cli"
)

const (
	deploymentName = "shop-main-4zq2mw7k5a"
	deploymentURL  = "http://" + deploymentName + ".gateway.localhost:8080"
	buildID        = "0198e5c2-0000-7000-8000-000000000002"
)

// builder is an installation that answers as one with a gateway does. Each look at the
// status moves it one state on.
type builder struct {
	mu     sync.Mutex
	states []buildState
	looks  int

	upload   []byte // what arrived
	query    string
	redeploy string
	known    string // projects
	active   int    // the build that was served before; 0: none
}

type buildState struct {
	code        int // of the answer about the status; 0: 200
	status, log string
}

func (b *builder) start(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	handle := func(pattern string, answer func(r *http.Request) (int, string)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if r.Header.Get("Authorization") != "Bearer "+apiKey {
				t.Errorf("%s %s comes with the key %q", r.Method, r.URL, r.Header.Get("Authorization"))
			}
			code, text := answer(r)
			w.WriteHeader(code)
			_, _ = io.WriteString(w, text)
		})
	}
	accepted := fmt.Sprintf(`{"statusId":"status-1","buildId":%q,"deploymentName":%q,"url":%q}`, buildID, deploymentName, deploymentURL)
	handle("GET /v1/who-am-i", func(*http.Request) (int, string) { return 200, `{"account":"default","sub":"bootstrap"}` })
	handle("POST /v1/deployments/sources", func(r *http.Request) (int, string) {
		b.query = r.URL.RawQuery + " " + r.Header.Get("Content-Type")
		b.upload, _ = io.ReadAll(r.Body)
		if !strings.Contains(" "+b.known+" ", " "+r.URL.Query().Get("projectName")+" ") {
			return 404, `{"status":404,"code":"NOT_FOUND","detail":"There is no such project."}`
		}
		return 202, accepted
	})
	handle("GET /v1/accounts/default/projects/shop/deployment-status/status-1", func(*http.Request) (int, string) {
		state := b.states[min(b.looks, len(b.states)-1)]
		b.looks++
		if state.code != 0 {
			return state.code, fmt.Sprintf(`{"status":%d,"code":"UNAVAILABLE","detail":"The store is down."}`, state.code)
		}
		return 200, state.status
	})
	handle("GET /v1/deployments/"+deploymentName+"/builds/"+buildID+"/logs", func(*http.Request) (int, string) {
		return 200, `{"api":` + b.states[min(b.looks, len(b.states))-1].log + `}`
	})
	handle("GET /v1/deployments/"+deploymentName, func(*http.Request) (int, string) {
		build := "null"
		if b.active > 0 {
			build = fmt.Sprintf(`{"id":"b1","number":%d,"status":"SUCCESS"}`, b.active)
		}
		return 200, fmt.Sprintf(`{"name":%q,"url":%q,"accountName":"default","projectName":"shop","branchName":"main","build":%s,"lastBuild":{"id":%q,"number":2}}`,
			deploymentName, deploymentURL, build, buildID)
	})
	handle("POST /v1/deployments/"+deploymentName+"/deploy", func(r *http.Request) (int, string) {
		text, _ := io.ReadAll(r.Body)
		b.redeploy = string(text)
		return 202, fmt.Sprintf(`{"status":"request enqueued","statusId":"status-1","buildId":%q}`, buildID)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

const (
	unpacked = `{"timestamp":"2026-12-01T10:11:12Z","level":"info","message":"2 files"}`
	unset    = `{"timestamp":"2026-12-01T10:11:12Z","level":"warn","message":"GREETING has changed"}`
	wrong    = `{"timestamp":"2026-12-01T10:11:12Z","level":"error","message":"must be a URL","file":"shop.oas.json","operation":"rates","pointer":"/paths/~1rates/get"}`
	served   = `{"timestamp":"2026-12-01T10:11:12Z","level":"info","message":"served"}`
)

func good() *builder {
	return &builder{known: "shop", states: []buildState{
		{status: `{"status":"IN_PROGRESS","url":"","steps":{"unpack":{"status":"QUEUED"},"variables":{"status":"QUEUED"}},"buildResult":{}}`, log: `{}`},
		{status: `{"status":"IN_PROGRESS","steps":{"unpack":{"status":"SUCCESS"},"variables":{"status":"BUILDING"}}}`, log: `{"unpack":[` + unpacked + `]}`},
		{
			status: `{"status":"SUCCESS","url":"` + deploymentURL + `","steps":{},"buildResult":{"buildId":"` + buildID + `","routes":4,"errors":[]}}`,
			log:    `{"unpack":[` + unpacked + `],"variables":[` + unset + `],"activate":[` + served + `]}`,
		},
	}}
}

func bad() *builder {
	return &builder{known: "shop", states: []buildState{
		{
			status: `{"status":"ERROR","url":"` + deploymentURL + `","buildResult":{"routes":0,"errors":[{"file":"shop.oas.json","operation":"rates","pointer":"/paths/~1rates/get","detail":"must be a URL"}]}}`,
			log:    `{"unpack":[` + unpacked + `],"check":[` + wrong + `]}`,
		},
	}}
}

// shopFolder is a folder that can be uploaded.
func shopFolder(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "shop")
	for name, text := range map[string]string{"shop.oas.json": "{}", "pages/a.html": "<p>", ".git/HEAD": "ref: refs/heads/topic/one\n", "node_modules/x": "x"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestDeployFollowsTheBuild(t *testing.T) {
	t.Parallel()
	dir := shopFolder(t)
	b := good()
	code, out, notes := waybill("deploy", dir, "--project", "shop", "--branch", "main", "--server", b.start(t), "--key", apiKey)
	want := "Uploading " + dir + " to project shop, branch main: 2 files, 5 bytes.\nLeft out: .git/, node_modules/.\n" +
		"  unpack     2 files\n  variables  GREETING has changed\n  activate   served\n" +
		"✓ Deployed " + deploymentName + ", with 4 routes.\n"
	if code != 0 || out != deploymentURL+"\n" || notes != want {
		t.Errorf("exit code %d, stdout %q, notes\n%swant\n%s", code, out, notes, want)
	}
	if b.query != "accountName=default&branchName=main&projectName=shop application/zip" || !bytes.HasPrefix(b.upload, []byte("PK")) {
		t.Errorf("uploads %q… as %s", b.upload[:min(4, len(b.upload))], b.query)
	}
}

func TestDeployInJSON(t *testing.T) {
	t.Parallel()
	b := good()
	code, out, _ := waybill("deploy", shopFolder(t), "--project", "shop", "-o", "json", "--server", b.start(t), "--key", apiKey)
	var got map[string]any
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v: %s", code, err, out)
	}
	want := map[string]any{
		"deploymentName": deploymentName, "url": deploymentURL, "buildId": buildID, "statusId": "status-1", "status": "SUCCESS", "routes": 4.0, "errors": []any{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stdout (-want +got):\n%s", diff)
	}
	if !strings.Contains(b.query, "branchName=topic%2Fone&") {
		t.Errorf("uploads %s, and git is at topic/one", b.query)
	}
}

func TestDeployThatFails(t *testing.T) {
	t.Parallel()
	for active, says := range map[int]string{0: "nothing is served yet", 1: "build 1 is still served"} {
		b := bad()
		b.active = active
		code, out, notes := waybill("deploy", shopFolder(t), "--project", "shop", "--server", b.start(t), "--key", apiKey)
		want := "  unpack     2 files\n  check      shop.oas.json: rates: /paths/~1rates/get: must be a URL\n" +
			"waybill: the build failed with 1 fault; " + says + "\n"
		if code != 1 || out != "" || !strings.HasSuffix(notes, want) {
			t.Errorf("exit code %d, stdout %q, notes\n%swhich should end with\n%s", code, out, notes, want)
		}
	}
	// A log that was cut off does not hide the faults.
	b := bad()
	b.states[0].log = `{}`
	code, out, notes := waybill("deploy", shopFolder(t), "--project", "shop", "-o", "json", "--server", b.start(t), "--key", apiKey)
	if code != 1 || !strings.Contains(out, `"status": "ERROR"`) || !strings.Contains(out, `"detail": "must be a URL"`) || !strings.Contains(notes, "shop.oas.json: rates: /paths/~1rates/get: must be a URL\n") {
		t.Errorf("without a log: exit code %d, stdout\n%snotes\n%s", code, out, notes)
	}
}

func TestDeployGoesOnWhenTheInstallationIsAway(t *testing.T) {
	t.Parallel()
	b := good()
	b.states = append([]buildState{{code: 503, log: `{}`}, {code: 503, log: `{}`}}, b.states...)
	code, out, notes := waybill("deploy", shopFolder(t), "--project", "shop", "--server", b.start(t), "--key", apiKey)
	if code != 0 || out != deploymentURL+"\n" || strings.Count(notes, "The store is down. The build goes on; looking again.") != 1 {
		t.Errorf("exit code %d, stdout %q, notes\n%s", code, out, notes)
	}
}

func TestDeployWaitsForSoLong(t *testing.T) {
	t.Parallel()
	b := good()
	b.states = b.states[:1]
	code, out, notes := waybill("deploy", shopFolder(t), "--project", "shop", "--timeout", "300ms", "--server", b.start(t), "--key", apiKey)
	want := "waybill: the build has not ended within 300ms\n  The build goes on. See what became of it: waybill deployments builds " + deploymentName + "\n"
	if code != 1 || out != "" || !strings.HasSuffix(notes, want) {
		t.Errorf("exit code %d, stdout %q, notes\n%s", code, out, notes)
	}
}

func TestDeployOfABuildThatIsBegunAnew(t *testing.T) {
	t.Parallel()
	b := good()
	last := b.states[2]
	b.states = []buildState{
		{status: b.states[1].status, log: `{"unpack":[` + unpacked + `],"variables":[` + unset + `,` + unset + `]}`},
		{status: b.states[1].status, log: `{"unpack":[` + unpacked + `]}`}, last,
	}
	_, _, notes := waybill("deploy", shopFolder(t), "--project", "shop", "--server", b.start(t), "--key", apiKey)
	want := "  unpack     2 files\n  variables  GREETING has changed\n  variables  GREETING has changed\n  The build was begun anew.\n" +
		"  unpack     2 files\n  variables  GREETING has changed\n  activate   served\n"
	if !strings.Contains(notes, want) {
		t.Errorf("notes\n%swant in them\n%s", notes, want)
	}
}

func TestDeployUsedWrongly(t *testing.T) {
	t.Parallel()
	plain, detached, worktree := filepath.Join(t.TempDir(), "plain"), shopFolder(t), shopFolder(t)
	for name, text := range map[string]string{
		filepath.Join(detached, ".git", "HEAD"): "0123456789012345678901234567890123456789\n",
		filepath.Join(plain, "a.oas.json"):      "{}",
		filepath.Join(worktree, "HEAD"):         "ref: refs/heads/linked\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(filepath.Join(worktree, ".git")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(worktree, ".git"), []byte("gitdir: "+worktree+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rows := []struct {
		args []string
		code int
		says string
		asks string
	}{
		{[]string{"--project", "shop"}, 2, "give the folder with the route files", ""},
		{[]string{plain}, 2, "--project is required", ""},
		{[]string{detached, "--project", "shop"}, 2, "git has no branch checked out in " + detached + ": give one with --branch", ""},
		{[]string{plain + "/nowhere", "--project", "shop"}, 1, "plain/nowhere: no such file or directory", ""},
		{[]string{t.TempDir(), "--project", "shop"}, 1, "there is no route file (*.oas.json) in ", ""},
		{[]string{plain, "--project", "shops"}, 1, "account default has no project shops\n  Make it: waybill projects create shops\n", "branchName=main"},
		{[]string{plain, "--project", "shop"}, 0, "branch main:", "branchName=main"},
		{[]string{worktree, "--project", "shop"}, 0, "branch linked:", "branchName=linked"},
	}
	for _, row := range rows {
		t.Run(fmt.Sprint(row.code, " ", row.says), func(t *testing.T) {
			t.Parallel()
			b := good()
			args := append(append([]string{"waybill", "deploy"}, row.args...), "--server", b.start(t), "--key", apiKey)
			var out, notes bytes.Buffer
			code := cli.Main("test", args, nil, &out, &notes)
			if code != row.code || !strings.Contains(notes.String(), row.says) || row.asks == "" && b.query != "" || !strings.Contains(b.query, row.asks) {
				t.Errorf("exit code %d, asked %q, stdout %q, notes\n%s", code, b.query, &out, &notes)
			}
		})
	}
}

func TestRedeployAndLog(t *testing.T) {
	t.Parallel()
	b := good()
	url := b.start(t)
	code, out, notes := waybill("deployments", "redeploy", deploymentName, "--build", "b7", "--server", url, "--key", apiKey)
	if code != 0 || out != deploymentURL+"\n" || b.redeploy != `{"buildId":"b7"}` || !strings.Contains(notes, "  activate   served\n") {
		t.Errorf("exit code %d, stdout %q, asked %s, notes\n%s", code, out, b.redeploy, notes)
	}
	for _, args := range [][]string{{deploymentName}, {deploymentName, buildID}} {
		code, out, notes := waybill(append(append([]string{"deployments", "log"}, args...), "--server", url, "--key", apiKey)...)
		if want := "  unpack     2 files\n  variables  GREETING has changed\n  activate   served\n"; code != 0 || out != want || notes != "" {
			t.Errorf("log of %v: exit code %d, stdout\n%snotes %q", args, code, out, notes)
		}
	}
	code, out, _ = waybill("deployments", "log", deploymentName, "-o", "json", "--server", url, "--key", apiKey)
	if code != 0 || !json.Valid([]byte(out)) || !strings.HasPrefix(out, `{"api":{"unpack":`) {
		t.Errorf("log in JSON: exit code %d\n%s", code, out)
	}
}
