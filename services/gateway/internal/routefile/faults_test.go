package routefile_test

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/gateway/internal/routefile"
)

const at = "a.oas.json: x: /paths/~1x/get"

// Each rule, with the whole of what is said when it is broken.
func TestFaults(t *testing.T) {
	t.Parallel()
	id := `"operationId":"x"`
	handler := func(text string) string {
		return `"/x":{"get":{` + id + `,"x-gateway-route":{"handler":` + text + `}}}`
	}
	parameters := func(text string) string { return get("/x", id+`,"parameters":[`+text+`]`) }
	for name, tc := range map[string]struct {
		paths string
		want  []string
	}{
		"unknown member of the route":   {with("/x", id, `"polices":{}`), []string{at + "/x-gateway-route/polices: is not a known member"}},
		"unknown member of the handler": {handler(`{"module":"$import(@gateway/runtime)","export":"x","option":{}}`), []string{at + "/x-gateway-route/handler/option: is not a known member"}},
		"unknown member of policies":    {with("/x", id, `"policies":{"in":[]}`), []string{at + "/x-gateway-route/policies/in: is not a known member"}},
		"unknown member of mcp":         {with("/x", id, `"mcp":{"url":"x"}`), []string{at + "/x-gateway-route/mcp/url: is not a known member"}},
		"unknown member of the path":    {`"/x":{"x-gateway-path":{"mode":"open-api"},"get":{` + id + `,` + route + `}}`, []string{"a.oas.json: /paths/~1x/x-gateway-path/mode: is not a known member"}},
		"unknown path mode":             {`"/x":{"x-gateway-path":{"pathMode":"regex"}}`, []string{"a.oas.json: /paths/~1x/x-gateway-path/pathMode: must be open-api or url-pattern"}},
		"path extension is no object":   {`"/x":{"x-gateway-path":"url-pattern"}`, []string{"a.oas.json: /paths/~1x/x-gateway-path: must be an object"}},
		"route is no object":            {`"/x":{"get":{` + id + `,"x-gateway-route":null}}`, []string{at + "/x-gateway-route: must be an object"}},
		"no handler":                    {`"/x":{"get":{"x-gateway-route":{}}}`, []string{"a.oas.json: GET /x: /paths/~1x/get/x-gateway-route/handler: is required"}},
		"nothing in the handler":        {handler(`{}`), []string{at + "/x-gateway-route/handler/export: is required", at + "/x-gateway-route/handler/module: is required"}},
		"unknown module":                {handler(`{"module":"@gateway/runtime","export":"x"}`), []string{at + "/x-gateway-route/handler/module: must be $import(@gateway/runtime) or $import(./modules/NAME)"}},
		"module that climbs":            {handler(`{"module":"$import(./modules/../x)","export":"x"}`), []string{at + "/x-gateway-route/handler/module: must be $import(@gateway/runtime) or $import(./modules/NAME)"}},
		"options are no object":         {handler(`{"module":"$import(@gateway/runtime)","export":"x","options":[]}`), []string{at + "/x-gateway-route/handler/options: must be an object"}},
		"variable that is not set":      {handler(`{"module":"$import(@gateway/runtime)","export":"x","options":{"a":["$env(NONE)"],"b":"$env(HOST) $env(NEITHER)"}}`), []string{at + "/x-gateway-route/handler/options/a/0: the environment has no NONE", at + "/x-gateway-route/handler/options/b: the environment has no NEITHER"}},
		"variable without a name":       {handler(`{"module":"$import(@gateway/runtime)","export":"x","options":{"a":"$env()"}}`), []string{at + "/x-gateway-route/handler/options/a: $env(…) needs the name of a variable"}},
		"variable without an end":       {handler(`{"module":"$import(@gateway/runtime)","export":"x","options":{"a":"$env(HOST"}}`), []string{at + "/x-gateway-route/handler/options/a: $env(…) needs the name of a variable"}},
		"variable that is no text":      {handler(`{"module":"$import(@gateway/runtime)","export":"x","options":{"a":"$env(BAD)"}}`), []string{at + "/x-gateway-route/handler/options/a: the variable that is named here is no valid text"}},
		"unknown policies":              {with("/x", id, `"policies":{"inbound":["a","b"],"outbound":["c"]}`), []string{at + "/x-gateway-route/policies/inbound: there is no policy a: the files define none", at + "/x-gateway-route/policies/inbound: there is no policy b: the files define none", at + "/x-gateway-route/policies/outbound: there is no policy c: the files define none"}},
		"policies that are no texts":    {with("/x", id, `"policies":{"inbound":[1]}`), []string{at + "/x-gateway-route/policies/inbound/0: must be a string"}},
		"unknown CORS policy":           {with("/x", id, `"corsPolicy":"pages"`), []string{at + "/x-gateway-route/corsPolicy: there is no CORS policy pages"}},
		"timeouts":                      {with("/x", id, `"timeoutSeconds":61`) + "," + with("/y", `"operationId":"y"`, `"timeoutSeconds":0.5`), []string{at + "/x-gateway-route/timeoutSeconds: must be from 1 to 60", "a.oas.json: y: /paths/~1y/get/x-gateway-route/timeoutSeconds: must be from 1 to 60"}},
		"x-internal":                    {get("/x", id+`,"x-internal":"yes"`), []string{at + "/x-internal: must be true or false"}},
		"operationId is no text":        {get("/x", `"operationId":7`), []string{"a.oas.json: GET /x: /paths/~1x/get/operationId: must be a text of 1 to 200 characters"}},
		"operationId twice":             {get("/x", id) + `,"/y":{"put":{` + id + `,` + route + `}}`, []string{"a.oas.json: x: /paths/~1y/put/operationId: GET /x and PUT /y have the same operationId"}},
		"operation is no object":        {`"/x":{"get":[]}`, []string{"a.oas.json: GET /x: /paths/~1x/get: must be an object"}},
		"path item is no object":        {`"/x":7`, []string{"a.oas.json: /paths/~1x: must be an object"}},
		"path item leads nowhere":       {`"/x":{"$ref":"other.json"}`, []string{"a.oas.json: /paths/~1x: other.json leads nowhere in this file"}},
		"path item leads in a circle":   {`"/x":{"$ref":"#/paths/~1y"},"/y":{"$ref":"#/paths/~1x"}`, []string{"a.oas.json: /paths/~1x: #/paths/~1x leads nowhere in this file", "a.oas.json: /paths/~1y: #/paths/~1y leads nowhere in this file"}},
		"path without a slash":          {get("x", id), []string{"a.oas.json: /paths/x: a path begins with /"}},
		"path with a query":             {get("/x?a=b", id), []string{"a.oas.json: /paths/~1x?a=b: a path has no ?"}},
		"path that climbs":              {get("/x/../y", id), []string{"a.oas.json: /paths/~1x~1..~1y: the path has a segment . or .., which no request has"}},
		"path with an open brace":       {get("/x/{a", id), []string{"a.oas.json: /paths/~1x~1{a: the path has a { without a name and a }"}},
		"path with an empty name":       {get("/x/{}", id), []string{"a.oas.json: /paths/~1x~1{}: the path has a { without a name and a }"}},
		"path with a closing brace":     {get("/x/a}", id), []string{"a.oas.json: /paths/~1x~1a}: the path has a } without a {"}},
		"path with a parameter twice":   {get("/x/{a}/{a}", id), []string{"a.oas.json: /paths/~1x~1{a}~1{a}: the path has the parameter a twice"}},
		"path with neighbours":          {get("/x/{a}{b}", id), []string{"a.oas.json: /paths/~1x~1{a}{b}: nothing tells the parameters a and b of the path apart"}},
		"path with a bad escape":        {get("/x%zz", id), []string{"a.oas.json: /paths/~1x%zz: the path has a % that escapes nothing"}},
		"same path and method":          {get("/x/{a}", id) + "," + get("/x/{b}/", `"operationId":"y"`), []string{"a.oas.json: y: /paths/~1x~1{b}~1/get: GET /x/{b}/ is already answered by x of a.oas.json"}},
		"parameter without a name":      {parameters(`{"in":"query"}`), []string{at + "/parameters/0: a parameter needs a name; without x-gateway-route the operation is left out"}},
		"parameter in nothing":          {parameters(`{"name":"a","in":"body"}`), []string{at + "/parameters/0: a parameter is in path, query, header or cookie; without x-gateway-route the operation is left out"}},
		"parameter that leads nowhere":  {parameters(`{"$ref":"#/components/parameters/a"}`), []string{at + "/parameters/0: #/components/parameters/a leads nowhere in this file; without x-gateway-route the operation is left out"}},
		"parameter that the path lacks": {parameters(`{"name":"a","in":"path"}`), []string{at + "/parameters/0: the path has no parameter a; without x-gateway-route the operation is left out"}},
		"header that is none":           {parameters(`{"name":"a b","in":"header"}`), []string{at + "/parameters/0: a b is no name of a header; without x-gateway-route the operation is left out"}},
		"parameter twice":               {parameters(`{"name":"X-A","in":"header"},{"name":"x-a","in":"header"}`), []string{at + "/parameters/1: x-a is there twice; without x-gateway-route the operation is left out"}},
		"parameters are no array":       {get("/x", id+`,"parameters":{}`), []string{at + "/parameters: must be an array"}},
		"default that does not fit":     {parameters(`{"name":"a","in":"query","schema":{"type":"integer","default":"secret"}}`), []string{at + "/parameters/0/schema/default: the default does not fit its own schema: must be of type integer; without x-gateway-route the operation is left out"}},
		"parameter's schema":            {parameters(`{"name":"a","in":"query","schema":{"type":"int"}}`), []string{at + "/parameters/0/schema: compile schema: /type fits none of the allowed forms; without x-gateway-route the operation is left out"}},
		"body's schema":                 {get("/x", id+`,"requestBody":{"content":{"application/json":{"schema":{"$ref":"https://example.com/x.json"}}}}`), []string{at + "/requestBody/content/application~1json/schema: it refers to https://example.com/x.json, which is not in the document; without x-gateway-route the operation is left out"}},
		"answer's schema":               {get("/x", id+`,"responses":{"200":{"content":{"application/json":{"schema":{"$ref":"#/x"}}}}}`), []string{at + "/responses/200/content/application~1json/schema: it refers to #/x, which is not a schema in the document; without x-gateway-route the operation is left out"}},
		"answer that leads nowhere":     {get("/x", id+`,"responses":{"200":{"$ref":"#/x"}}`), []string{at + "/responses/200: #/x leads nowhere in this file; without x-gateway-route the operation is left out"}},
		"body that leads nowhere":       {get("/x", id+`,"requestBody":{"$ref":"#/x"}`), []string{at + "/requestBody: #/x leads nowhere in this file; without x-gateway-route the operation is left out"}},
		"all of them at once":           {with("/x", id, `"mcp":{"type":"a"},"corsPolicy":"b"`) + `,"y":{"get":{` + route + `}},` + nameless(), []string{at + `/x-gateway-route/mcp/type: must be tool, prompt or resource`, "a.oas.json: /paths/y: a path begins with /", "a.oas.json: GET /z: /paths/~1z/get/parameters/0: a parameter needs a name; without x-gateway-route the operation is left out", at + "/x-gateway-route/corsPolicy: there is no CORS policy b"}},
		"a tool with body and body":     {with("/x", id+`,"parameters":[{"name":"body","in":"query"}],"requestBody":{"content":{"application/json":{}}}`, `"mcp":{}`), []string{at + "/x-gateway-route/mcp: the query parameter body and the request's body would be one argument; with enabled false it is left out for AI clients"}},
		"a tool with one name in two":   {with("/x/{a}", id+`,"parameters":[{"name":"a","in":"query"}]`, `"mcp":{"type":"prompt"}`), []string{"a.oas.json: x: /paths/~1x~1{a}/get/x-gateway-route/mcp: the parameter a is in query and in path, and would be one argument; with enabled false it is left out for AI clients"}},
		"a tool with another body":      {with("/x", id+`,"requestBody":{"required":true,"content":{"text/plain":{}}}`, `"mcp":{}`), []string{at + "/x-gateway-route/mcp: its body is text/plain, but arguments are sent as JSON or as a form of named fields; with enabled false it is left out for AI clients"}},
		"a tool with a file": {with("/x", id+`,"requestBody":{"content":{"multipart/form-data":{"schema":{"type":"object","properties":{"a":{"type":"string"},"label":{"type":"array","items":{"type":"string","format":"binary"}}}}}}}`, `"mcp":{}`),
			[]string{at + "/x-gateway-route/mcp: its form has a file, label, but arguments are JSON; with enabled false it is left out for AI clients"}},
		"a tool with two faults": {with("/x", id+`,"parameters":[{"name":"a","in":"query","style":"wavy"},{"name":"a","in":"header"}]`, `"mcp":{}`),
			[]string{at + "/x-gateway-route/mcp: the parameter a has the style wavy, which is none of a query parameter; the parameter a is in query and in header, and would be one argument; with enabled false it is left out for AI clients"}},
		"a tool with a body of nothing":   {with("/x", id+`,"requestBody":{"required":true}`, `"mcp":{}`), nil},
		"a tool with another style":       {with("/x/{a}", id+`,"parameters":[{"name":"a","in":"path","style":"wavy"}]`, `"mcp":{}`), []string{"a.oas.json: x: /paths/~1x~1{a}/get/x-gateway-route/mcp: the parameter a has the style wavy, which is none of a path parameter; with enabled false it is left out for AI clients"}},
		"a tool with a nameless part":     {`"/x/*":{"x-gateway-path":{"pathMode":"url-pattern"},` + strings.TrimPrefix(with("", id, `"mcp":{}`), `"":{`), []string{"a.oas.json: x: /paths/~1x~1*/get/x-gateway-route/mcp: its path has a part without a name, but arguments have names; with enabled false it is left out for AI clients"}},
		"operations that are left out":    {get("/x", id) + `,"/y/{a}{b}":{"get":{` + id + `}},"/z":{"post":{` + id + `,"parameters":[{"in":"query"}],"requestBody":{"content":{"application/json":{"schema":{"type":7}}}}}}`, nil},
		"a tool that is left out":         {with("/x/{a}", id+`,"parameters":[{"name":"a","in":"path","style":"wavy"}]`, `"mcp":{"enabled":false}`), nil},
		"none of these when it is no mcp": {get("/x", id+`,"parameters":[{"name":"body","in":"query"}],"requestBody":{"content":{"application/json":{}}}`), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, faults(t, "a.oas.json", document(tc.paths))); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

func nameless() string { return get("/z", `"parameters":[{"in":"query"}]`) }

func TestFaultsOfFiles(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"no JSON":       {`{"openapi":`, []string{"a.oas.json: The file is not valid JSON, from byte 11 on."}},
		"empty":         {"", []string{"a.oas.json: The file is empty."}},
		"two values":    {`{} {}`, []string{"a.oas.json: The file has more than one JSON value."}},
		"names twice":   {`{"openapi":"3.1.0","paths":{"/a":{},"/a":{}},"x":{"y":1,"y":2}}`, []string{"a.oas.json: /paths/~1a: is given twice", "a.oas.json: /x/y: is given twice"}},
		"no object":     {`[]`, []string{"a.oas.json: must be an object"}},
		"no version":    {`{}`, []string{"a.oas.json: /openapi: must be a version of OpenAPI: 3.1.x or 3.0.x"}},
		"Swagger":       {`{"openapi":"2.0.0"}`, []string{"a.oas.json: /openapi: must be a version of OpenAPI: 3.1.x or 3.0.x"}},
		"a number":      {`{"openapi":3.1}`, []string{"a.oas.json: /openapi: must be a version of OpenAPI: 3.1.x or 3.0.x"}},
		"a later one":   {`{"openapi":"3.2.0"}`, []string{"a.oas.json: /openapi: must be a version of OpenAPI: 3.1.x or 3.0.x"}},
		"paths":         {`{"openapi":"3.1.0","paths":[]}`, []string{"a.oas.json: /paths: must be an object"}},
		"too deep":      {`{"openapi":"3.1.0","x":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`, []string{"a.oas.json: /x" + strings.Repeat("/0", 63) + ": is nested deeper than 64 levels"}},
		"too long":      {strings.Repeat(" ", 4<<20) + `{}`, []string{"a.oas.json: can't be read: it has more than 4194304 bytes"}},
		"bad character": {"{\"openapi\":\"3.1.0\xff\"}", []string{"a.oas.json: The file is not valid JSON, from byte 17 on."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, faults(t, "a.oas.json", tc.text)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
	if _, got := routefile.Load(nil, nowhere{}, environment); len(got) != 1 || got.Error() != "the folder can't be read: file does not exist" {
		t.Errorf("a folder that is not there: %v", got)
	}
	if _, got := routefile.Load(nil, closed{folder("a.oas.json", "{}")}, environment); len(got) != 1 || got.Error() != "a.oas.json: can't be read: permission denied" {
		t.Errorf("a file that may not be read: %v", got)
	}
}

type nowhere struct{}

func (nowhere) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

type closed struct{ fstest.MapFS }

func (c closed) Open(name string) (fs.File, error) {
	if name == "." {
		return c.MapFS.Open(name)
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

func TestFaultsOfPolicies(t *testing.T) {
	t.Parallel()
	policy := func(name, more string) string {
		return `{"name":"` + name + `","policyType":"x","handler":{"module":"$import(@gateway/runtime)","export":"x"` + more + `}}`
	}
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"no object":      {`[]`, []string{"policies.json: must be an object"}},
		"no JSON":        {`{`, []string{"policies.json: The file is not valid JSON, from byte 1 on."}},
		"unknown member": {`{"policy":[]}`, []string{"policies.json: /policy: is not a known member"}},
		"no array":       {`{"policies":{},"corsPolicies":1}`, []string{"policies.json: /corsPolicies: must be an array", "policies.json: /policies: must be an array"}},
		"no objects":     {`{"policies":["a"]}`, []string{"policies.json: /policies/0: must be an object"}},
		"nothing in it":  {`{"policies":[{}],"corsPolicies":[{}]}`, []string{"policies.json: /corsPolicies/0/allowedOrigins: is required", "policies.json: /corsPolicies/0/name: is required", "policies.json: /policies/0/handler: is required", "policies.json: /policies/0/name: is required", "policies.json: /policies/0/policyType: is required"}},
		"typos":          {`{"policies":[{"name":"a","policyType":"x","type":"y","handler":{"module":"$import(@gateway/runtime)","export":"x","opts":{}}}]}`, []string{"policies.json: /policies/0/handler/opts: is not a known member", "policies.json: /policies/0/type: is not a known member"}},
		"a name twice":   {`{"policies":[` + policy("a", "") + `,` + policy("a", "") + `],"corsPolicies":[{"name":"c","allowedOrigins":["x"]},{"name":"c","allowedOrigins":["x"]}]}`, []string{"policies.json: /policies/1/name: another policy is called a", "policies.json: /corsPolicies/1/name: another CORS policy is called c"}},
		"reserved names": {`{"corsPolicies":[{"name":"none","allowedOrigins":["x"]},{"name":"anything-goes","allowedOrigins":["x"]}]}`, []string{"policies.json: /corsPolicies/0/name: none is there already, and can't be defined", "policies.json: /corsPolicies/1/name: anything-goes is there already, and can't be defined"}},
		"credentials":    {`{"corsPolicies":[{"name":"a","allowedOrigins":["*"],"allowCredentials":true}]}`, []string{"policies.json: /corsPolicies/0/allowCredentials: credentials can't be allowed to every origin"}},
		"variables":      {`{"policies":[` + policy("a", `,"options":{"x":"$env(NONE)"}`) + `]}`, []string{"policies.json: /policies/0/handler/options/x: the environment has no NONE"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, faults(t, "policies.json", tc.text)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// What two files say together counts, and a value of the environment is in no message.
func TestFaultsBetweenFiles(t *testing.T) {
	t.Parallel()
	got := faults(t,
		"b.oas.json", document(get("/x/{b}", `"operationId":"same"`)),
		"a.oas.json", document(get("/x/{a}", `"operationId":"same"`)+`,"/x/:a":{"x-gateway-path":{"pathMode":"url-pattern"},"get":{`+route+`}}`),
	)
	if diff := cmp.Diff([]string{"a.oas.json: GET /x/:a: /paths/~1x~1:a/get: GET /x/:a is already answered by same of a.oas.json", "b.oas.json: same: /paths/~1x~1{b}/get: GET /x/{b} is already answered by same of a.oas.json"}, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	got = faults(t, "a.oas.json", document(`"/x":{"get":{"x-gateway-route":{"handler":{"module":"x","export":"x","options":{"a":"$env(KEY)"}}}}}`))
	if len(got) != 1 || strings.Contains(got[0], "secret") {
		t.Errorf("faults are %v", got)
	}
}
