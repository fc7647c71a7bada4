package backend_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/api/internal/routefile"
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
	"securitySchemes":{"mine":{"type":"http","scheme":"basic"}}},
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
	h := handler(t, "openApiSpecHandler", `{"openApiFilePath":"`+file+`"}`, e)
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
	want := `{"openapi":"3.1.0","info":{"title":"Orders","version":"1"},"servers":[{"url":"https://api.example.com"}],"paths":{` +
		`"/orders":{"summary":"Orders","post":{"operationId":"order","responses":{"201":{"description":"Made."}},` + security + `},` +
		`"get":{"operationId":"orders","security":[{"mine":[]}],"x-mine":{"x-gateway-route":1}}},` +
		`"/open":{"get":{"operationId":"open"}},"/quiet":{"get":{"operationId":"quiet"}},"/half":{"get":{"operationId":"half"}},` +
		`"/shared":{"$ref":"#/components/pathItems/shared"}},` +
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

func TestSpecFaults(t *testing.T) {
	t.Parallel()
	e := env(production())
	e.Set = published()
	for options, want := range map[string]string{
		`{}`:                               "handler/options/openApiFilePath is required",
		`{"openApiFilePath":"x.oas.json"}`: "handler/options/openApiFilePath is no route file of the folder",
		`{"openApiFilePath":"../routes.oas.json"}`: "handler/options/openApiFilePath is no route file of the folder",
		`{"openApiFilePath":"policies.json"}`:      "handler/options/openApiFilePath is no route file of the folder",
		`{"openApiFilePath":7}`:                    "handler/options/openApiFilePath must be a string",
	} {
		if got := faultsOf(t, "openApiSpecHandler", options, e); got != want {
			t.Errorf("%s: %q, want %q", options, got, want)
		}
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
