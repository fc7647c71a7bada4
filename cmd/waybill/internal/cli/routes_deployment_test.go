package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"waybill.dev/cmd/internal/datadir"
)

// What a deployment may not do is a fault, and what it may do is none; the server's own routes
// have other rules.
func TestRoutesOfADeployment(t *testing.T) { //nolint:paralleltest // it sets variables of the process
	t.Setenv("PROCESS_ONLY", "hunter2")
	static := func(body string) string { return strings.Replace(oneRoute, `"body":"hello"`, `"body":"`+body+`"`, 1) }
	forward := func(url string) string {
		return strings.NewReplacer("staticHandler", "urlForwardHandler", `"body":"hello"`, `"baseUrl":"`+url+`"`).Replace(oneRoute)
	}
	for name, tc := range map[string]struct {
		file string
		args []string
		code int
		says string
	}{
		"its variables":        {static("$env(NAME) of $env(WAYBILL_PROJECT)"), []string{"--var", "NAME=a=b"}, 0, "1 route, no faults."},
		"a variable too few":   {static("$env(NAME)"), nil, 1, "the environment has no NAME"},
		"one of the process":   {static("$env(PROCESS_ONLY)"), nil, 1, "has no PROCESS_ONLY"},
		"the encryption key":   {static("$env(WAYBILL_ENCRYPTION_KEY)"), nil, 1, "Waybill's own"},
		"a private back end":   {forward("http://127.0.0.1:9000"), nil, 1, "handler/options/baseUrl"},
		"a path of Waybill's":  {strings.ReplaceAll(oneRoute, "/hello", "/v1/webhooks"), nil, 0, "1 route"},
		"a module":             {strings.ReplaceAll(oneRoute, "@gateway/runtime", "./modules/waybill"), nil, 1, "modules can't be uploaded"},
		"a name that is none":  {oneRoute, []string{"--var", "name=hunter2"}, 1, "a variable's name has"},
		"one of Waybill's":     {oneRoute, []string{"--var", "WAYBILL_X=hunter2"}, 1, "does not begin with WAYBILL_"},
		"no value":             {oneRoute, []string{"--var", "NAME"}, 1, "write NAME=VALUE"},
		"a value that is long": {oneRoute, []string{"--var", "NAME=" + strings.Repeat("x", 5121)}, 1, "at most 5120 bytes"},
		"a variable twice":     {oneRoute, []string{"--var", "NAME=1", "--var", "NAME=2"}, 1, "given twice"},
	} {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // as above
			dir := folder(t, map[string]string{"a.oas.json": tc.file})
			code, out, notes := waybill(append([]string{"routes", "check", "--deployment", "--routes", dir}, tc.args...)...)
			if code != tc.code || !strings.Contains(out+notes, tc.says) || strings.Contains(out+notes, "hunter2") {
				t.Errorf("%d, want %d: %s\n%s%s", code, tc.code, tc.says, out, notes)
			}
		})
	}
	dir := folder(t, map[string]string{"a.oas.json": forward("http://127.0.0.1:9000")})
	if code, out, notes := waybill("routes", "check", "--routes", dir); code != 0 {
		t.Errorf("the server's own routes: %d\n%s%s", code, out, notes)
	}
	for name, tc := range map[string]struct {
		data, says string
		code       int
	}{
		"where dev does not run": {t.TempDir(), "settings of a gateway: WAYBILL_GATEWAY_EGRESS_ALLOW=none, WAYBILL_EGRESS_HTTP=false", 1},
		"beside dev":             {runningDev(t), "the waybill dev that runs here: WAYBILL_GATEWAY_EGRESS_ALLOW=127.0.0.0/8,::1/128, WAYBILL_EGRESS_HTTP=true", 0},
	} {
		if code, out, notes := waybill("routes", "check", "--deployment", "--routes", dir, "--data", tc.data); code != tc.code || !strings.Contains(notes, tc.says) {
			t.Errorf("%s: %d, want %d: %s\n%s%s", name, code, tc.code, tc.says, out, notes)
		}
	}
	if code, _, notes := waybill("routes", "check", "--routes", dir, "--var", "NAME=x"); code != 1 || !strings.Contains(notes, "--deployment") {
		t.Errorf("--var alone: %d %s", code, notes)
	}
	t.Setenv("WAYBILL_GATEWAY_EGRESS_ALLOW", "127.0.0.0/8")
	t.Setenv("WAYBILL_EGRESS_HTTP", "true")
	if code, out, notes := waybill("routes", "check", "--deployment", "--routes", dir); code != 0 {
		t.Errorf("what the installation allows: %d\n%s%s", code, out, notes)
	}
	if err := os.Remove(dir + "/a.oas.json"); err != nil {
		t.Fatal(err)
	}
	if code, _, notes := waybill("routes", "check", "--deployment", "--routes", dir); code != 1 || !strings.Contains(notes, "no route file") {
		t.Errorf("nothing to deploy: %d\n%s", code, notes)
	}
	// What deploy leaves out is not looked at, and what it refuses is refused.
	dir = folder(t, map[string]string{"a.oas.json": oneRoute, "draft.oas.json": "{", "old.oas.json": "{", ".gitignore": "old*\n", ".waybillignore": "draft*\n"})
	if code, out, notes := waybill("routes", "check", "--deployment", "--routes", dir); code != 0 || !strings.Contains(out, "1 route, no faults.") {
		t.Errorf("files that are left out: %d\n%s%s", code, out, notes)
	}
	if err := os.Symlink("/etc/hostname", dir+"/link.txt"); err != nil {
		t.Fatal(err)
	}
	if code, out, notes := waybill("routes", "check", "--deployment", "--routes", dir); code != 1 || !strings.Contains(notes, "link.txt is a link") {
		t.Errorf("a link: %d\n%s%s", code, out, notes)
	}
	if code, _, notes := waybill("routes", "check", "--deployment", "--routes", dir+"/missing"); code != 1 || !strings.Contains(notes, "no such file") {
		t.Errorf("no folder: %d\n%s", code, notes)
	}
}

// runningDev returns a data directory that a process has.
func runningDev(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), ".waybill")
	held, err := datadir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = held.Close() })
	return dir
}
