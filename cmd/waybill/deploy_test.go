package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// desk copies the example project into the folder of an installation.
func desk(t *testing.T, i *installation) string {
	t.Helper()
	dir := filepath.Join(i.dir, "desk")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "docs", "examples", "deployment"))); err != nil {
		t.Fatalf("copy the example: %v", err)
	}
	return dir
}

// change replaces text in a file.
func change(t *testing.T, file, from, to string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.ReplaceAll(text, []byte(from), []byte(to))
	if bytes.Equal(text, changed) {
		t.Fatalf("%s has no %q", file, from)
	}
	if err := os.WriteFile(file, changed, 0o600); err != nil {
		t.Fatal(err)
	}
}

// ask asks a deployment for a path. The name need not resolve: it goes as Host.
func (i *installation) ask(t *testing.T, url, path, key string) (status int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, i.addresses.API+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = strings.TrimPrefix(strings.TrimSpace(url), "http://")
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// becomes waits for an answer of a deployment; text "" is any. Gateways change over a moment after a
// build has ended, within a second.
func (i *installation) becomes(t *testing.T, url, path string, status int, text string) {
	t.Helper()
	eventually(t, func() error {
		if got, said := i.ask(t, url, path, ""); got != status || text != "" && said != text {
			return fmt.Errorf("%s answers %d %q, want %d %q", path, got, said, status, text)
		}
		return nil
	})
}

func TestADeploymentFromItsProjectToItsEnd(t *testing.T) {
	t.Parallel()
	i := dev(t)
	dir := desk(t, i)
	code, stdout, stderr := waybill(t, i.dir, "deploy", "desk", "--project", "desk", "--branch", "main")
	if want := "waybill: account default has no project desk\n  Make it: waybill projects create desk\n"; code != 1 || stdout != "" || !strings.HasSuffix(stderr, want) {
		t.Fatalf("without a project: exit code %d\n%s%s", code, stdout, stderr)
	}
	must(t, i.dir, "projects", "create", "desk")
	url := must(t, i.dir, "deploy", "desk", "--project", "desk", "--branch", "main")
	_, port, _ := strings.Cut(strings.TrimPrefix(i.addresses.API, "http://"), ":")
	if !strings.HasPrefix(url, "http://desk-main-") || !strings.HasSuffix(url, ".gateway.localhost:"+port+"\n") || strings.Count(url, "\n") != 1 {
		t.Fatalf("stdout is %q", url)
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), ".")
	says := func(want string) {
		t.Helper()
		if status, text := i.ask(t, url, "/greeting", ""); status != http.StatusOK || text != want {
			t.Errorf("it says %d %q, want %q", status, text, want)
		}
	}
	i.becomes(t, url, "/greeting", http.StatusOK, "Good morning!\n")
	change(t, filepath.Join(dir, "desk.oas.json"), "Good morning!", "Good evening!")
	if again := must(t, i.dir, "deploy", "desk", "--project", "desk", "--branch", "main"); again != url {
		t.Errorf("its URL becomes %s", again)
	}
	i.becomes(t, url, "/greeting", http.StatusOK, "Good evening!\n")

	// A fault changes nothing, and every one is named.
	change(t, filepath.Join(dir, "desk.oas.json"), `"staticHandler"`, `"statikHandler"`)
	change(t, filepath.Join(dir, "policies.json"), `"partners-only"`, `"partner-only"`)
	code, stdout, stderr = waybill(t, i.dir, "deploy", "desk", "--project", "desk", "--branch", "main")
	if code != 1 || stdout != "" || strings.Count(stderr, "desk.oas.json: ") < 5 || !strings.Contains(stderr, "; build 2 is still served\n") {
		t.Errorf("with faults: exit code %d\n%s%s", code, stdout, stderr)
	}
	says("Good evening!\n")
	if log := must(t, i.dir, "deployments", "log", name); strings.Count(log, "desk.oas.json: ") != strings.Count(stderr, "desk.oas.json: ") {
		t.Errorf("the log has\n%s", log)
	}

	builds := read[listAnswer[struct {
		ID, Status string
		Number     int
	}]](t, i, "", "deployments", "builds", name).Data
	first := ""
	for _, b := range builds {
		if b.Number == 1 {
			first = b.ID
		}
	}
	if len(builds) != 3 || first == "" {
		t.Fatalf("the builds are %+v", builds)
	}
	if again := must(t, i.dir, "deployments", "redeploy", name, "--build", first); again != url {
		t.Errorf("rolled back to %s", again)
	}
	i.becomes(t, url, "/greeting", http.StatusOK, "Good morning!\n")
	if list := must(t, i.dir, "deployments", "list", "desk"); !strings.Contains(list, name) || !strings.Contains(list, "STARTED") {
		t.Errorf("listed as\n%s", list)
	}

	// A key opens what its own environment asks a key for.
	made := read[struct{ APIKeys []keyAnswer }](t, i, "", "consumers", "create", "desk-production", "acme", "--with-api-key")
	if status, _ := i.ask(t, url, "/partners/tariffs", ""); status != http.StatusUnauthorized {
		t.Errorf("without a key: %d", status)
	}
	if status, text := i.ask(t, url, "/partners/tariffs", made.APIKeys[0].Key); status != http.StatusOK || !strings.Contains(text, "6.1") {
		t.Errorf("with a key: %d %s", status, text)
	}

	i.logged(t, name, url)
	i.identified(t, name, url)

	must(t, i.dir, "deployments", "delete", name)
	i.becomes(t, url, "/greeting", http.StatusNotFound, "")
	if code, _, stderr := waybill(t, i.dir, "deployments", "get", name); code != 1 || !strings.HasPrefix(stderr, "waybill: the API answers 404 NOT_FOUND") {
		t.Errorf("get after deleting: %d %s", code, stderr)
	}
}

// logged reads the log of a deployment that has answered, and follows it.
func (i *installation) logged(t *testing.T, name, url string) {
	t.Helper()
	var refused string
	eventually(t, func() error {
		refused = must(t, i.dir, "logs", name, "--status", "4xx")
		if !strings.Contains(refused, "  401  GET /partners/tariffs  ") || strings.Count(refused, "\n") != 1 {
			return fmt.Errorf("the log of what was refused has\n%s", refused)
		}
		return nil
	})
	words := strings.Fields(refused)
	one := must(t, i.dir, "logs", name, words[len(words)-1])
	if !strings.HasPrefix(one, refused) || !strings.Contains(one, "policy partners-only") {
		t.Errorf("the request is\n%s", one)
	}

	c := prepare(t, i.dir, nil, "waybill", "logs", name, "--follow", "--limit", "1", "-o", "json")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := func(path string) error {
		if n := strings.Count(c.out.String(), `"path":"`+path+`"`); n != 1 {
			return fmt.Errorf("%s is there %d times:\n%s%s", path, n, c.out.String(), c.err.String())
		}
		return nil
	}
	for _, path := range []string{"/first", "/second", "/third"} {
		i.ask(t, url, path, "")
		eventually(t, func() error { return lines(path) })
	}
	if err := errors.Join(lines("/first"), lines("/second")); err != nil {
		t.Error(err)
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("it ends with %v: %s", err, c.err.String())
	}
}

// identified asks a deployment with an id of the caller's. The answer has another one, by which the
// request is found; the caller's stands beside it. It may be what another request is found by, and
// finds nothing itself.
func (i *installation) identified(t *testing.T, name, url string) {
	t.Helper()
	key := strings.TrimSpace(text(t, filepath.Join(i.dir, ".waybill", "admin.key")))
	call := func(host, path string, header ...string) (*http.Response, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, i.addresses.API+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		for n := 0; n < len(header); n += 2 {
			request.Header.Set(header[n], header[n+1])
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer, string(body)
	}
	host := strings.TrimPrefix(strings.TrimSpace(url), "http://")
	type view struct {
		RequestID       string  `json:"requestId"`
		ClientRequestID *string `json:"clientRequestId"`
		Path            string  `json:"path"`
	}
	first, _ := call(host, "/first")
	rows := []struct{ given, want string }{
		{"", ""}, {"order-4711", "order-4711"}, {first.Header.Get("X-Request-Id"), first.Header.Get("X-Request-Id")}, {"not visible", ""}, {strings.Repeat("x", 129), ""},
	}
	for n, row := range rows {
		path := fmt.Sprintf("/identified/%d", n)
		var header []string
		if row.given != "" {
			header = []string{"X-Request-Id", row.given}
		}
		answer, _ := call(host, path, header...)
		id := answer.Header.Get("X-Request-Id")
		if id == "" || id == row.given || id == first.Header.Get("X-Request-Id") {
			t.Fatalf("asked as %q: the answer has the id %q", row.given, id)
		}
		eventually(t, func() error {
			found, body := call("", "/v1/deployments/"+name+"/request-logs/"+id, "Authorization", "Bearer "+key)
			var v view
			if err := json.Unmarshal([]byte(body), &v); err != nil || found.StatusCode != http.StatusOK {
				return fmt.Errorf("%s: %d %s", id, found.StatusCode, body)
			}
			if got := v.ClientRequestID; v.RequestID != id || v.Path != path || (got == nil) != (row.want == "") || got != nil && *got != row.want {
				t.Errorf("asked as %q: %s", row.given, body)
			}
			return nil
		})
	}
	if found, body := call("", "/v1/deployments/"+name+"/request-logs/order-4711", "Authorization", "Bearer "+key); found.StatusCode != http.StatusNotFound {
		t.Errorf("by the caller's id: %d %s", found.StatusCode, body)
	}
}

func text(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What another account sees of a deployment is what it sees of one that does not exist.
func TestDeploymentsOfAnotherAccount(t *testing.T) {
	t.Parallel()
	i := dev(t)
	desk(t, i)
	must(t, i.dir, "projects", "create", "desk")
	url := must(t, i.dir, "deploy", "desk", "--project", "desk", "--branch", "main")
	name, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), ".")
	theirs := read[struct{ Key string }](t, i, "", "accounts", "create", "northwind")
	for _, args := range [][]string{
		{"deployments", "get"}, {"deployments", "builds"}, {"deployments", "log"}, {"deployments", "redeploy"}, {"deployments", "delete", "--yes"},
	} {
		var said []string
		for _, of := range []string{name, strings.Replace(name, "desk-", "desc-", 1)} {
			code, stdout, stderr := i.as(t, theirs.Key, "", append(args, of)...)
			said = append(said, fmt.Sprint(code, stdout, strings.ReplaceAll(stderr, of, "NAME")))
		}
		if said[0] != said[1] || !strings.HasPrefix(said[0], "1") || !strings.Contains(said[0], "404 NOT_FOUND") {
			t.Errorf("%v:\n%s\nand of one that does not exist:\n%s", args, said[0], said[1])
		}
	}
	code, _, stderr := i.as(t, theirs.Key, "", "deploy", "desk", "--project", "desk", "--branch", "main", "--account", "default")
	if code != 1 || !strings.Contains(stderr, "has no project desk") {
		t.Errorf("deploy into it: %d\n%s", code, stderr)
	}
	i.becomes(t, url, "/greeting", http.StatusOK, "Good morning!\n")
	if status, _ := i.ask(t, url, "/healthz", ""); status != http.StatusNotFound {
		t.Errorf("Waybill's own paths answer there: %d", status)
	}
}

// The build of an upload that was accepted goes on, whoever waits for it.
func TestDeployWaitsNoLonger(t *testing.T) {
	t.Parallel()
	i := dev(t)
	desk(t, i)
	must(t, i.dir, "projects", "create", "desk")
	c := prepare(t, i.dir, nil, "waybill", "deploy", "desk", "--project", "desk", "--branch", "main", "--timeout", "1ns")
	if code := c.finish(t); code != 1 || !strings.Contains(c.err.String(), "the build has not ended within 1ns\n  The build goes on. See what became of it: ") {
		t.Errorf("exit code %d\n%s", code, &c.err)
	}
	eventually(t, func() error {
		list := must(t, i.dir, "deployments", "list", "desk")
		if !strings.Contains(list, "STARTED") {
			return errors.New(list)
		}
		return nil
	})
	i.stop(t, syscall.SIGTERM)
	code, _, stderr := waybill(t, i.dir, "deploy", "desk", "--project", "desk", "--branch", "main", "--server", i.addresses.API, "--key", strings.Repeat("k", 40))
	if code != 1 || !strings.Contains(stderr, "no answer from "+i.addresses.API) {
		t.Errorf("without an installation: %d\n%s", code, stderr)
	}
}
