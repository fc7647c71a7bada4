package e2e_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/stack"
	"waybill.dev/shared/domain"
)

const noSecretLeaves = "no secret leaves"

// secrets makes every kind of secret in every way, uses and misuses them, and then searches
// all that the processes have told and keep.
func secrets(w *world) {
	v := &vault{world: w, secrets: map[string]string{
		w.stack.Key:         "the bootstrap key",
		stack.EncryptionKey: "the encryption key",
		base64.StdEncoding.EncodeToString([]byte(stack.EncryptionKey)): "the encryption key in base64",
	}}
	v.reveal(http.MethodPost, "/v1/accounts", `{"name":"second"}`)
	v.ask(http.MethodPost, "/v1/projects", `{"name":"shop"}`)
	retrievable := v.keys("kept-bucket", true)
	key := v.keys("loose-bucket", false)
	hook, ids := v.webhooks()
	v.authenticated()
	unused := v.certified()
	v.use(key, ids)
	v.misuse(retrievable, hook)
	v.misuse(key, hook)
	v.read(hook)
	v.console(hook, unused)
	v.models(hook)
	v.search(hook, ids)
}

// madeKey is a key of the caller's own making.
func (v *vault) madeKey(what string) string {
	body := hex.EncodeToString(domain.NewSecretBytes(16))
	key := fmt.Sprintf("wbk_%s_%08x", body, crc32.ChecksumIEEE([]byte(body)))
	v.secrets[key] = what
	return key
}

// keys makes keys in every way that there is, and returns one that publishes.
func (v *vault) keys(name string, retrievable bool) string {
	v.Helper()
	const post, get = http.MethodPost, http.MethodGet
	imported := func() string { return fmt.Sprintf(`{"key":%q}`, v.madeKey("imported into "+name)) }
	v.ask(post, bucketsOfDefault, fmt.Sprintf(`{"name":%q,"isRetrievable":%t}`, name, retrievable))
	consumers := bucketsOfDefault + "/" + name + "/consumers"
	_, shown := v.reveal(post, consumers+"?with-api-key=true", `{"name":"one","scopes":["events:write"]}`)
	v.reveal(post, consumers, `{"name":"two","apiKeys":[{},`+imported()+`]}`)
	keys := consumers + "/two/keys"
	v.reveal(post, keys, `{}`)
	v.reveal(post, keys, imported())
	v.reveal(post, keys+"/$bulk", `[{},`+imported()+`]`)
	last, _ := v.reveal(post, keys, `{"description":"changes"}`)
	one := keys + "/" + v.idOf(last)
	v.ask(http.MethodPatch, one, imported())
	for _, body := range []string{`{"expiresOn":"2099-01-01T00:00:00Z"}`, ``} {
		if retrievable {
			v.ask(post, consumers+"/two/roll-key", body)
			v.reveal(get, keys+"?key-format=visible", "")
		} else {
			v.reveal(post, consumers+"/two/roll-key", body)
			v.refused(v.api, get, keys+"?key-format=visible", "", nil)
		}
	}
	for _, format := range []string{"none", "masked"} {
		query := "key-format=" + format
		v.ask(get, keys+"?"+query, "")
		v.ask(get, one+"?"+query, "")
		v.ask(get, consumers+"?include-api-keys=true&include-managers=true&"+query, "")
		v.ask(get, consumers+"/two?include-api-keys=true&"+query, "")
	}
	v.ask(http.MethodDelete, one, "")
	return shown[0]
}

const bucketsOfDefault = "/v1/accounts/default/key-buckets"

// webhooks registers one that takes everything and one that fails, has both get events,
// and rotates. It returns an id of a webhook and those of the events.
func (v *vault) webhooks() (hook string, ids []string) {
	given := string(domain.NewSecret())
	header := func() string {
		value := "Basic " + base64.RawStdEncoding.EncodeToString(domain.NewSecretBytes(36))
		v.secrets[strings.TrimPrefix(value, "Basic ")] = "value of a header"
		return value
	}
	good, first := v.register("good", func(h *client.Webhook) {
		h.Headers = map[string]string{"Authorization": header(), "X-Tenant-Token": header()}
	})
	bad, second := v.register("bad", func(h *client.Webhook) {
		h.Secret, h.Headers, h.RetryScheduleSeconds = given, map[string]string{"X-Tenant-Token": header()}, []float64{0.05}
	})
	bad.Behave(answerWith(http.StatusInternalServerError))
	v.secrets[given], v.secrets[first.Secret] = "given to a webhook", "made for a webhook"
	// The first answer to this is kept, too.
	v.reveal(http.MethodPost, "/v1/webhooks", fmt.Sprintf(`{"url":%q,"events":["shipment.exception"],"headers":{"X-Other":%q}}`, good.URL, header()))
	ids = v.publish(3)
	v.arrived(good, ids)
	for _, id := range ids {
		v.delivery(second.ID, id, "failed")
	}
	v.ask(http.MethodPatch, "/v1/webhooks/"+first.ID, fmt.Sprintf(`{"headers":{"Authorization":%q}}`, header()))
	for _, hook := range []client.Webhook{first, second} {
		v.reveal(http.MethodPost, "/v1/webhooks/"+hook.ID+"/rotate-secret", `{"overlapSeconds":3600}`)
		v.ask(http.MethodPost, "/v1/webhooks/"+hook.ID+"/test", `{}`)
	}
	after := v.publish(1)
	v.arrived(good, after)
	v.delivery(second.ID, after[0], "failed")
	return first.ID, slices.Concat(ids, after)
}

// authenticated has webhooks that prove who they are, reach the receiver or not, and are changed.
func (v *vault) authenticated() {
	v.Helper()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	v.Cleanup(receiver.Close)
	made := func(what string) string {
		text := hex.EncodeToString(domain.NewSecretBytes(20))
		v.secrets[text] = what
		return text
	}
	for _, auth := range []func() string{
		func() string {
			password := made("a password")
			v.secrets[base64.StdEncoding.EncodeToString([]byte("receiver:"+password))] = "a password in its header"
			return fmt.Sprintf(`{"type":"basic","username":"receiver","password":%q}`, password)
		},
		func() string { return fmt.Sprintf(`{"type":"bearer","token":%q}`, made("a token")) },
		func() string { // the receiver answers with no token
			return fmt.Sprintf(`{"type":"oauth2","tokenUrl":%q,"clientId":"client","clientSecret":%q}`, receiver.URL, made("a client's secret"))
		},
	} {
		a, _ := v.reveal(http.MethodPost, "/v1/webhooks", fmt.Sprintf(`{"url":%q,"events":["shipment.exception","waybill.webhook.failing"],"signing":"both","retryScheduleSeconds":[0.05],"auth":%s}`, receiver.URL, auth()))
		path := "/v1/webhooks/" + v.idOf(a)
		v.ask(http.MethodPost, path+"/test", `{}`)
		v.ask(http.MethodPatch, path, `{"auth":`+auth()+`}`)
		v.ask(http.MethodPost, path+"/test", `{}`)
		for _, below := range []string{"", "/health", "/feed", "/cursors"} {
			v.ask(http.MethodGet, path+below, "")
		}
		broken := strings.Replace(auth(), `"type":"`, `"type":"no-`, 1)
		v.refused(v.api, http.MethodPatch, path, `{"auth":`+broken+`}`, nil)
	}
}

// use has a key open something, and keys that are none.
func (v *vault) use(key string, ids []string) {
	v.Helper()
	publisher := v.api.As(key)
	again := v.do(publisher, http.MethodPost, "/v1/events", string(event{ID: ids[0], Type: domain.ShipmentCreated, Timestamp: "2026-11-16T13:04:11+01:00", Data: `{"shipmentId":"again"}`}.body()), nil)
	if again.Status != http.StatusAccepted {
		v.Errorf("a key of the store publishes: %d %s", again.Status, again.Body)
	}
	v.note(again)
	v.refused(publisher, http.MethodDelete, bucketsOfDefault+"/kept-bucket", "", nil)
	unknown := v.madeKey("a key of nobody")
	for _, wrong := range []string{unknown, key + "0", key[:len(key)-1] + "x", strings.ToUpper(key), v.stack.Key + "x"} {
		v.refused(v.api.As(wrong), http.MethodGet, "/v1/webhooks", "", nil)
		v.refused(v.api.As(""), http.MethodGet, "/v1/webhooks", "", http.Header{"X-Api-Key": {wrong}})
		v.refused(v.api.As(""), http.MethodGet, "/v1/webhooks", "", http.Header{"Authorization": {wrong}})
	}
	v.refused(v.api.As(""), http.MethodGet, "/v1/webhooks?key="+key, "", nil)
}

// misuse puts a key, the bootstrap key, a webhook's secret and a header's value where they
// do not belong.
func (v *vault) misuse(key, hook string) {
	v.Helper()
	const post, get, patch = http.MethodPost, http.MethodGet, http.MethodPatch
	keys := bucketsOfDefault + "/kept-bucket/consumers/two/keys"
	used := []string{key, v.stack.Key}
	for secret, what := range v.secrets {
		if strings.HasPrefix(what, "given") || strings.HasPrefix(what, "value") {
			used = append(used, secret)
		}
	}
	for _, secret := range used {
		for _, m := range v.mistakes(hook, keys) {
			v.mistake(m, secret)
		}
		// What can be told for a secret by its form is not even told as a part of the path.
		if strings.HasPrefix(secret, "wbk_") || strings.HasPrefix(secret, "whsec_") {
			for _, m := range []mistake{
				{get, "/v1/webhooks/%s", ``},
				{get, "/%s/no/route", ``},
				{patch, bucketsOfDefault + "/%s", `{}`},
				{http.MethodDelete, keys + "/%s", ``},
				{post, "/v1/webhooks", `{%q:1}`},
				{get, "/v1/webhooks?%s=1", ``},
			} {
				v.mistake(m, secret)
			}
		}
	}
	// One that is in use is not taken again.
	v.refused(v.api, post, keys, fmt.Sprintf(`{"key":%q}`, key), nil)
}

// read reads all that can be.
func (v *vault) read(hook string) {
	v.Helper()
	for _, path := range []string{
		"/v1/webhooks", "/v1/webhooks/" + hook, "/v1/events", "/v1/deliveries?limit=1000", "/v1/rejected", "/v1/accounts", "/v1/who-am-i",
		"/v1/accounts/default/projects", "/v1/jobs", "/v1/signing-keys", "/v1/statistics", "/v1/events?source=waybill", "/v1/webhooks/" + hook + "/feed",
		"/v1/webhooks/" + hook + "/health", "/.well-known/waybill/default/jwks.json", bucketsOfDefault, bucketsOfDefault + "/kept-bucket", "/openapi", "/readyz",
	} {
		v.ask(http.MethodGet, path, "")
	}
	for offset, more := 0, true; more; offset += 100 {
		a := v.ask(http.MethodGet, fmt.Sprintf("/v1/accounts/default/audit-logs?limit=100&offset=%d", offset), "")
		more = bytes.Contains(a.Body, []byte(`"action"`))
	}
	err := v.api.Deliveries(v.Context(), nil, func(d client.Delivery) { v.ask(http.MethodGet, "/v1/deliveries/"+d.ID, "") })
	if err != nil {
		v.Error(err)
	}
}

// search looks for every secret in everything; first for what is there, so that it is
// known to find what it looks for.
func (v *vault) search(hook string, ids []string) {
	v.Helper()
	for place, known := range map[string][]string{
		"database": {hook, ids[0], "kept-bucket", "create-consumer"},
		"bus":      {ids[0], ids[len(ids)-1]},
		"log of":   {"/v1/webhooks/{id}"},
		"metrics":  {"waybill_webhooks", "/v1/webhooks/{id}"},
		"traces":   {"waybill.batch", "waybill.attempt"},
		"answers":  {"create-consumer", "****", "INVALID_INPUT", hook, "client certificate", `"jsonrpc":"2.0"`, "waybill://openapi"},
	} {
		for _, text := range known {
			v.await(text+" in the "+place, patience, func() bool {
				for name, found := range v.leftovers() {
					if strings.HasPrefix(name, place) && bytes.Contains(found, []byte(text)) {
						return true
					}
				}
				return false
			})
		}
	}
	for secret, what := range v.secrets {
		if !has([]byte("x"+secret+"x"), secret) {
			v.Errorf("a secret %s would not be found", what)
		}
	}
	for name, found := range v.leftovers() {
		if len(found) == 0 && strings.HasPrefix(name, "log") {
			v.Errorf("%s is empty", name)
		}
		for secret, what := range v.secrets {
			if has(found, secret) {
				v.Errorf("%s: a secret %s is in it", name, what)
			}
		}
	}
	v.Logf("%d secrets, %d places", len(v.secrets), len(v.leftovers()))
}

// mistake is a request with a secret, for which the verb of a format stands.
type mistake struct{ method, path, body string }

func (v *vault) mistake(m mistake, secret string) {
	v.Helper()
	if strings.Contains(m.path, "%") {
		m.path = fmt.Sprintf(m.path, strings.NewReplacer("+", "%2B", "=", "%3D", "/", "%2F").Replace(secret))
	} else {
		m.body = fmt.Sprintf(m.body, secret)
	}
	v.refused(v.api, m.method, m.path, m.body, nil)
}

func (v *vault) mistakes(hook, keys string) []mistake {
	const post, get = http.MethodPost, http.MethodGet
	return []mistake{
		{post, "/v1/webhooks", `{"url":%q,"events":["shipment.created"]}`},
		{post, "/v1/webhooks", `{"url":"ftp://%[1]s@h.example/","events":[%[1]q]}`},
		{post, "/v1/webhooks", `{"secret":"x%s","url":7}`},
		{post, "/v1/webhooks", `{"events":["shipment.created"],"url":"https://h.example/","headers":{"Host":%q}}`},
		{post, "/v1/webhooks", `{"events":["shipment.created"],"url":"https://h.example/","headers":{"X-A":"a\n%s"}}`},
		{post, "/v1/webhooks", `{"headers":[%q],"active":%[1]q,"timeoutSeconds":%[1]q}`},
		{http.MethodPatch, "/v1/webhooks/" + hook, `{"ratePerSecond":%q,"x":%[1]q}`},
		{post, "/v1/webhooks/" + hook + "/rotate-secret", `{"overlapSeconds":%q,"secret":%[1]q}`},
		{post, "/v1/webhooks/" + hook + "/replay", `{"since":%q}`},
		{post, "/v1/events", `{"type":%q,"timestamp":%[1]q,"data":{"shipmentId":7},"key":%[1]q}`},
		{post, "/v1/events", `{"key":"%s`},
		{post, "/v1/events", `%s`},
		{post, bucketsOfDefault, `{"name":"A %s"}`},
		{post, bucketsOfDefault, `{"name":"new-bucket","isRetrievable":%q,"key":%[1]q}`},
		{post, bucketsOfDefault + "/kept-bucket/consumers", `{"name":"new","scopes":[%q],"metadata":%[1]q,"apiKeys":[%[1]q]}`},
		{post, keys, `{"key":"%s!","expiresOn":%[1]q}`},
		{post, keys + "/$bulk", `[{"key":"%s!"},{"description":{"a":%[1]q}}]`},
		{get, "/v1/webhooks?limit=%s", ``},
		{get, "/v1/deliveries?status=%s", ``},
		{get, "/v1/events?type=%[1]s&since=%[1]s&cursor=%[1]s", ``},
		{get, keys + "?key-format=%s", ``},
		{get, bucketsOfDefault + "?offset=%s", ``},
		{post, "/v1/accounts", `{"name":"A %s"}`},
	}
}
