package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What people do every day with ids: nobody cuts them out of tables.
func TestIDsAreSimpleToGetAndToGive(t *testing.T) {
	t.Parallel()
	i := dev(t)
	var ids []string
	for range 2 {
		id := must(t, i.dir, "webhooks", "create", i.addresses.Receiver+"/a", "-o", "id")
		ids = append(ids, strings.TrimSpace(id))
	}
	if list := must(t, i.dir, "webhooks", "list", "-o", "id"); list != strings.Join(ids, "\n")+"\n" {
		t.Errorf("the ids are %q, want %q", list, ids)
	}
	if got := must(t, i.dir, "webhooks", "list", "-o", "json", "--jq", ".[] | .id"); got != strings.Join(ids, "\n")+"\n" {
		t.Errorf("by jq they are %q", got)
	}
	if got := must(t, i.dir, "webhooks", "list", "--jq", "length, (.[0] | {active})"); got != "2\n{\"active\":true}\n" {
		t.Errorf("by jq without -o: %q", got)
	}
	for args, want := range map[string]string{
		"webhooks list --jq .[":         "waybill: --jq can't be read: ",
		"webhooks list -o id --jq .":    "waybill: --jq is for -o json",
		"webhooks list -o yaml":         "must be table, json or id",
		"version -o id":                 "must be table or json",
		"webhooks list --context there": "waybill: there is no context there: ",
	} {
		if code, stdout, stderr := waybill(t, i.dir, strings.Fields(args)...); code != 2 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d\n%s%s", args, code, stdout, stderr)
		}
	}
	if code, _, stderr := waybill(t, i.dir, "webhooks", "list", "--jq", ".[0].id.x"); code != 1 || !strings.Contains(stderr, "waybill: --jq: ") {
		t.Errorf("a query that fails: %d %s", code, stderr)
	}

	i.beginnings(t, ids)

	id := strings.TrimSpace(must(t, i.dir, "trigger", "shipment.created", "-o", "id"))
	if page := must(t, i.dir, "events", "get", id, "--web"); page != i.addresses.API+"/console/events/"+id+"\n" {
		t.Errorf("its page is %q", page)
	}
	eventually(t, func() error {
		if got := must(t, i.dir, "deliveries", "list", "--event", id, "--jq", "[.data[] | select(.status == \"delivered\")] | length"); got != "2\n" {
			return fmt.Errorf("%q deliveries are delivered", got)
		}
		return nil
	})
	i.follows(t, id)
	i.lessOfIDs(t, ids[1], id)
}

// lessOfIDs gives as much of ids as lists on a terminal show.
func (i *installation) lessOfIDs(t *testing.T, webhook, event string) {
	t.Helper()
	delivery := strings.TrimSpace(must(t, i.dir, "deliveries", "list", "--event", event, "--webhook", webhook, "-o", "id"))
	some := webhook[:len(webhook)-6] // the other one may have been made in the same millisecond
	for args, want := range map[string]string{
		"deliveries list --event " + event + " --webhook " + some + " -o id":                delivery + "\n",
		"deliveries get " + delivery[:13] + " -o id":                                        delivery + "\n",
		"deliveries get " + delivery[:13] + " --web":                                        i.addresses.API + "/console/deliveries/" + delivery + "\n",
		"deliveries explain " + delivery[:13] + " --jq .verdict":                            "delivered\n",
		"deliveries explain --event " + event + " --webhook " + some + " --jq .delivery.id": delivery + "\n",
		"statistics --by webhook --webhook " + some + " --jq .data[0].webhookId":            webhook + "\n",
		"deliveries retry-all --status all --dry-run --webhook " + some + " --jq .matched":  "1\n",
		"webhooks feed " + some + " --jq .id":                                               event + "\n",
		"webhooks get " + some + " --jq .id":                                                webhook + "\n",
	} {
		if got := must(t, i.dir, strings.Fields(args)...); got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
	pages := must(t, i.dir, "deliveries", "list", "--event", event, "--limit", "1", "--all", "-o", "id")
	if whole := must(t, i.dir, "deliveries", "list", "--event", event, "-o", "id"); pages != whole || strings.Count(whole, "\n") != 2 {
		t.Errorf("page by page: %q, in one: %q", pages, whole)
	}
	if got := must(t, i.dir, "deliveries", "retry", delivery[:13], "-o", "id"); got != delivery+"\n" {
		t.Errorf("retried: %q, want %q", got, delivery)
	}
}

// beginnings gives the beginnings of ids where ids are wanted.
func (i *installation) beginnings(t *testing.T, ids []string) {
	t.Helper()
	common := 0
	for common < len(ids[0]) && ids[0][common] == ids[1][common] {
		common++
	}
	short := ids[1][:max(common+1, 4)]
	if got := must(t, i.dir, "webhooks", "get", short, "-o", "id"); got != ids[1]+"\n" {
		t.Errorf("%s is of %q, want %s", short, got, ids[1])
	}
	if common >= 4 {
		if code, _, stderr := waybill(t, i.dir, "webhooks", "get", ids[0][:common]); code != 1 && code != 2 || !strings.Contains(stderr, "is the beginning of 2 ids: ") {
			t.Errorf("the beginning of both: %d %s", code, stderr)
		}
	}
	if code, _, stderr := waybill(t, i.dir, "webhooks", "get", "nothing"); code != 1 || !strings.Contains(stderr, "404 NOT_FOUND") {
		t.Errorf("the beginning of none: %d %s", code, stderr)
	}
	must(t, i.dir, "webhooks", "update", short, "--description", "the second")
	if got := must(t, i.dir, "webhooks", "list", "--jq", ".[].description"); got != "null\nthe second\n" && got != "\nthe second\n" {
		t.Errorf("the descriptions are %q", got)
	}
}

// follows reads deliveries as they come, until it is interrupted.
func (i *installation) follows(t *testing.T, event string) {
	t.Helper()
	c := prepare(t, i.dir, nil, "waybill", "deliveries", "list", "--event", event, "--follow", "--jq", `.status + " " + .eventId`)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	want := "delivered " + event + "\n"
	eventually(t, func() error {
		if got := c.out.String(); got != want+want {
			return fmt.Errorf("followed, it shows %q", got)
		}
		return nil
	})
	c.stop(t, syscall.SIGINT)
	if got := c.out.String(); got != want+want {
		t.Errorf("at the end it has shown %q", got)
	}
}

// A context is an installation with its key, which goes there and nowhere else.
func TestContexts(t *testing.T) {
	t.Parallel()
	i, other := dev(t), dev(t)
	file := filepath.Join(t.TempDir(), "private", "contexts.json")
	in := func(code int, args ...string) (string, string) {
		t.Helper()
		c := prepare(t, i.dir, []string{"WAYBILL_CONTEXTS=" + file}, "waybill", args...)
		if got := c.finish(t); got != code {
			t.Errorf("%v: exit code %d\n%s%s", args, got, &c.out, &c.err)
		}
		return c.out.String(), c.err.String()
	}
	key, err := os.ReadFile(filepath.Join(other.dir, ".waybill", "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	secret := strings.TrimSpace(string(key))
	must(t, other.dir, "projects", "create", "theirs")
	if _, stderr := in(0, "context", "add", "other", "--server", other.addresses.API, "--key", secret); !strings.Contains(stderr, "in use") {
		t.Errorf("adding says %q", stderr)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info.Mode(), err)
	}
	list, _ := in(0, "context", "list")
	if list != "* other  "+other.addresses.API+"\n" {
		t.Errorf("listed as %q", list)
	}
	all, _ := in(0, "context", "list", "-o", "json")
	var lines []struct {
		Name    string
		Current bool
	}
	if err := json.Unmarshal([]byte(all), &lines); err != nil || len(lines) != 1 || !lines[0].Current || strings.Contains(all+list, secret) {
		t.Errorf("as JSON: %s (%v)", all, err)
	}
	if got, _ := in(0, "projects", "list", "--jq", ".data[].name"); got != "theirs\n" {
		t.Errorf("in the context there are %q", got)
	}
	if got, _ := in(0, "projects", "list", "--jq", ".data[].name", "--data", ".waybill"); got != "" {
		t.Errorf("here there are %q", got)
	}
	in(0, "context", "use", "none")
	if got, _ := in(0, "projects", "list", "--jq", ".data[].name"); got != "" {
		t.Errorf("without a context there are %q", got)
	}
	if got, _ := in(0, "projects", "list", "--jq", ".data[].name", "--context", "other"); got != "theirs\n" {
		t.Errorf("with --context there are %q", got)
	}
	in(2, "projects", "list", "--context", "other", "--server", i.addresses.API)
	in(2, "context", "use", "nowhere")
	in(0, "context", "remove", "other")
	if _, stderr := in(2, "projects", "list", "--context", "other"); !strings.Contains(stderr, "there is no context other") {
		t.Errorf("after its end: %s", stderr)
	}
}

func TestRollback(t *testing.T) {
	t.Parallel()
	i := dev(t)
	dir := desk(t, i)
	must(t, i.dir, "projects", "create", "desk")
	url := must(t, i.dir, "deploy", "desk", "--project", "desk", "--branch", "main")
	name, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), ".")
	if code, _, stderr := waybill(t, i.dir, "deployments", "rollback", name); code != 1 || !strings.Contains(stderr, "no good build before") {
		t.Errorf("from the first: %d %s", code, stderr)
	}
	change(t, filepath.Join(dir, "desk.oas.json"), "Good morning!", "Good evening!")
	must(t, i.dir, "deploy", "desk", "--project", "desk", "--branch", "main")
	i.becomes(t, url, "/greeting", 200, "Good evening!\n")
	must(t, i.dir, "deployments", "rollback", name)
	i.becomes(t, url, "/greeting", 200, "Good morning!\n")
	builds := strings.Fields(must(t, i.dir, "deployments", "builds", name, "-o", "id"))
	second := builds[len(builds)-2]
	if must(t, i.dir, "deployments", "log", name, second[:30]) != must(t, i.dir, "deployments", "log", name, second) {
		t.Error("the log of a build is not found by the beginning of its id")
	}
	must(t, i.dir, "deployments", "redeploy", name, "--build", second[:30])
	i.becomes(t, url, "/greeting", 200, "Good evening!\n")
	if code, _, stderr := waybill(t, i.dir, "deployments", "rollback", name, "77"); code != 1 || !strings.Contains(stderr, "has no good build 77") {
		t.Errorf("to a build that is not there: %d %s", code, stderr)
	}
}
