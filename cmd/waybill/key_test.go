package main_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// thief is a server that would like to be shown a key.
type thief struct {
	*httptest.Server

	mu    sync.Mutex
	asked int
	shown []string
}

func newThief(t *testing.T) *thief {
	t.Helper()
	th := &thief{}
	th.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		th.mu.Lock()
		defer th.mu.Unlock()
		th.asked++
		for _, name := range []string{"Authorization", "X-API-Key", "Cookie"} {
			if value := r.Header.Get(name); value != "" {
				th.shown = append(th.shown, r.Method+" "+r.URL.Path+": "+value)
			}
		}
		_, _ = w.Write([]byte(`{"account":"default","events":[{"id":"e"}],"id":"w","data":[]}`))
	}))
	t.Cleanup(th.Close)
	return th
}

// saw returns what the thief was shown, and forgets it.
func (th *thief) saw() (asked int, shown []string) {
	th.mu.Lock()
	defer th.mu.Unlock()
	asked, shown = th.asked, th.shown
	th.asked, th.shown = 0, nil
	return asked, shown
}

const canary = "wbk_canary-0123456789-0123456789-0123456789"

// plant leaves a data directory in a folder, as a download might bring one.
func plant(t *testing.T, api string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	data := filepath.Join(dir, ".waybill")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{"api": api, "receiver": api})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "addresses.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// commands are calls of the API, each made in its own way.
func commands() [][]string {
	return [][]string{
		{"webhooks", "list"}, {"webhooks", "create", "https://example.com"}, {"buckets", "list"}, {"whoami"}, {"trigger", "shipment.created"},
		{"mcp", "inspect"}, {"deliveries", "explain", "d"}, {"accounts", "recover", "default"}, {"__complete", "webhooks", "get", ""},
	}
}

// A key that is named with a flag or variable goes to the server that is named, or to the
// default one: never to an address that lay in the current folder.
func TestANamedKeyIsNotSentToAnAddressInTheFolder(t *testing.T) {
	t.Parallel()
	th := newThief(t)
	dir := plant(t, th.URL)
	for _, args := range commands() {
		for _, variable := range []string{"WAYBILL_KEY", "WAYBILL_ADMIN_KEY"} {
			prepare(t, dir, []string{variable + "=" + canary}, "waybill", args...).finish(t)
			if _, shown := th.saw(); len(shown) > 0 {
				t.Errorf("%s with %v: the thief was shown %v", variable, args, shown)
			}
		}
		if args[0] == "__complete" {
			continue
		}
		waybill(t, dir, append(args, "--key", canary)...)
		if _, shown := th.saw(); len(shown) > 0 {
			t.Errorf("--key with %v: the thief was shown %v", args, shown)
		}
	}
	c := prepare(t, dir, []string{"WAYBILL_KEY=" + canary, "WAYBILL_URL=" + th.URL}, "waybill", "webhooks", "list")
	if code := c.finish(t); code != 2 || !strings.Contains(c.err.String(), "WAYBILL_URL is no longer read") {
		t.Errorf("with the variable of before: %d %s", code, &c.err)
	}
	if _, shown := th.saw(); len(shown) > 0 {
		t.Errorf("WAYBILL_URL: the thief was shown %v", shown)
	}
}

// The key in a data directory is for the installation that runs there.
func TestTheStoredKeyStaysWithItsInstallation(t *testing.T) {
	t.Parallel()
	th := newThief(t)
	i := dev(t)
	for _, args := range commands() {
		if args[0] == "__complete" {
			continue
		}
		code, stdout, stderr := waybill(t, i.dir, append(args, "--server", th.URL)...)
		if code != 1 || stdout != "" || !strings.Contains(stderr, "no API key for "+th.URL) || !strings.Contains(stderr, "belongs to "+i.addresses.API) {
			t.Errorf("%v for another server: %d\n%s%s", args, code, stdout, stderr)
		}
	}
	waybill(t, i.dir, "mcp", "inspect", th.URL)
	prepare(t, i.dir, []string{"WAYBILL_KEY=" + canary}, "waybill", "mcp", "inspect", th.URL).finish(t)
	if _, shown := th.saw(); len(shown) > 0 {
		t.Errorf("the thief was shown %v", shown)
	}

	// A webhook's URL is a webhook's URL.
	hook := read[struct{ ID string }](t, i, "", "webhooks", "create", i.addresses.Receiver+"/in/a")
	changed := read[struct{ URL string }](t, i, "", "webhooks", "update", hook.ID, "--url", th.URL)
	if asked, shown := th.saw(); changed.URL != th.URL || asked > 0 {
		t.Errorf("update --url %s makes it %s; the thief was asked %d times and shown %v", th.URL, changed.URL, asked, shown)
	}
	if list := must(t, i.dir, "webhooks", "list", "--server", i.addresses.API); !strings.Contains(list, th.URL) {
		t.Errorf("its own server, named:\n%s", list)
	}

	// Others may have written there.
	for _, file := range []string{"", "addresses.json"} {
		name := filepath.Join(i.dir, ".waybill", file)
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, 0o777); err != nil {
			t.Fatal(err)
		}
		if code, stdout, stderr := waybill(t, i.dir, "webhooks", "list"); code != 1 || stdout != "" || !strings.Contains(stderr, "is not trusted") {
			t.Errorf("%s with mode 0777: %d\n%s%s", name, code, stdout, stderr)
		}
		if err := os.Chmod(name, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
	must(t, i.dir, "webhooks", "list")
}

// Who is refused is told which key it was.
func TestARefusalNamesWhereTheKeyCameFrom(t *testing.T) {
	t.Parallel()
	i := dev(t)
	wrong := strings.Repeat("w", 40)
	for from, run := range map[string]func() *command{
		"the flag --key": func() *command {
			return prepare(t, t.TempDir(), nil, "waybill", "webhooks", "list", "--server", i.addresses.API, "--key", wrong)
		},
		"the variable WAYBILL_KEY": func() *command {
			return prepare(t, t.TempDir(), []string{"WAYBILL_SERVER=" + i.addresses.API, "WAYBILL_KEY=" + wrong}, "waybill", "webhooks", "list")
		},
		"the variable WAYBILL_ADMIN_KEY": func() *command {
			return prepare(t, t.TempDir(), []string{"WAYBILL_ADMIN_KEY=" + wrong}, "waybill", "webhooks", "list", "--server", i.addresses.API)
		},
		"the file .waybill/admin.key": func() *command {
			dir := plant(t, i.addresses.API)
			if err := os.WriteFile(filepath.Join(dir, ".waybill", "admin.key"), []byte(wrong), 0o600); err != nil {
				t.Fatal(err)
			}
			return prepare(t, dir, nil, "waybill", "webhooks", "list")
		},
	} {
		c := run()
		if code := c.finish(t); code != 1 || !strings.Contains(c.err.String(), "the API answers 401") || !strings.Contains(c.err.String(), "The key was taken from "+from+".") {
			t.Errorf("%s: %d %s", from, code, &c.err)
		}
		if strings.Contains(c.err.String(), wrong) {
			t.Errorf("%s: the key is in the message", from)
		}
	}
}
