package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"waybill.dev/cmd/waybill/internal/verb"
)

// as runs waybill with a key of its own.
func (i *installation) as(t *testing.T, key, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	c := prepare(t, i.dir, []string{"WAYBILL_SERVER=" + i.addresses.API, "WAYBILL_KEY=" + key}, "waybill", args...)
	c.Stdin = strings.NewReader(stdin)
	code = c.finish(t)
	return code, c.out.String(), c.err.String()
}

// read runs waybill with a key and reads what it answers.
func read[T any](t *testing.T, i *installation, key string, args ...string) (answer T) {
	t.Helper()
	code, stdout, stderr := i.as(t, key, "", append(args, "-o", "json")...)
	if code != 0 {
		t.Fatalf("waybill %v exits with %d:\n%s%s", args, code, stdout, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil {
		t.Fatalf("waybill %v: %v\n%s", args, err, stdout)
	}
	return answer
}

type keyAnswer struct{ ID, Key, ExpiresOn string }

type listAnswer[T any] struct {
	Data  []T
	Total int
}

func TestAKeyFromItsBucketToItsEnd(t *testing.T) {
	t.Parallel()
	i := dev(t)
	must(t, i.dir, "buckets", "create", "partners", "--description", "Keys of our partners")
	must(t, i.dir, "consumers", "create", "partners", "acme", "--scope", "webhooks:read,webhooks:write,events:read,events:write")
	made := read[keyAnswer](t, i, "", "keys", "create", "partners", "acme", "--description", "CI")
	if who := read[map[string]any](t, i, made.Key, "whoami"); who["account"] != "default" || who["sub"] != "partners/acme" {
		t.Errorf("the key is %v", who)
	}

	hook := read[struct{ ID, Secret string }](t, i, made.Key, "webhooks", "create", i.addresses.Receiver+"/in/acme", "--events", "shipment.delivered")
	if !strings.HasPrefix(hook.Secret, "whsec_") {
		t.Errorf("the webhook has the secret %q", hook.Secret)
	}
	const event = `{"id":"evt_verbs","type":"shipment.delivered","data":{"shipmentId":"shp_1"}}`
	if code, stdout, stderr := i.as(t, made.Key, event, "events", "publish", "-"); code != 0 || !strings.Contains(stdout, "evt_verbs  no") {
		t.Fatalf("publish: %d\n%s%s", code, stdout, stderr)
	}
	eventually(t, func() error {
		got := read[listAnswer[map[string]any]](t, i, made.Key, "deliveries", "list", "--event", "evt_verbs", "--webhook", hook.ID)
		if len(got.Data) != 1 || got.Data[0]["status"] != "delivered" {
			return fmt.Errorf("deliveries: %v", got.Data)
		}
		return nil
	})
	if code, stdout, stderr := i.as(t, made.Key, "", "buckets", "list"); code != 1 || stdout != "" || !strings.HasPrefix(stderr, "waybill: the API answers 403 FORBIDDEN") {
		t.Errorf("buckets with a key without that scope: %d\n%s%s", code, stdout, stderr)
	}

	must(t, i.dir, "keys", "roll", "partners", "acme")
	code, stdout, stderr := i.as(t, made.Key, "", "webhooks", "list")
	if code != 1 || stdout != "" || !strings.HasPrefix(stderr, "waybill: the API answers 401 ") {
		t.Errorf("with the key of before: %d\n%s%s", code, stdout, stderr)
	}
	live := func(k keyAnswer) bool { return k.ExpiresOn == "" }
	all := read[listAnswer[keyAnswer]](t, i, "", "keys", "list", "partners", "acme", "--key-format", "visible").Data
	if n := slices.IndexFunc(all, live); len(all) != 2 || n < 0 || len(read[[]any](t, i, all[n].Key, "webhooks", "list")) != 1 {
		t.Errorf("the new key is not one of %d, or does not open", len(all))
	}
	for _, k := range read[listAnswer[keyAnswer]](t, i, "", "keys", "list", "partners", "acme").Data {
		if !strings.HasPrefix(k.Key, "****") {
			t.Error("a list shows a key in full unasked")
		}
	}

	must(t, i.dir, "buckets", "delete", "partners")
	for _, k := range all {
		if code, _, stderr := i.as(t, k.Key, "", "whoami"); code != 1 || !strings.Contains(stderr, "401") {
			t.Errorf("after its bucket is deleted a key opens: %d %s", code, stderr)
		}
		if strings.Contains(i.err.String(), k.Key) {
			t.Error("a key is in the log")
		}
	}
	audit := read[listAnswer[struct{ Action string }]](t, i, "", "audit", "list", "--success").Data
	var actions []string
	for _, entry := range audit {
		actions = append(actions, entry.Action)
	}
	if got := strings.Join(actions, " "); got != "delete-bucket roll-keys create-webhook create-key create-consumer create-bucket" {
		t.Errorf("the audit log has %s", got)
	}
}

func TestVerbsOfWebhooks(t *testing.T) {
	t.Parallel()
	i := dev(t)
	hook := read[struct{ ID, Secret string }](t, i, "", "webhooks", "create", i.addresses.Receiver+"/in/verbs", "--description", "first")
	rotated := read[struct{ Secret string }](t, i, "", "webhooks", "rotate", hook.ID, "--overlap", "1h")
	if rotated.Secret == hook.Secret || !strings.HasPrefix(rotated.Secret, "whsec_") {
		t.Error("rotating makes no new secret")
	}
	changed := read[map[string]any](t, i, "", "webhooks", "update", hook.ID, "--active=false", "--rate-per-second", "5", "--timeout", "2500ms")
	if changed["active"] != false || changed["ratePerSecond"] != 5.0 || changed["timeoutSeconds"] != 2.5 || changed["secret"] != nil {
		t.Errorf("changed to %v", changed)
	}
	test := read[struct{ DeliveryID string }](t, i, "", "webhooks", "test", hook.ID)
	eventually(t, func() error {
		got := read[struct {
			Status   string
			Attempts []struct{ Status int }
		}](t, i, "", "deliveries", "get", test.DeliveryID)
		if got.Status != "delivered" || len(got.Attempts) != 1 || got.Attempts[0].Status != http.StatusOK {
			return fmt.Errorf("delivery of the test: %+v", got)
		}
		return nil
	})
	if got := read[struct{ Matched int }](t, i, "", "webhooks", "replay", hook.ID, "--since", "1h"); got.Matched != 0 {
		t.Errorf("replay of what has failed matches %d", got.Matched)
	}
	eventually(t, func() error {
		if code, _, stderr := waybill(t, i.dir, "deliveries", "retry", test.DeliveryID); code != 0 {
			return errors.New(stderr)
		}
		return nil
	})
	list := must(t, i.dir, "webhooks", "list")
	if !strings.Contains(list, hook.ID+"  no      http://") || strings.Contains(list, "whsec_") {
		t.Errorf("listed as\n%s", list)
	}
	must(t, i.dir, "webhooks", "delete", hook.ID)
	if code, stdout, stderr := waybill(t, i.dir, "webhooks", "list"); code != 0 || stdout != "" || stderr != "There are no webhooks.\n" {
		t.Errorf("after deleting: %d\n%s%s", code, stdout, stderr)
	}
	if code, _, stderr := waybill(t, i.dir, "webhooks", "delete", hook.ID); code != 1 || !strings.HasPrefix(stderr, "waybill: the API answers 404 NOT_FOUND") {
		t.Errorf("deleting again: %d %s", code, stderr)
	}
}

func TestListsShowWhatOneLooksFor(t *testing.T) {
	t.Parallel()
	i := dev(t)
	must(t, i.dir, "receiver", "register", "--path", "/in/good")
	must(t, i.dir, "receiver", "register", "--path", "/in/bad", "--status", "503", "--events", "shipment.created")
	off := read[struct{ ID string }](t, i, "", "webhooks", "create", i.addresses.Receiver+"/in/off", "--active=false")
	_, _, notes := waybill(t, i.dir, "trigger", "shipment.created", "--id", "evt_listed")
	if want := "2 webhooks get shipment.created; held for 1 inactive one.\n"; notes != want {
		t.Errorf("notes %q, want %q", notes, want)
	}
	host := strings.TrimPrefix(i.addresses.Receiver, "http://")
	eventually(t, func() error {
		list := must(t, i.dir, "deliveries", "list", "--event", "evt_listed")
		for _, pattern := range []string{
			`ID +STATUS +CREATED +HOST +ANSWER +NEXT +TRIES +EVENT`, `delivered +\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ +` + host + ` +200 +- +1 +evt_listed`,
			`retrying +\S+ +` + host + ` +503 +\d{4}-\S+Z +1 +evt_listed`, `held +\S+ +` + host + ` +- +- +0 +evt_listed`,
		} {
			if !regexp.MustCompile(pattern).MatchString(list) {
				return fmt.Errorf("it lacks %s:\n%s", pattern, list)
			}
		}
		return nil
	})
	if list := must(t, i.dir, "webhooks", "list"); !regexp.MustCompile(off.ID+` +no +\S+ +\S+ +inactive: manual, 1 held`).MatchString(list) || !regexp.MustCompile(`shipment\.created +healthy\b`).MatchString(list) {
		t.Errorf("webhooks:\n%s", list)
	}
	// A key that may only list is shown what it may see.
	must(t, i.dir, "buckets", "create", "readers")
	made := read[struct{ APIKeys []keyAnswer }](t, i, "", "consumers", "create", "readers", "one", "--scope", "events:read", "--with-api-key")
	if code, stdout, stderr := i.as(t, made.APIKeys[0].Key, "", "deliveries", "list"); code != 0 || !strings.Contains(stdout, "503") || strings.Contains(stdout, "HOST") {
		t.Errorf("without webhooks:read: %d\n%s%s", code, stdout, stderr)
	}
	for _, row := range read[listAnswer[struct{ ID, Status string }]](t, i, "", "deliveries", "list").Data {
		told := must(t, i.dir, "deliveries", "explain", row.ID)
		if want := map[string]string{"delivered": "delivered: ", "retrying": "attempts ", "held": "inactive: "}[row.Status]; !strings.Contains(told, want) {
			t.Errorf("%s, which should say %q:\n%s", row.Status, want, told)
		}
	}
	if told := must(t, i.dir, "deliveries", "explain", "--event", "evt_none", "--webhook", off.ID); !strings.HasPrefix(told, "no such event: ") || !strings.Contains(told, "What to do:\n  - ") {
		t.Errorf("of nothing:\n%s", told)
	}
	if code, _, stderr := i.as(t, made.APIKeys[0].Key, "", "deliveries", "explain", "d"); code != 0 {
		t.Errorf("explain with the scope: %d %s", code, stderr)
	}
}

func TestVerbsOfAnotherAccount(t *testing.T) {
	t.Parallel()
	i := dev(t)
	must(t, i.dir, "webhooks", "create", i.addresses.Receiver+"/in/mine")
	must(t, i.dir, "projects", "create", "parcels")
	theirs := read[struct{ Name, Key string }](t, i, "", "accounts", "create", "northwind")
	if hooks := read[[]any](t, i, theirs.Key, "webhooks", "list"); len(hooks) != 0 {
		t.Errorf("another account sees %v", hooks)
	}
	if code, _, stderr := i.as(t, theirs.Key, "", "buckets", "list", "--account", "default"); code != 1 || !strings.Contains(stderr, "404 NOT_FOUND") {
		t.Errorf("another account's buckets: %d %s", code, stderr)
	}
	names := func(key string, args ...string) string {
		var list []string
		for _, one := range read[listAnswer[struct{ Name string }]](t, i, key, args...).Data {
			list = append(list, one.Name)
		}
		return strings.Join(list, " ")
	}
	if got := names(theirs.Key, "buckets", "list"); got != "admin" {
		t.Errorf("a new account has the buckets %s", got)
	}
	if got := names("", "buckets", "list"); got != "parcels-production parcels-preview parcels-working-copy" {
		t.Errorf("a project's buckets are %s", got)
	}
	if got := names("", "accounts", "list"); got != "default northwind" {
		t.Errorf("the accounts are %s", got)
	}
	sealed := read[struct{ IsRetrievable bool }](t, i, theirs.Key, "buckets", "create", "machines", "--retrievable=false")
	read[any](t, i, theirs.Key, "consumers", "create", "machines", "press", "--with-api-key")
	rolled := read[keyAnswer](t, i, theirs.Key, "keys", "roll", "machines", "press")
	if sealed.IsRetrievable || !strings.HasPrefix(rolled.Key, "wbk_") {
		t.Errorf("rolled to %+v in %+v", rolled, sealed)
	}
	if who := read[map[string]any](t, i, rolled.Key, "whoami"); who["account"] != "northwind" || who["sub"] != "machines/press" {
		t.Errorf("the key is %v", who)
	}
	completed := must(t, i.dir, "__complete", "buckets", "get", "")
	if completed != "parcels-production\nparcels-preview\nparcels-working-copy\n:4\n" {
		t.Errorf("completes to\n%s", completed)
	}
}

func TestEveryOperationHasAVerb(t *testing.T) {
	t.Parallel()
	i := dev(t)
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(fetch(t, i.addresses.API+"/openapi", "")), &document); err != nil {
		t.Fatal(err)
	}
	verbs := map[string]bool{
		"POST /v1/accounts/{accountName}/key-buckets/{bucketName}/consumers/{consumerName}/keys/$bulk": true, // keys create --count

		"POST /v1/accounts/{accountName}/key-buckets/{bucketName}/meters/{meterIdOrSlug}/query": true, // meters query, by GET
		"POST /v1/deployments/sources": true, // deploy
		"GET /v1/accounts/{accountName}/projects/{projectName}/deployment-status/{statusId}": true, // deploy
		"POST /v1/deployments/{deploymentName}/deploy":                                       true, // deployments redeploy
		"GET /v1/deployments/{deploymentName}/builds/{buildId}/logs":                         true, // deployments log
		"GET /v1/deployments/{deploymentName}/request-logs":                                  true, // logs
		"GET /v1/deployments/{deploymentName}/request-logs/{requestId}":                      true, // logs
		"GET /v1/webhooks/{id}/feed":                                                         true, // webhooks feed
		"GET /v1/webhooks/{id}/cursors":                                                      true, // webhooks cursor list
		"GET /v1/webhooks/{id}/cursors/{cursorName}":                                         true, // webhooks cursor get
		"PUT /v1/webhooks/{id}/cursors/{cursorName}":                                         true, // webhooks cursor set
		"DELETE /v1/webhooks/{id}/cursors/{cursorName}":                                      true, // webhooks cursor delete
	}
	for _, noun := range verb.Nouns() {
		if noun.Self != nil {
			noun.Verbs = append(noun.Verbs, *noun.Self)
		}
		for _, v := range noun.Verbs {
			path, _, _ := strings.Cut(strings.ReplaceAll(v.Path, "{account}", "{accountName}"), "?")
			verbs[v.Method+" "+path] = true
		}
	}
	operations := 0
	for path, methods := range document.Paths {
		for method := range methods {
			method = strings.ToUpper(method)
			if !strings.HasPrefix(path, "/v1/") || !slices.Contains([]string{"GET", "POST", "PATCH", "PUT", "DELETE"}, method) {
				continue
			}
			if path == "/v1/live" || path == "/v1/deployment-uploads/{sourceId}" {
				continue // for programs: a person lists what there is, and uploads in one step
			}
			operations++
			if !verbs[method+" "+path] {
				t.Errorf("no verb does %s %s", method, path)
			}
		}
	}
	if operations < len(verbs)-1 { // keys roll is a verb of consumers too
		t.Errorf("the document has %d operations for %d requests of verbs", operations, len(verbs))
	}
}
