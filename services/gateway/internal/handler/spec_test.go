package handler_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/gateway/internal/routefile"
)

const routes = `{"openapi":"3.1.0","x-gateway-x":{"secret":"hunter2"},"info":{"title":"Orders","version":"1"},
"servers":[{"url":"https://api.example.com"}],
"paths":{
	"/orders":{
		"x-gateway-path":{"pathMode":"open-api"},"summary":"Orders",
		"post":{"operationId":"order","x-gateway-route":{"handler":{"options":{"baseUrl":"http://hunter2"}}},"responses":{"201":{"description":"Made."}}},
		"get":{"x-gateway-route":{},"operationId":"orders","security":[{"mine":[]}],"x-mine":{"x-gateway-route":1}}},
	"/open":{"get":{"operationId":"open","x-gateway-route":{},"x-internal":false}},
	"/quiet":{"get":{"operationId":"quiet","x-gateway-route":{}}},
	"/half":{"get":{"operationId":"half"},"put":{"operationId":"hidden-half","x-internal":true}},
	"/hidden":{"delete":{"operationId":"hidden","x-internal":true,"x-gateway-route":{}}},
	"/shared":{"$ref":"#/components/pathItems/shared"}},
"components":{"schemas":{"Order":{"type":"object","properties":{"x-gateway-kept":{"type":"string"},"n":{"const":1.50}}}},
	"securitySchemes":{"mine":{"type":"http","scheme":"basic"}},
	"pathItems":{"shared":{"get":{"operationId":"shared","x-gateway-route":{}},"delete":{"operationId":"hidden-shared","x-internal":true}}}},
"tags":[{"name":"z"},{"name":"a"}]}`

func published() *routefile.Set {
	file := &routefile.File{Name: "routes.oas.json", Raw: []byte(routes)}
	add := func(method, path string, inbound ...string) {
		file.Operations = append(file.Operations, &routefile.Operation{File: file, Method: method, Path: path, Inbound: inbound})
	}
	add("POST", "/orders", "limit", "key")
	add("GET", "/orders", "key")
	add("GET", "/open", "limit")
	add("GET", "/quiet", "quiet")
	add("DELETE", "/hidden", "key")
	add("GET", "/shared", "key")
	key := func(name, options string) routefile.PolicyDef {
		return routefile.PolicyDef{Name: name, Type: "api-key-inbound", Options: []byte(options)}
	}
	bare := &routefile.File{Name: "bare.oas.json", Raw: []byte(`{"openapi":"3.0.3","paths":{"/a":{"get":{}},"/b":{"get":{"x-internal":true}}},"x-internal":true}`)}
	bare.Operations = []*routefile.Operation{{File: bare, Method: "GET", Path: "/b", Inbound: []string{"key"}}}
	keyed := &routefile.File{Name: "keyed.oas.json", Raw: []byte(`{"paths":{"/a":{"get":{}}}}`)}
	keyed.Operations = []*routefile.Operation{{File: keyed, Method: "GET", Path: "/a", Inbound: []string{"key"}}}
	return &routefile.Set{
		Files: []*routefile.File{file, bare, keyed},
		Policies: []routefile.PolicyDef{
			key("key", `{}`), key("quiet", `{"disableAutomaticallyAddingKeyToOpenApi":true}`), {Name: "limit", Type: "rate-limit-inbound"},
		},
	}
}

func document(t *testing.T, file string) string {
	t.Helper()
	e := env(production())
	e.Set = published()
	h := newHandler(t, "openApiSpecHandler", `{"openApiFilePath":"`+file+`"}`, e)
	response, err := h.Handle(t.Context(), call("GET", "/openapi", ""))
	if err != nil || response.Status != 200 || response.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%+v, %v", response, err)
	}
	if !json.Valid(response.Body) {
		t.Fatalf("no JSON: %s", response.Body)
	}
	return string(response.Body)
}

// The published document is the file without what is the gateway's affair, in its order and
// with its values as they are written, and says where a key is needed.
func TestSpec(t *testing.T) {
	t.Parallel()
	const security = `"security":[{"waybillBearer":[]},{"waybillKey":[]}]`
	want := `{"openapi":"3.1.0","info":{"title":"Orders","version":"1"},"paths":{` +
		`"/orders":{"summary":"Orders","post":{"operationId":"order","responses":{"201":{"description":"Made."}},` + security + `},` +
		`"get":{"operationId":"orders","security":[{"mine":[]}]}},` +
		`"/open":{"get":{"operationId":"open"}},"/quiet":{"get":{"operationId":"quiet"}},"/half":{"get":{"operationId":"half"}},` +
		`"/shared":{"get":{"operationId":"shared",` + security + `}}},` +
		`"components":{"schemas":{"Order":{"type":"object","properties":{"x-gateway-kept":{"type":"string"},"n":{"const":1.50}}}},` +
		`"securitySchemes":{"mine":{"type":"http","scheme":"basic"},"waybillBearer":{"type":"http","scheme":"bearer","description":"An API key."},` +
		`"waybillKey":{"type":"apiKey","in":"header","name":"X-API-Key","description":"An API key."}}},"tags":[{"name":"z"},{"name":"a"}]}`
	for _, name := range []string{"routes.oas.json", "./routes.oas.json", "config/routes.oas.json", "./config/routes.oas.json"} {
		if diff := cmp.Diff(want, document(t, name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff(`{"openapi":"3.0.3","paths":{"/a":{"get":{}}}}`, document(t, "bare.oas.json")); diff != "" {
		t.Errorf("only what is hidden needs a key (-want +got):\n%s", diff)
	}
	if got := document(t, "keyed.oas.json"); !strings.HasPrefix(got, `{"paths":{"/a":{"get":{`+security+`}}},"components":{"securitySchemes":{"waybillBearer":`) {
		t.Errorf("a document without components: %s", got)
	}
}

// leaky names a back end or an internal operation, hunter2, everywhere where a document can,
// and has values, keep, that look like it.
const leaky = `{"openapi":"3.1.0","info":{"title":"t","version":"1","x-hunter2":"hunter2"},
"servers":[{"url":"http://hunter2.internal"},{"url":"//hunter2"}],"x-google-backend":{"address":"hunter2"},"X-Other":"hunter2",
"tags":[{"name":"t","x-hunter2":1}],
"paths":{
	"x-hunter2":{"get":{"operationId":"hunter2"}},
	"/a":{"servers":[{"url":"http://hunter2"}],"parameters":[{"name":"p","in":"query","x-hunter2":1,"schema":{"type":"string","x-hunter2":1,"default":{"x-keep-1":1}}}],
		"get":{"operationId":"a","servers":[{"url":"http://hunter2"}],"x-amazon-apigateway-integration":{"uri":"http://hunter2"},
			"requestBody":{"x-hunter2":1,"content":{"application/json":{"x-hunter2":1,"example":{"x-keep-2":1,"servers":["x-keep-3"]},"schema":{"allOf":[{"x-hunter2":1,"const":{"x-keep-4":1}}],
				"properties":{"x-keep-5":{"enum":[{"x-keep-6":1}],"x-hunter2":1},"servers":{"type":"string","examples":[{"x-keep-7":1}]}}}}}},
			"responses":{"x-hunter2":"hunter2","default":{"description":"d","x-hunter2":1,"headers":{"x-keep-8":{"x-hunter2":1}},
				"links":{"x-keep-9":{"server":{"url":"http://hunter2"},"x-hunter2":1,"operationId":"a","parameters":{"x-keep-10":"1"}}},
				"content":{"application/json":{"examples":{"x-keep-11":{"x-hunter2":1,"value":{"x-keep-12":1}}}}}}},
			"callbacks":{"c":{"x-hunter2":1,"{$url}":{"x-hunter2":1,"servers":[{"url":"http://hunter2"}],"post":{"x-hunter2":1},"put":{"x-internal":true,"operationId":"hunter2"}},"{$other}":{"$ref":"#/components/pathItems/hunter2"}}}}},
	"/b":{"$ref":"#/components/pathItems/b"},
	"/hunter2-1":{"x-internal":true,"$ref":"#/components/pathItems/hunter2"},
	"/hunter2-2":{"$ref":"#/components/pathItems/hunter2-chain"},
	"/hunter2-3":{"$ref":"#/components/pathItems/hunter2"},
	"/c":{"$ref":"#/paths/~1b"}},
"webhooks":{"w":{"post":{"x-hunter2":1}},"hunter2":{"x-internal":true,"post":{}},"v":{"$ref":"#/components/pathItems/b"}},
"components":{"x-hunter2":1,"pathItems":{
		"b":{"servers":[{"url":"http://hunter2"}],"get":{"operationId":"b","x-gateway-route":{"handler":{"options":{"baseUrl":"http://hunter2"}}}},"put":{"operationId":"hunter2","x-internal":true}},
		"hunter2":{"x-internal":true,"get":{"operationId":"hunter2"}},"hunter2-chain":{"$ref":"#/components/pathItems/hunter2"},
		"hunter2-unused":{"get":{"operationId":"hunter2"}}},
	"callbacks":{"x-keep-13":{"{$url}":{"get":{"x-hunter2":1,"x-internal":false},"put":{"x-internal":true,"operationId":"hunter2"}}}},
	"links":{"x-keep-14":{"server":{"url":"http://hunter2"}}},
	"schemas":{"x-keep-15":{"x-hunter2":1,"$defs":{"x-keep-16":{"x-hunter2":1}},"discriminator":{"propertyName":"x","mapping":{"x-keep-17":"x"}}}},
	"parameters":{"x-keep-18":{"x-hunter2":1}},"headers":{"x-keep-19":{"x-hunter2":1}},"responses":{"x-keep-20":{"x-hunter2":1,"description":""}},
	"securitySchemes":{"x-keep-21":{"type":"oauth2","x-hunter2":1,"flows":{"implicit":{"x-hunter2":1,"scopes":{"x-keep-22":""}}}}}}}`

// Nothing of back ends and of internal operations is published, wherever it stands, and
// nothing else is lost.
func TestSpecTellsNothing(t *testing.T) {
	t.Parallel()
	file := &routefile.File{Name: "leaky.oas.json", Raw: []byte(leaky)}
	e := env(production())
	e.Set = &routefile.Set{Files: []*routefile.File{file}}
	h := newHandler(t, "openApiSpecHandler", `{"openApiFilePath":"leaky.oas.json","servers":["https://api.example.com","/v1"]}`, e)
	response, err := h.Handle(t.Context(), call("GET", "/openapi", ""))
	if err != nil || !json.Valid(response.Body) {
		t.Fatalf("%v, %s", err, response.Body)
	}
	got := string(response.Body)
	for rest := got; ; {
		_, after, found := strings.Cut(rest, "hunter2")
		if !found {
			break
		}
		t.Errorf("it tells of hunter2, before %.60s", after)
		rest = after
	}
	for i := 1; i <= 22; i++ {
		if name := fmt.Sprintf("x-keep-%d", i); strings.Count(got, `"`+name+`"`) != 1 {
			t.Errorf("%s is lost", name)
		}
	}
	for _, want := range []string{
		`"servers":[{"url":"https://api.example.com"},{"url":"/v1"}]`, `"/b":{"get":{"operationId":"b"}}`, `"/c":{"get":{"operationId":"b"}}`, `"v":{"get":{"operationId":"b"}}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in it", want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

func TestSpecFaults(t *testing.T) {
	t.Parallel()
	e := env(production())
	e.Set = published()
	for options, want := range map[string]string{
		`{}`:                               "handler/options/openApiFilePath is required",
		`{"openApiFilePath":"x.oas.json"}`: "handler/options/openApiFilePath is not a route file in the folder",
		`{"openApiFilePath":"../routes.oas.json"}`: "handler/options/openApiFilePath is not a route file in the folder",
		`{"openApiFilePath":"policies.json"}`:      "handler/options/openApiFilePath is not a route file in the folder",
		`{"openApiFilePath":7}`:                    "handler/options/openApiFilePath must be a string",
	} {
		if got := faultsOf(t, "openApiSpecHandler", options, e); got != want {
			t.Errorf("%s: %q, want %q", options, got, want)
		}
	}
	for servers, want := range map[string]string{
		`["ftp://x"]`: "handler/options/servers/0 must be an http or https URL, or a path that begins with a slash",
		`"/"`:         "handler/options/servers must be an array",
	} {
		if got := faultsOf(t, "openApiSpecHandler", `{"openApiFilePath":"bare.oas.json","servers":`+servers+`}`, e); got != want {
			t.Errorf("servers %s: %q, want %q", servers, got, want)
		}
	}
	e.Set.Files[0].Raw = []byte(`{"paths":{"/a":{"get":{"requestBody":{"$ref":"#/paths/~1b/get/requestBody"}}},"/b":{"get":{"x-internal":true,"requestBody":{}}}}}`)
	if got := faultsOf(t, "openApiSpecHandler", `{"openApiFilePath":"routes.oas.json"}`, e); got != "handler/options/openApiFilePath refers to #/paths/~1b/get/requestBody, which is left out of the published document" {
		t.Errorf("a reference into what is left out: %q", got)
	}
	e.Set.Files[0].Raw = []byte("{")
	if got := faultsOf(t, "openApiSpecHandler", `{"openApiFilePath":"routes.oas.json"}`, e); got != "handler/options/openApiFilePath can't be read" {
		t.Errorf("a file that is no JSON: %q", got)
	}
	e.Set.Files[0].Raw = []byte(`{"info":"` + strings.Repeat("x", 1<<20) + `"}`)
	if got := faultsOf(t, "openApiSpecHandler", `{"openApiFilePath":"routes.oas.json"}`, e); got != "handler/options/openApiFilePath is longer than 1048576 bytes" {
		t.Errorf("a file that is too long: %q", got)
	}
}
