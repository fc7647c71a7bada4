package api_test

import (
	"html"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/receiverauth/receiverauthtest"
)

var (
	formKey = regexp.MustCompile(`name="key" value="([0-9a-f]{64})"`)
	seen    = regexp.MustCompile(`name="seen" value="([^"]+)"`)
	secrets = regexp.MustCompile(`whsec_[A-Za-z0-9+/]{40,}=*`)
)

// find returns what a pattern captures on a page.
func (p shown) find(t *testing.T, pattern *regexp.Regexp) string {
	t.Helper()
	found := pattern.FindStringSubmatch(html.UnescapeString(p.body)) // a secret may have a +
	if found == nil {
		t.Fatalf("the page has nothing like %s:\n%.3000s", pattern, p.body)
	}
	return found[len(found)-1]
}

// A webhook is made in steps, and its secret is in the one answer that follows the form.
func TestConsoleNewWebhook(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		b := r.browser().signIn(adminKey)
		b.get("/console/webhooks").want(t, http.StatusOK, "").has(t, "No webhooks yet", "waybill webhooks create")
		b.post("/console/webhooks/new/address", "url", "ftp://example.com").want(t, http.StatusBadRequest, "").has(t, "aria-invalid", `value="ftp://example.com"`)
		b.post("/console/webhooks/new/address", "url", "http://127.0.0.1:1/hook").want(t, http.StatusSeeOther, "/console/webhooks/new?step=types&url=http%3A%2F%2F127.0.0.1%3A1%2Fhook")
		if list := r.do(http.MethodGet, "/v1/webhooks", "").want(http.StatusOK); string(list.body) != "[]" {
			t.Fatalf("the question whether an address is allowed has made a webhook: %s", list.body)
		}
		step := b.get("/console/webhooks/new?step=types&url=http%3A%2F%2F127.0.0.1%3A1%2Fhook").want(t, http.StatusOK, "").has(t, "shipment.exception")
		key := step.find(t, formKey)
		form := url.Values{"key": {key}, "url": {"http://127.0.0.1:1/hook"}, "maxInFlight": {"many"}}
		b.do(http.MethodPost, "/console/webhooks/new", form).want(t, http.StatusBadRequest, "").has(t, "field-fault")
		form.Set("maxInFlight", "7")
		form.Set("events", "shipment.created")
		form.Set("headers", "X-Api-Token: canary-value\n")
		made := b.do(http.MethodPost, "/console/webhooks/new", form).want(t, http.StatusOK, "").has(t, "shown this one time", "WEBHOOK_SECRET")
		secret := made.find(t, secrets)
		if made.header.Get("Cache-Control") != "no-store" || strings.Contains(made.header.Get("Set-Cookie"), secret) {
			t.Errorf("the secret may be kept: %v", made.header)
		}
		var list []struct {
			ID          string   `json:"id"`
			MaxInFlight int      `json:"maxInFlight"`
			HeaderNames []string `json:"headerNames"`
		}
		r.do(http.MethodGet, "/v1/webhooks", "").want(http.StatusOK).into(&list)
		if len(list) != 1 || list[0].MaxInFlight != 7 || len(list[0].HeaderNames) != 1 {
			t.Fatalf("there are %+v", list)
		}
		// The page loaded anew sends the form again: no second webhook, and the secret is not shown.
		id := list[0].ID
		again := b.do(http.MethodPost, "/console/webhooks/new", form).want(t, http.StatusSeeOther, "/console/webhooks/"+id+"/secret")
		pages := []string{again.body}
		for _, path := range []string{"/console/webhooks/new", "", "/health", "/deliveries", "/feed", "/settings", "/secret", "/test", "/code", "/replay", "/delete"} {
			if !strings.HasPrefix(path, "/console") {
				path = "/console/webhooks/" + id + path
			}
			pages = append(pages, b.get(path).want(t, http.StatusOK, "").body)
		}
		shown := strings.Join(pages, "\n")
		r.do(http.MethodGet, "/v1/webhooks", "").want(http.StatusOK).into(&list)
		if len(list) != 1 {
			t.Errorf("the form made %d webhooks", len(list))
		}
		if strings.Contains(html.UnescapeString(shown), secret) || strings.Contains(shown, "canary-value") || strings.Contains(r.logs.String(), secret) {
			t.Error("a secret is shown a second time")
		}
	})
}

// A webhook whose receiver reads the feed needs no address. Its cursors are shown, and can be deleted
// by those who may change it.
func TestConsoleFeed(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		b := r.browser().signIn(adminKey)
		b.get("/console/webhooks/new").want(t, http.StatusOK, "").has(t, "step=types&amp;delivery=pull")
		step := b.get("/console/webhooks/new?step=types&delivery=pull").want(t, http.StatusOK, "").has(t, "Nothing is sent", `name="delivery" value="pull"`)
		form := url.Values{"key": {step.find(t, formKey)}, "url": {""}, "delivery": {"pull"}}
		b.do(http.MethodPost, "/console/webhooks/new", form).want(t, http.StatusBadRequest, "").has(t, "field-fault", `name="delivery" value="pull"`)
		form.Set("events", "shipment.created")
		b.do(http.MethodPost, "/console/webhooks/new", form).want(t, http.StatusOK, "").has(t, "feed</a> can be read now")
		var list []struct {
			ID       string `json:"id"`
			Delivery string `json:"delivery"`
		}
		r.do(http.MethodGet, "/v1/webhooks", "").want(http.StatusOK).into(&list)
		if len(list) != 1 || list[0].Delivery != "pull" {
			t.Fatalf("there are %+v", list)
		}
		one := "/console/webhooks/" + list[0].ID
		b.get("/console/webhooks").want(t, http.StatusOK, "").has(t, "Feed "+list[0].ID)
		b.get(one+"/test").want(t, http.StatusOK, "").has(t, "can't be tested")
		b.get(one+"/code").want(t, http.StatusOK, "").has(t, "waybill webhooks create \\\n", "--delivery pull")
		b.get(one+"/feed").want(t, http.StatusOK, "").has(t, "No cursor has a name yet", "webhooks reconcile")
		var feed struct {
			Cursor string `json:"cursor"`
		}
		r.do(http.MethodGet, "/v1/webhooks/"+list[0].ID+"/feed", "").want(http.StatusOK).into(&feed)
		r.do(http.MethodPut, "/v1/webhooks/"+list[0].ID+"/cursors/warehouse", `{"cursor":"`+feed.Cursor+`"}`).want(http.StatusOK)
		b.get(one+"/feed").want(t, http.StatusOK, "").has(t, feed.Cursor, one+"/cursors/warehouse/delete")
		b.get(one+"/cursors/warehouse/delete").want(t, http.StatusOK, "").has(t, "Delete this cursor?")
		b.post(one+"/cursors/warehouse/delete").want(t, http.StatusSeeOther, one+"/feed")
		b.get(one+"/feed").want(t, http.StatusOK, "").has(t, "No cursor has a name yet")
		b.get(one+"/cursors/warehouse/delete").want(t, http.StatusNotFound, "")
		b.post(one+"/settings", "delivery", "push", "url", "").want(t, http.StatusBadRequest, "").has(t, "field-fault")
		b.post(one+"/settings", "delivery", "push", "url", "http://127.0.0.1:1/hook", "events", "shipment.created").want(t, http.StatusSeeOther, one+"/settings")
		b.get(one+"/settings").want(t, http.StatusOK, "").has(t, `<option value="push" selected>`)
	})
}

func TestConsoleRotation(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	b := r.browser().signIn(adminKey)
	registered := r.register(`{"url":"http://127.0.0.1:1/hook","events":["shipment.created"]}`)
	at := "/console/webhooks/" + registered.text("id") + "/secret"
	form := url.Values{"seen": {b.get(at).find(t, seen)}, "overlapSeconds": {"3600"}}
	rotated := b.do(http.MethodPost, at, form).want(t, http.StatusOK, "").has(t, "<wb-countdown>", "Go", "Python", "JavaScript", "Ruby", "PHP", "Java")
	secret := rotated.find(t, secrets)
	if secret == registered.text("secret") {
		t.Error("the page shows the old secret")
	}
	b.do(http.MethodPost, at, form).want(t, http.StatusSeeOther, at) // loaded anew: it is not rotated again
	page := b.get(at).want(t, http.StatusOK, "").has(t, "Both secrets sign")
	if strings.Contains(html.UnescapeString(page.body), secret) {
		t.Error("the page of the form shows the secret")
	}
	// The API says whether there is an overlap, not the address.
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	never := "/console/webhooks/" + r.register(plainWebhook).text("id") + "/secret"
	if p := b.get(never + "?until=" + until); strings.Contains(p.body, "Both secrets sign") {
		t.Error("a webhook that was never rotated has an overlap by the address of its page")
	}
	r.do(http.MethodPost, "/v1/webhooks/"+strings.Split(never, "/")[3]+"/rotate-secret", "").want(http.StatusOK)
	b.get(never).want(t, http.StatusOK, "").has(t, "Both secrets sign")
	b.do(http.MethodPost, at, url.Values{"overlapSeconds": {"604801"}}).want(t, http.StatusBadRequest, "").has(t, "Rotate the secret")
}

func TestConsoleWebhookSettings(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	b := r.browser().signIn(adminKey)
	id := r.register(`{"url":"http://127.0.0.1:1/hook","events":["shipment.created"],"headers":{"X-Api-Token":"canary"},"ratePerSecond":5}`).text("id")
	at, api := "/console/webhooks/"+id, "/v1/webhooks/"+id
	hostile := "<script>alert(1)</script>\u202e\u0007"
	form := url.Values{
		"url": {"http://127.0.0.1:1/hook"}, "description": {hostile}, "events": {"shipment.created", "shipment.exception"},
		"retryScheduleSeconds": {"1, 2.5,3"}, "timeoutSeconds": {"4.5"}, "maxInFlight": {"9"}, "ratePerSecond": {""},
	}
	b.do(http.MethodPost, at+"/settings", form).want(t, http.StatusSeeOther, at+"/settings")
	var w struct {
		Events               []string  `json:"events"`
		RetryScheduleSeconds []float64 `json:"retryScheduleSeconds"`
		TimeoutSeconds       float64   `json:"timeoutSeconds"`
		RatePerSecond        *float64  `json:"ratePerSecond"`
		HeaderNames          []string  `json:"headerNames"`
		Active               bool      `json:"active"`
	}
	r.do(http.MethodGet, api, "").want(http.StatusOK).into(&w)
	if len(w.Events) != 2 || len(w.RetryScheduleSeconds) != 3 || w.RetryScheduleSeconds[1] != 2.5 || w.TimeoutSeconds != 4.5 || w.RatePerSecond != nil || len(w.HeaderNames) != 1 {
		t.Errorf("the settings are %+v", w)
	}
	for _, path := range []string{"/console/webhooks", at, at + "/test"} {
		if p := b.get(path); strings.Contains(p.body, "<script>alert") || strings.ContainsAny(p.body, "\u202e\u0007") {
			t.Errorf("%s has hostile text as it is", path)
		}
	}
	form.Set("url", "http://127.0.0.1:2/hook") // another server: the headers must be given anew
	b.do(http.MethodPost, at+"/settings", form).want(t, http.StatusBadRequest, "").has(t, "must be given again")
	form.Set("dropHeaders", "on")
	b.do(http.MethodPost, at+"/settings", form).want(t, http.StatusSeeOther, at+"/settings")
	b.post(at+"/pause").want(t, http.StatusSeeOther, at)
	r.do(http.MethodGet, api, "").want(http.StatusOK).into(&w)
	if w.Active || len(w.HeaderNames) != 0 {
		t.Errorf("the webhook is %+v", w)
	}
	b.get(at).want(t, http.StatusOK, "").has(t, "inactive: paused", "Activate")
	b.post(at+"/activate").want(t, http.StatusSeeOther, at)
	b.get(at+"/delete").want(t, http.StatusOK, "").has(t, id, "127.0.0.1:2")
	r.do(http.MethodGet, api, "").want(http.StatusOK)
	b.post(at+"/delete").want(t, http.StatusSeeOther, "/console/webhooks")
	b.get(at).want(t, http.StatusNotFound, "")
}

// A replay says what it would do before it does it, and a test is watched.
func TestConsoleReplayAndTest(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	b := r.browser().signIn(adminKey)
	id := r.register(`{"url":"http://127.0.0.1:1/hook","events":["shipment.created"]}`).text("id")
	at := "/console/webhooks/" + id
	r.insist(http.MethodPost, "/v1/events", event("evt_replayed")).want(http.StatusAccepted)
	r.deliver(id, "evt_replayed", domain.StatusFailed, "scheduleExhausted")
	b.get(at+"/replay").want(t, http.StatusOK, "").has(t, "Show what would be sent")
	preview := b.get(at+"/replay?range=1h&status=failed").want(t, http.StatusOK, "").has(t, "Send 1 deliveries again")
	if jobs := r.do(http.MethodGet, "/v1/jobs", "").want(http.StatusOK); !strings.Contains(string(jobs.body), `"data":[]`) {
		t.Errorf("the preview has sent something: %s", jobs.body)
	}
	form := url.Values{}
	for _, name := range []string{"since", "until", "status"} {
		form.Set(name, preview.find(t, regexp.MustCompile(`type="hidden" name="`+name+`" value="([^"]+)"`)))
	}
	if p := b.do(http.MethodPost, at+"/replay", form); p.status != http.StatusSeeOther {
		t.Errorf("the replay answered %d: %.600s", p.status, p.body)
	}
	if jobs := r.do(http.MethodGet, "/v1/jobs", "").want(http.StatusOK); !strings.Contains(string(jobs.body), `"matched":1`) {
		t.Errorf("there is no job: %s", jobs.body)
	}
	b.get(at+"/replay?range=&since=nonsense").want(t, http.StatusBadRequest, "").has(t, "field-fault")
	b.post(at+"/test", "type", "shipment.delivered", "data", `{"note":"<mine>"}`).want(t, http.StatusBadRequest, "").has(t, "shipmentId", "&lt;mine&gt;")
	own := b.post(at+"/test", "type", "shipment.delivered", "data", `{"shipmentId":"shp_own"}`)
	b.get(own.header.Get("Location")).want(t, http.StatusOK, "").has(t, "This test")
	sent := b.post(at+"/test", "type", "shipment.delivered")
	if sent.status != http.StatusSeeOther || !strings.HasPrefix(sent.header.Get("Location"), at+"/test?delivery=") {
		t.Fatalf("the test answered %d to %s", sent.status, sent.header.Get("Location"))
	}
	b.get(sent.header.Get("Location")).want(t, http.StatusOK, "").has(t, "This test", "pending", "On its way")
}

func TestConsoleCatalogue(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	b := r.browser().signIn(adminKey)
	r.register(`{"url":"http://127.0.0.1:1/hook","events":["shipment.delivered"]}`)
	b.get("/console/catalogue").want(t, http.StatusOK, "").has(t, "shipment.exception", "Something stops the shipment.")
	at := "/console/catalogue/shipment.delivered"
	b.get(at).want(t, http.StatusOK, "").has(t, "proofOfDelivery", "ShipmentID string", "class ShipmentDelivered", "127.0.0.1:1/hook")
	b.get("/console/catalogue/shipment.lost").want(t, http.StatusNotFound, "")
	b.post(at+"/publish", "event", `{"type":"shipment.delivered","data":{}}`).want(t, http.StatusBadRequest, "").has(t, "/data/shipmentId")
	b.post(at+"/publish", "event", `{"type"`).want(t, http.StatusBadRequest, "").has(t, "must be JSON")
	b.post(at+"/publish", "event", `{"id":"evt_catalogued","type":"shipment.delivered","data":{"shipmentId":"s","n":12345678901234567890}}`).want(t, http.StatusSeeOther, at)
	if e := r.do(http.MethodGet, "/v1/events/evt_catalogued", "").want(http.StatusOK); !strings.Contains(string(e.body), "12345678901234567890") {
		t.Errorf("the event has lost digits: %s", e.body)
	}
}

// What is wrong with a rejected message is said, and it can be published corrected.
func TestConsoleRejected(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	b := r.browser().signIn(adminKey)
	eventually(t, "the stream is there", func() bool { return b.get("/console/rejected").status == http.StatusOK })
	b.get("/console/rejected").want(t, http.StatusOK, "").has(t, "Nothing was rejected")
	conn, err := nats.Connect(r.nats.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	m := nats.NewMsg("rejected.default")
	m.Data = []byte(`{"type":"shipment.created","data":{"note":"` + "<script>alert(1)</script>\u202e" + `"}}`)
	m.Header.Set(bus.HeaderReason, "/data/shipmentId must be there")
	m.Header.Set(bus.HeaderSubject, "events.default.shipment.created")
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	p := b.get("/console/rejected").want(t, http.StatusOK, "").has(t, "must be there")
	at := p.find(t, regexp.MustCompile(`href="(/console/rejected/message[^"]+)"`))
	one := b.get(at).want(t, http.StatusOK, "").has(t, `\u202e`, "Correct and publish")
	text := regexp.MustCompile(`data-text="[^"]*"`).ReplaceAllString(p.body+one.body, "") // what is copied is as it came
	if strings.Contains(text, "\u202e") || strings.Contains(text, "<script>alert") {
		t.Error("hostile text is shown as it is")
	}
	b.post(at, "event", `{"type":"shipment.created","data":{}}`).want(t, http.StatusBadRequest, "").has(t, "/data/shipmentId")
	b.post(at, "event", `{"id":"evt_corrected","type":"shipment.created","data":{"shipmentId":"s"}}`)
	r.do(http.MethodGet, "/v1/events/evt_corrected", "").want(http.StatusOK)
	b.get("/console/rejected/message?time=2020-01-01T00:00:00.000Z").want(t, http.StatusOK, "").has(t, "Not here any more")
}

// The public keys are there to be copied, and a rotation is asked about before it is made.
func TestConsoleSigningKeys(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	b := r.browser().signIn(adminKey)
	id := r.register(`{"url":"http://127.0.0.1:1/hook","events":["shipment.created"]}`).text("id")
	settings := "/console/webhooks/" + id + "/settings"
	b.do(http.MethodPost, settings, url.Values{"signing": {"both"}, "events": {"shipment.created"}}).want(t, http.StatusSeeOther, settings)
	r.do(http.MethodGet, "/v1/webhooks/"+id, "").want(http.StatusOK).field("signing", "both")
	code := b.get("/console/webhooks/"+id+"/code").want(t, http.StatusOK, "").has(t, "--signing both").has(t, "WEBHOOK_SECRET")
	receivers, err := os.ReadFile("../../docs/receivers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(receivers), "### With a public key\n")
	for _, language := range []string{"go", "python", "js", "ruby", "php", "java"} {
		_, snippet, _ := strings.Cut(section, "```"+language+"\n")
		snippet, _, _ = strings.Cut(snippet, "\n```")
		if snippet == "" || !strings.Contains(html.UnescapeString(code.body), snippet) {
			t.Errorf("a webhook that signs with v1a is not shown the %s of docs/receivers.md", language)
		}
	}
	first := r.do(http.MethodGet, signingKeysPath, "").keys()
	const page = "/console/signing-keys"
	listed := b.get(page).want(t, http.StatusOK, "").has(t, first.JWKSURL, "Make a new key")
	if !strings.Contains(html.UnescapeString(listed.body), first.Data[0].PublicKey) { // a key may have a +
		t.Errorf("the page has not the key %s:\n%.3000s", first.Data[0].PublicKey, listed.body)
	}
	b.get(page+"/rotate?overlapSeconds=3600").want(t, http.StatusOK, "").has(t, "1 hour", `value="3600"`)
	if now := r.do(http.MethodGet, signingKeysPath, "").keys(); len(now.Data) != 1 {
		t.Error("the question has rotated")
	}
	b.do(http.MethodPost, page+"/rotate", url.Values{"overlapSeconds": {"604801"}}).want(t, http.StatusBadRequest, "")
	b.do(http.MethodPost, page+"/rotate", url.Values{"overlapSeconds": {"3600"}}).want(t, http.StatusSeeOther, page)
	b.get(page).want(t, http.StatusOK, "").has(t, "In its overlap", "<wb-countdown>")
	if now := r.do(http.MethodGet, signingKeysPath, "").keys(); len(now.Data) != 2 {
		t.Errorf("keys: %+v", now)
	}
	_, key := r.holder(r.bucket("lookers"), "looker", domain.ScopeWebhooksRead)
	looker := r.browser().signIn(key)
	if p := looker.get(page).want(t, http.StatusOK, "").has(t, "takes the scope"); strings.Contains(p.body, "Make a new key") {
		t.Error("who may not rotate is offered it")
	}
}

// What a form says about authentication is sent, and shown by no page, not even by the form that
// has a fault.
func TestConsoleWebhookAuth(t *testing.T) {
	t.Parallel()
	authority := receiverauthtest.New(t)
	certificate, key := authority.Issue(t, "shop-at-receiver", time.Now().Add(time.Hour))
	r := newRig(t, sqliteURL(t))
	b := r.browser().signIn(adminKey)
	step := b.get("/console/webhooks/new?step=types&url=https%3A%2F%2Fhooks.example.com%2F").want(t, http.StatusOK, "").has(t, `name="auth/type"`, "auth/clientSecret")
	form := url.Values{
		"key": {step.find(t, formKey)}, "url": {"https://hooks.example.com/"}, "events": {"shipment.created"},
		"auth/type": {"basic"}, "auth/username": {"has:colon"}, "auth/password": {"canary-password"}, "auth/token": {"canary-token"},
	}
	wrong := b.do(http.MethodPost, "/console/webhooks/new", form).want(t, http.StatusBadRequest, "").has(t, "must not have a colon", "has:colon")
	pages := []string{wrong.body}
	form.Set("auth/username", "me")
	b.do(http.MethodPost, "/console/webhooks/new", form).want(t, http.StatusOK, "")
	var list []struct {
		ID string `json:"id"`
	}
	r.do(http.MethodGet, "/v1/webhooks", "").want(http.StatusOK).into(&list)
	if len(list) != 1 {
		t.Fatalf("there are %+v", list)
	}
	id := list[0].ID
	if of := r.keptAuth(id); of == nil || of.Username != "me" || of.Password != "canary-password" || of.Token != "" {
		t.Error("the form's authentication is not the webhook's")
	}
	at := "/console/webhooks/" + id
	pages = append(pages, b.get(at).has(t, "user name and password").body, b.get(at+"/settings").has(t, "Authentication now", "Remove it").body, b.get(at+"/code").has(t, "--auth-file").body)
	// A change of other fields leaves it as it is.
	settings := url.Values{"url": {"https://hooks.example.com/"}, "events": {"shipment.created"}, "description": {"d"}, "auth/type": {""}}
	b.do(http.MethodPost, at+"/settings", settings).want(t, http.StatusSeeOther, at+"/settings")
	if of := r.keptAuth(id); of == nil || of.Username != "me" {
		t.Error("it was changed by a form that leaves it as it is")
	}
	settings.Set("url", "https://other.example.com/")
	b.do(http.MethodPost, at+"/settings", settings).want(t, http.StatusBadRequest, "").has(t, "must be given again")
	settings.Set("auth/type", "mtls")
	settings.Set("auth/certificate", certificate)
	settings.Set("auth/privateKey", key)
	b.do(http.MethodPost, at+"/settings", settings).want(t, http.StatusSeeOther, at+"/settings")
	pages = append(pages, b.get(at).has(t, "shop-at-receiver", "client certificate").body, b.get(at+"/settings").has(t, "shop-at-receiver").body)
	for _, page := range pages {
		if strings.Contains(page, "canary") || strings.Contains(page, "PRIVATE KEY") {
			t.Error("a page shows a secret")
		}
	}
	settings.Set("auth/type", "none")
	b.do(http.MethodPost, at+"/settings", settings).want(t, http.StatusSeeOther, at+"/settings")
	if r.keptAuth(id) != nil || strings.Contains(b.get(at).body, "client certificate") {
		t.Error("it was not removed")
	}
}
