package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"waybill.dev/cmd/waybill/internal/cli"
)

// waybill runs the command line alone.
func waybill(args ...string) (code int, stdout, stderr string) {
	var out, notes bytes.Buffer
	code = cli.Main("test", append([]string{"waybill"}, args...), strings.NewReader(""), &out, &notes)
	return code, out.String(), notes.String()
}

// folder makes a folder of route files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const oneRoute = `{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{"/hello":{"get":{"operationId":"hello","responses":{"200":{"description":"It."}},` +
	`"x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler","options":{"body":"hello"}},"mcp":{"type":"resource"}}}}}}`

func TestRoutesOfAFolder(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"a.oas.json": oneRoute})
	if code, out, notes := waybill("routes", "check", "--routes", dir); code != 0 || out != "1 route, no faults.\n" || notes != "" {
		t.Errorf("check: %d\n%s%s", code, out, notes)
	}
	code, out, notes := waybill("routes", "list", "--routes", dir, "-o", "json")
	var lines []map[string]any
	if err := json.Unmarshal([]byte(out), &lines); code != 0 || err != nil || len(lines) != 1 {
		t.Fatalf("list: %d, %v\n%s%s", code, err, out, notes)
	}
	for name, want := range map[string]any{"method": "GET", "path": "/hello", "operation": "hello", "file": "a.oas.json", "mcp": "resource"} {
		if lines[0][name] != want {
			t.Errorf("%s is %v, want %v", name, lines[0][name], want)
		}
	}
	if code, out, _ := waybill("routes", "list", "--routes", dir); code != 0 || !strings.Contains(out, "staticHandler") {
		t.Errorf("list: %d\n%s", code, out)
	}
}

// Every fault is named at once, with file and operation.
func TestFaultsOfAFolder(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"a.oas.json": strings.Replace(oneRoute, `"get"`, `"post"`, 1),
		"b.oas.json": strings.NewReplacer("/hello", "/hi", "staticHandler", "noSuchHandler").Replace(oneRoute),
	})
	code, out, notes := waybill("routes", "check", "--routes", dir)
	if code != 1 || !strings.Contains(out, "a.oas.json: hello: ") || notes == "" {
		t.Errorf("check: %d\n%s%s", code, out, notes)
	}
	code, out, _ = waybill("routes", "check", "--routes", dir, "-o", "json")
	var checked struct {
		Faults []struct{ File, Operation, Message string }
	}
	if err := json.Unmarshal([]byte(out), &checked); code != 1 || err != nil || len(checked.Faults) == 0 || checked.Faults[0].Operation != "hello" {
		t.Errorf("check as JSON: %d, %v\n%s", code, err, out)
	}
	if code, out, notes := waybill("routes", "list", "--routes", dir); code != 1 || out != "" || !strings.Contains(notes, "routes check") {
		t.Errorf("list: %d\n%s%s", code, out, notes)
	}
	if code, _, notes := waybill("routes", "check", "--routes", filepath.Join(dir, "nowhere")); code != 1 || notes == "" {
		t.Errorf("no folder: %d %s", code, notes)
	}
	if code, _, _ := waybill("routes", "check", "twice"); code != 2 {
		t.Errorf("an argument too many: %d", code)
	}
}

// The examples of the documentation and what comes with Waybill are without faults.
func TestShippedRoutes(t *testing.T) {
	t.Setenv("EXAMPLE_BACKEND", "http://127.0.0.1:9000")
	for _, dir := range []string{"../../../../config", "../../../../docs/examples/gateway"} {
		if code, out, notes := waybill("routes", "check", "--routes", dir); code != 0 {
			t.Errorf("%s: %d\n%s%s", dir, code, out, notes)
		}
	}
	if err := os.Unsetenv("EXAMPLE_BACKEND"); err != nil {
		t.Fatal(err)
	}
	if code, out, _ := waybill("routes", "check", "--routes", "../../../../docs/examples/gateway"); code != 1 || !strings.Contains(out, "EXAMPLE_BACKEND") {
		t.Errorf("without its variable: %d\n%s", code, out)
	}
}
