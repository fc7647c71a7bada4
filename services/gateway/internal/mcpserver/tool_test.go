package mcpserver_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/services/gateway/internal/route"
)

// call is the result of a tool.
func (r *rig) call(name, arguments string) object {
	r.Helper()
	return r.ask("tools/call", `{"name":"`+name+`","arguments":`+arguments+`}`).result()
}

func body(schema string) object {
	return object{"requestBody": object{"required": true, "content": object{"application/json": object{"schema": json.RawMessage(schema)}}}}
}

const personSchema = `{"type":"object","required":["name"],"additionalProperties":false,"properties":{` +
	`"name":{"type":"string","maxLength":5},"age":{"type":"integer","minimum":0},"tags":{"type":"array","items":{"type":"string"}}}}`

func person(id string) item {
	return item{id: id, method: "POST", handler: module("seen"), more: body(personSchema)}
}

func TestToolEntry(t *testing.T) {
	t.Parallel()
	i := person("add")
	i.mcp = object{
		"type": "tool", "name": "people/add", "description": "Adds one.",
		"annotations": object{"readOnlyHint": false, "destructiveHint": true}, "_meta": object{"a": []any{}},
	}
	titled := item{id: "titled", mcp: object{"annotations": object{"title": "A title"}}}
	r := start(t, handlers{"seen": new(seen)}, over(nil, i, titled)...)
	tools := r.ask("tools/list", "").result()["tools"].([]any)
	equal(t, tools[0], `{"name":"people/add","title":"people/add","description":"Adds one.","inputSchema":`+personSchema+`,
		"annotations":{"readOnlyHint":false,"destructiveHint":true},"_meta":{"a":[]}}`)
	if got := tools[1].(object)["title"]; got != "A title" {
		t.Errorf("title is %v", got)
	}
}

// A schema with what no program here understands arrives as it was written.
func TestInputSchemaIsVerbatim(t *testing.T) {
	t.Parallel()
	schema := `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"a":{"type":"string"}},` +
		`"properties":{"x":{"$ref":"#/$defs/a"},"big":{"const":12345678901234567890},"e":{"enum":[]}},"additionalProperties":false,"x-own":{"b":1,"a":1.0}}`
	i := item{id: "tool", method: "POST", more: body(schema)}
	r := start(t, nil, over(nil, i)...)
	if reply := r.ask("tools/list", ""); !strings.Contains(string(reply.body), `"inputSchema":`+schema) {
		t.Errorf("the list is %s", reply.body)
	}
}

func TestArgumentsReachTheRoute(t *testing.T) {
	t.Parallel()
	s := new(seen)
	r := start(t, handlers{"seen": s}, over(nil, person("add"))...)
	arguments := `{"name":"é\"","tags":[],"age":3}`
	result := r.call("add", arguments)
	equal(t, result["content"], `[{"type":"text","text":"seen"}]`)
	if result["isError"] != nil && result["isError"] != false {
		t.Errorf("result: %v", result)
	}
	request := s.last(t)
	if string(request.Body) != arguments || request.Method != http.MethodPost || request.Path != "/add" ||
		request.Header.Get("Content-Type") != "application/json" || !request.Inside {
		t.Errorf("the route got %+v with %s", request, request.Body)
	}
}

// Faults of arguments are a result that the model can read. The values are not repeated.
func TestArgumentsAreChecked(t *testing.T) {
	t.Parallel()
	s := new(seen)
	r := start(t, handlers{"seen": s}, over(nil, person("add"))...)
	for arguments, want := range map[string][]string{
		`{}`:                               {"name"},
		`{"name":7}`:                       {"/name"},
		`{"name":"far too long a secret"}`: {"/name"},
		`{"name":"ok","other":"secret"}`:   {"other"},
		`{"age":-1,"tags":["a",2]}`:        {"name", "/age", "/tags/1"},
		`{"name":"ok","age":1.5}`:          {"/age"},
		`null`:                             {"name"},
	} {
		result := r.call("add", arguments)
		text, _ := result["content"].([]any)[0].(object)["text"].(string)
		if result["isError"] != true || strings.Contains(text, "secret") {
			t.Errorf("%s: %v", arguments, result)
		}
		for _, fault := range want {
			if !strings.Contains(text, fault) {
				t.Errorf("%s: %s is not named in %s", arguments, fault, text)
			}
		}
	}
	if len(s.requests) > 0 {
		t.Errorf("the route was called %d times", len(s.requests))
	}
	if strings.Contains(r.logs.String(), "secret") {
		t.Error("a value is in the log")
	}
}

func parameters(list ...object) object {
	all := make([]any, len(list))
	for i := range list {
		all[i] = list[i]
	}
	return object{"parameters": all}
}

func parameter(in, name string, schema object) object {
	return object{"in": in, "name": name, "required": in == "path", "schema": schema}
}

func TestParametersAndBodyTogether(t *testing.T) {
	t.Parallel()
	s := new(seen)
	i := person("change")
	i.path = "/people/{id}"
	i.more["parameters"] = []any{
		parameter("path", "id", object{"type": "string"}),
		parameter("query", "dry", object{"type": "boolean", "default": true}),
		parameter("query", "n", object{"type": "integer"}),
		parameter("header", "X-Tenant", object{"type": "string"}),
	}
	r := start(t, handlers{"seen": s}, over(nil, i)...)
	r.call("change", `{"id":"a b/ü","n":3,"X-Tenant":"t1","body":{"name":"x"}}`)
	request := s.last(t)
	if request.Path != "/people/a%20b%2F%C3%BC" || request.Params["id"] != "a b/ü" || request.Query.Get("dry") != "true" ||
		request.Query.Get("n") != "3" || request.Header.Get("X-Tenant") != "t1" || string(request.Body) != `{"name":"x"}` {
		t.Errorf("the route got %+v", request)
	}
}

// Nothing that an argument says leads to another path than that of the route.
func TestArgumentsDoNotLeaveTheirSegment(t *testing.T) {
	t.Parallel()
	s := new(seen)
	i := item{id: "get", path: "/people/{id}/card", handler: module("seen"), more: parameters(parameter("path", "id", object{"type": "string"}))}
	secret := item{id: "secret", path: "/secret"}
	r := start(t, handlers{"seen": s}, server(nil, "get"), i, secret)
	for _, value := range []string{"..", ".", "", "../secret", "..%2fsecret", "%2e%2e", "a/../../secret", "x?y=1", "x#y", `..\\secret`, "a;b", "\\u0000"} {
		result := r.call("get", `{"id":"`+value+`"}`)
		if result["isError"] == true {
			continue
		}
		request := s.last(t)
		s.requests = nil
		segments := strings.Split(request.Path, "/")
		if len(segments) != 4 || segments[1] != "people" || segments[3] != "card" || segments[2] == ".." || segments[2] == "." ||
			segments[2] == "" || strings.ContainsAny(request.Path, "?#\\\x00") || request.Query.Search() != "" {
			t.Errorf("%q has become %q", value, request.Path)
		}
	}
	for _, value := range []string{"..", ".", ""} {
		if result := r.call("get", `{"id":"`+value+`"}`); result["isError"] != true {
			t.Errorf("%q: %v", value, result)
		}
	}
}

// encoded answers with a Content-Encoding.
func encoded(contentType, coding, body string) route.Handler {
	return gatewaytest.Func(func(context.Context, *route.Request) (*route.Response, error) {
		return &route.Response{Status: 200, Header: http.Header{"Content-Type": {contentType}, "Content-Encoding": {coding}}, Body: []byte(body)}, nil
	})
}

func TestAnswersOfTools(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		handler route.Handler
		want    string
	}{
		"text":                 {answer(200, "text/plain", "hi"), `{"content":[{"type":"text","text":"hi"}]}`},
		"nothing":              {answer(204, "", ""), `{"content":[{"type":"text","text":""}]}`},
		"HTML":                 {answer(200, "text/html", "<b>&"), `{"content":[{"type":"text","text":"<b>&"}]}`},
		"JSON":                 {answer(200, "application/json", `{"a":[],"b":{}}`), `{"content":[{"type":"text","text":"{\"a\":[],\"b\":{}}"}]}`},
		"an empty array":       {answer(200, "application/json", `[]`), `{"content":[{"type":"text","text":"[]"}]}`},
		"bad UTF-8":            {answer(200, "text/plain", "a\xffb"), `{"content":[{"type":"resource","resource":{"uri":"mcp://results/tool","mimeType":"text/plain","blob":"Yf9i"}}]}`},
		"latin-1":              {answer(200, "text/plain; charset=iso-8859-1", "caf\xe9"), `{"content":[{"type":"text","text":"café"}]}`},
		"windows-1251":         {answer(200, `text/csv; header=present; charset="Windows-1251"`, "\xcf\xf0"), `{"content":[{"type":"text","text":"Пр"}]}`},
		"Shift JIS":            {answer(200, "text/html;charset=shift_jis", "\x93\xfa\x96{"), `{"content":[{"type":"text","text":"日本"}]}`},
		"a refusal in latin-1": {answer(400, "application/problem+json; charset=latin1", "{\"title\":\"\xfc\"}"), `{"isError":true,"content":[{"type":"text","text":"{\"title\":\"ü\"}"}]}`},
		"UTF-16 by its mark":   {answer(200, "text/plain", "\xff\xfeh\x00i\x00"), `{"content":[{"type":"text","text":"hi"}]}`},
		"UTF-16 by its name":   {answer(200, "text/plain; charset=utf-16be", "\x00h\x00i"), `{"content":[{"type":"text","text":"hi"}]}`},
		"UTF-8 with a mark":    {answer(200, "text/plain; charset=utf-8", "\xef\xbb\xbfhi"), `{"content":[{"type":"text","text":"hi"}]}`},
		"XML that says it":     {answer(200, "application/xml", "<?xml version='1.0' encoding='ISO-8859-1'?><a>\xe9</a>"), `{"content":[{"type":"text","text":"<?xml version='1.0' encoding='ISO-8859-1'?><a>é</a>"}]}`},
		"HTML that says it":    {answer(200, "text/html", "<meta charset=iso-8859-1>\xe9"), `{"content":[{"type":"text","text":"<meta charset=iso-8859-1>é"}]}`},
		"a charset that nobody knows": {answer(200, "text/plain; charset=x-own", "a\xe9"),
			`{"content":[{"type":"resource","resource":{"uri":"mcp://results/tool","mimeType":"text/plain; charset=x-own","blob":"Yek="}}]}`},
		"a charset that it is not in": {answer(200, "text/plain; charset=utf-8", "a\xe9"),
			`{"content":[{"type":"resource","resource":{"uri":"mcp://results/tool","mimeType":"text/plain","blob":"Yek="}}]}`},
		"a coding":          {encoded("text/plain", "br", "hi"), `{"isError":true,"content":[{"type":"text","text":"The tool's route answers with a Content-Encoding, which a tool can't show."}]}`},
		"no coding":         {encoded("text/plain", "identity", "hi"), `{"content":[{"type":"text","text":"hi"}]}`},
		"an image":          {answer(200, "image/png", "\x89PNG"), `{"content":[{"type":"image","mimeType":"image/png","data":"iVBORw=="}]}`},
		"sound":             {answer(200, "audio/wav", "RIFF"), `{"content":[{"type":"audio","mimeType":"audio/wav","data":"UklGRg=="}]}`},
		"bytes":             {answer(200, "application/pdf", "%PDF\xff"), `{"content":[{"type":"resource","resource":{"uri":"mcp://results/tool","mimeType":"application/pdf","blob":"JVBERv8="}}]}`},
		"a refusal":         {answer(404, "application/problem+json", `{"code":"NOT_FOUND"}`), `{"isError":true,"content":[{"type":"text","text":"{\"code\":\"NOT_FOUND\"}"}]}`},
		"an upstream's 401": {answer(401, "text/html", "<h1>no</h1>"), `{"isError":true,"content":[{"type":"text","text":"<h1>no</h1>"}]}`},
		"a failure":         {answer(503, "", ""), `{"isError":true,"content":[{"type":"text","text":"The tool's route has answered with status 503 Service Unavailable"}]}`},
		"a redirect":        {answer(302, "", ""), `{"isError":true,"content":[{"type":"text","text":"The tool's route has answered with status 302 Found"}]}`},
		"a result of its own": {answer(200, "application/vnd.mcp+json", `{"content":[{"type":"text","text":"a"},{"type":"resource","resource":{"uri":"x:y","mimeType":"text/plain","text":"<t>"}}],"structuredContent":{"n":12345678901234567890}}`),
			`{"content":[{"type":"text","text":"a"},{"type":"resource","resource":{"uri":"x:y","mimeType":"text/plain","text":"<t>"}}],"structuredContent":{"n":12345678901234567890}}`},
		"a result that asks for input": {answer(200, "application/vnd.mcp+json", `{"content":[],"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object"}}}}}`),
			`{"isError":true,"content":[{"type":"text","text":"The tool's route asks the user for input, which a route can't get."}]}`},
		"a result that is none": {answer(200, "application/vnd.mcp+json", `{"content":7}`), `{"isError":true,"content":[{"type":"text","text":"The tool's route has given a result that is not one of MCP."}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, handlers{"own": row.handler}, over(nil, item{id: "tool", handler: module("own")})...)
			reply := r.ask("tools/call", `{"name":"tool"}`)
			equal(t, reply.result(), row.want)
			if strings.Contains(string(reply.body), `\u003`) {
				t.Errorf("HTML is escaped: %s", reply.body)
			}
			if strings.Contains(row.want, "12345678901234567890") && !strings.Contains(string(reply.body), "12345678901234567890") {
				t.Errorf("a number is rounded: %s", reply.body)
			}
		})
	}
}

func TestStructuredContent(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","properties":{"n":{"type":"integer"}}}`
	of := func(id, schema string) item {
		return item{id: id, handler: module(id), more: object{"responses": object{"200": object{
			"description": "OK", "content": object{"application/json": object{"schema": json.RawMessage(schema)}}}}}}
	}
	module := handlers{
		"one": answer(200, "application/json", `{"n":12345678901234567890,"list":[],"<":1}`), "many": answer(200, "application/json", `[1]`),
		"none": answer(200, "text/plain", "x"), "bad": answer(400, "application/json", `{}`),
	}
	items := func(options object) []item {
		return over(options, of("one", schema), of("many", `{"type":"array"}`), of("none", schema), of("bad", schema))
	}
	t.Run("off by default", func(t *testing.T) {
		t.Parallel()
		r := start(t, module, items(nil)...)
		if tool := r.ask("tools/list", "").result()["tools"].([]any)[0].(object); tool["outputSchema"] != nil {
			t.Errorf("tool: %v", tool)
		}
		if result := r.call("one", "{}"); result["structuredContent"] != nil {
			t.Errorf("result: %v", result)
		}
	})
	t.Run("includeStructuredContent", func(t *testing.T) {
		t.Parallel()
		r := start(t, module, items(object{"includeStructuredContent": true})...)
		if tool := r.ask("tools/list", "").result()["tools"].([]any)[0].(object); tool["outputSchema"] != nil {
			t.Errorf("tool: %v", tool)
		}
		reply := r.ask("tools/call", `{"name":"one"}`)
		if !strings.Contains(string(reply.body), `"structuredContent":{"n":12345678901234567890,"list":[],"<":1}`) {
			t.Errorf("result: %s", reply.body)
		}
		if result := r.call("many", "{}"); result["structuredContent"] != nil {
			t.Errorf("an array, which clients of old refuse: %v", result)
		}
		equal(t, r.modern("tools/call", `{"name":"many"}`).result()["structuredContent"], `[1]`)
		for _, name := range []string{"none", "bad"} {
			if result := r.call(name, "{}"); result["structuredContent"] != nil {
				t.Errorf("%s: %v", name, result)
			}
		}
	})
	for name, rig := range map[string]func(t *testing.T) *rig{
		"includeOutputSchema": func(t *testing.T) *rig { return start(t, module, items(object{"includeOutputSchema": true})...) },
		"offerOutputSchema": func(t *testing.T) *rig {
			r := start(t, module, items(object{"offerOutputSchema": true})...)
			if tool := r.ask("tools/list", "").result()["tools"].([]any)[0].(object); tool["outputSchema"] != nil {
				t.Errorf("tool of a client that does not ask for schemas: %v", tool)
			}
			if result := r.call("one", "{}"); result["structuredContent"] != nil {
				t.Errorf("result of a client that does not ask for schemas: %v", result)
			}
			r.path += "?schemas=1"
			return r
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig(t)
			tools := r.ask("tools/list", "").result()["tools"].([]any)
			equal(t, tools[0].(object)["outputSchema"], schema)
			if tools[1].(object)["outputSchema"] != nil {
				t.Error("a schema that is no object's, which clients of old refuse")
			}
			// A tool with a schema for its output must give one.
			if result := r.call("one", "{}"); result["structuredContent"] == nil {
				t.Errorf("result: %v", result)
			}
		})
	}
}

// responses is a documented answer of each status, with a schema unless it is empty.
func responses(schemas map[string]string) object {
	all := object{}
	for status, schema := range schemas {
		answer := object{"description": "OK"}
		if schema != "" {
			answer["content"] = object{"application/json": object{"schema": json.RawMessage(schema)}}
		}
		all[status] = answer
	}
	return object{"responses": all}
}

// A client that was shown the schema of an output throws away what does not fit, and the model
// calls again. So a schema is shown only if all that a success may answer has one, and an answer
// that does not fit is an error that tells what has happened.
func TestOutputsKeepTheirPromise(t *testing.T) {
	t.Parallel()
	const one, two = `{"type":"object","required":["a"],"properties":{"a":{"type":"string"}}}`, `{"type":"object","required":["b"],"properties":{"b":{"$ref":"#/components/schemas/b"}}}`
	for name, row := range map[string]struct {
		documented map[string]string
		handler    route.Handler
		schema     string // as it is listed; empty: none
		want       string // the result
	}{
		"as documented":      {map[string]string{"200": one}, answer(200, "application/json", `{"a":"x"}`), one, `{"content":[{"type":"text","text":"{\"a\":\"x\"}"}],"structuredContent":{"a":"x"}}`},
		"a 204 besides":      {map[string]string{"200": one, "204": ""}, answer(204, "", ""), "", `{"content":[{"type":"text","text":""}]}`},
		"nothing documented": {map[string]string{"204": ""}, answer(204, "", ""), "", `{"content":[{"type":"text","text":""}]}`},
		"either of two": {map[string]string{"200": one, "202": two}, answer(202, "application/json", `{"b":1}`),
			`{"type":"object","anyOf":[` + one + `,{"type":"object","required":["b"],"properties":{"b":{"$ref":"#/$defs/b"}}}],"$defs":{"b":{"type":"integer"}}}`,
			`{"content":[{"type":"text","text":"{\"b\":1}"}],"structuredContent":{"b":1}}`},
		"an empty 200": {map[string]string{"200": one}, answer(200, "application/json", ""), one, `{"isError":true,"content":[
			{"type":"text","text":"The tool's route has answered with status 200, so the call has taken effect. Do not repeat it. Its answer is not what the tool's output schema says: it is not an object in JSON."},{"type":"text","text":""}]}`},
		"an undocumented 204": {map[string]string{"200": one}, answer(204, "", ""), one, `{"isError":true,"content":[
			{"type":"text","text":"The tool's route has answered with status 204, so the call has taken effect. Do not repeat it. Its answer is not what the tool's output schema says: it is not an object in JSON."},{"type":"text","text":""}]}`},
		"another type": {map[string]string{"200": one}, answer(200, "text/plain", "hi"), one, `{"isError":true,"content":[
			{"type":"text","text":"The tool's route has answered with status 200, so the call has taken effect. Do not repeat it. Its answer is not what the tool's output schema says: it is not an object in JSON."},{"type":"text","text":"hi"}]}`},
		"another shape": {map[string]string{"200": one}, answer(201, "application/json", `{"a":7}`), one, `{"isError":true,"content":[
			{"type":"text","text":"The tool's route has answered with status 201, so the call has taken effect. Do not repeat it. Its answer is not what the tool's output schema says: /a: must be of type string."},{"type":"text","text":"{\"a\":7}"}]}`},
		"a result of its own, without": {map[string]string{"200": one}, answer(200, "application/vnd.mcp+json", `{"content":[{"type":"text","text":"x"}]}`), one, `{"isError":true,"content":[
			{"type":"text","text":"The tool's route has answered with status 200, so the call has taken effect. Do not repeat it. Its answer is not what the tool's output schema says: it is not an object in JSON."},{"type":"text","text":"x"}]}`},
		"a result of its own": {map[string]string{"200": one}, answer(200, "application/vnd.mcp+json", `{"content":[],"structuredContent":{"a":"x"}}`), one, `{"content":[],"structuredContent":{"a":"x"}}`},
		"a refusal":           {map[string]string{"200": one}, answer(404, "application/json", `{}`), one, `{"isError":true,"content":[{"type":"text","text":"{}"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := item{id: "tool", method: "POST", handler: module("own"), more: responses(row.documented)}
			r := start(t, handlers{"own": row.handler})
			r.replace(strings.Replace(string(document(t, over(object{"includeOutputSchema": true}, i))), `"info"`, `"components":{"schemas":{"b":{"type":"integer"}}},"info"`, 1))
			tool := r.ask("tools/list", "").result()["tools"].([]any)[0].(object)
			if row.schema != "" {
				equal(t, tool["outputSchema"], row.schema)
			} else if tool["outputSchema"] != nil {
				t.Errorf("listed with %v", tool["outputSchema"])
			}
			equal(t, r.call("tool", "{}"), row.want)
			got := r.modern("tools/call", `{"name":"tool"}`).result()
			delete(got, "_meta")
			delete(got, "resultType")
			equal(t, got, row.want)
		})
	}
}

// What a tool does not know it refuses, and what the client does not say it does not send.
func TestEmptyArguments(t *testing.T) {
	t.Parallel()
	s := new(seen)
	bare := item{id: "bare", handler: module("seen")}
	optional := item{id: "optional", method: "POST", handler: module("seen"), more: object{"requestBody": object{"content": object{"application/json": object{"schema": object{"type": "object", "required": []string{"a"}}}}}}}
	r := start(t, handlers{"seen": s}, over(nil, bare, optional)...)
	if result := r.call("bare", `{"unknown":1}`); result["isError"] != true || !strings.Contains(result["content"].([]any)[0].(object)["text"].(string), "/unknown: is not a known member") {
		t.Errorf("an argument that the tool does not have: %v", result)
	}
	for _, params := range []string{`{"name":"optional"}`, `{"name":"optional","arguments":{}}`} {
		s.requests = nil
		r.ask("tools/call", params).result()
		if request := s.last(t); request.Body != nil || request.Header.Get("Content-Type") != "" {
			t.Errorf("%s: the route got %q of %q", params, request.Body, request.Header.Get("Content-Type"))
		}
	}
}

// Arguments may have to be repeated in headers, so that what lies between need not read
// the body.
func TestArgumentsInHeaders(t *testing.T) {
	t.Parallel()
	s := new(seen)
	i := item{id: "tool", method: "POST", handler: module("seen"), more: body(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`)}
	r := start(t, handlers{"seen": s}, over(nil, i)...)
	params := `{"name":"tool","arguments":{"region":"eu"}}`
	r.modern("tools/call", params, "Mcp-Param-Region", "eu").result()
	r.modern("tools/call", params, "Mcp-Param-Region", "=?base64?ZXU=?=").result()
	r.modern("tools/call", params, "Mcp-Param-Region", "us").failure(400, -32020)
	r.modern("tools/call", params).failure(400, -32020)
	if len(s.requests) != 2 {
		t.Errorf("the route was called %d times", len(s.requests))
	}
	r.ask("tools/call", params).result() // before 2026-07-28 nobody sends them
}

// A header repeats an argument of any depth that is a text, an integer or a boolean, and nothing else.
func TestKindsOfArgumentsInHeaders(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"Num"},
		"b":{"type":"boolean","x-mcp-header":"Flag"},"o":{"type":"object","properties":{"deep":{"type":"string","x-mcp-header":"Deep"}}}}}`
	r := start(t, nil, over(nil, item{id: "tool", method: "POST", more: body(schema)})...)
	for _, tc := range []struct {
		arguments, name, value string
		agree                  bool
	}{
		{`{}`, "", "", true},
		{`{}`, "Region", "eu", false},
		{`{"region":null}`, "", "", true},
		{`{"region":"eu"}`, "Num", "7", false},
		{`{"region":"eu"}`, "Region", "=?base64?*?=", false},
		{`{"region":{"a":1}}`, "Region", "eu", false},
		{`{"n":7}`, "Num", "7", true},
		{`{"n":7.0}`, "Num", "7", true},
		{`{"n":7}`, "Num", "7.0", true},
		{`{"n":7.5}`, "Num", "7.5", false},
		{`{"n":7}`, "Num", "x", false},
		{`{"n":"7"}`, "Num", "7", true}, // which the tool itself refuses
		{`{"n":90071992547409930}`, "Num", "90071992547409930", false},
		{`{"b":true}`, "Flag", "true", true},
		{`{"b":true}`, "Flag", "false", false},
		{`{"o":{"deep":"d"}}`, "Deep", "d", true},
		{`{"o":{"deep":"d"}}`, "", "", false},
		{`{"o":{}}`, "Deep", "d", false},
	} {
		var header []string
		if tc.name != "" {
			header = []string{"Mcp-Param-" + tc.name, tc.value}
		}
		got := r.modern("tools/call", `{"name":"tool","arguments":`+tc.arguments+`}`, header...)
		if tc.agree {
			got.result()
		} else {
			got.failure(400, -32020)
		}
	}
}

// A schema whose headers no client can send is refused when it is built.
func TestHeadersOfArgumentsAreChecked(t *testing.T) {
	t.Parallel()
	var many []string // one more than are looked through
	for i := range 33 {
		n := strconv.Itoa(i)
		many = append(many, `"a`+n+`":{"type":"string","x-mcp-header":"A`+n+`"}`)
	}
	if said := faults(t, over(nil, item{id: "tool", method: "POST", more: body(`{"type":"object","properties":{` + strings.Join(many, ",") + `}}`)})...); !strings.Contains(said, "x-mcp-header stands more than 32 times") {
		t.Error(said)
	}
	for name, properties := range map[string]string{
		"a number":      `"a":{"type":"number","x-mcp-header":"A"}`,
		"no name":       `"a":{"type":"string","x-mcp-header":""}`,
		"no text":       `"a":{"type":"string","x-mcp-header":7}`,
		"no token":      `"a":{"type":"string","x-mcp-header":"a b"}`,
		"one for two":   `"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}`,
		"one far below": `"o":{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"A"}}}`,
	} {
		said := faults(t, over(nil, item{id: "tool", method: "POST", more: body(`{"type":"object","properties":{` + properties + `}}`)})...)
		if !strings.Contains(said, "x-mcp-header of the property ") {
			t.Errorf("%s: %s", name, said)
		}
	}
}

func TestHundredTools(t *testing.T) {
	t.Parallel()
	items := make([]item, 100)
	for i := range items {
		items[i] = person("tool_" + string(rune('a'+i%26)) + string(rune('a'+i/26)))
		items[i].handler = nil
	}
	r := start(t, nil, over(nil, items...)...)
	result := r.ask("tools/list", "").result()
	tools := result["tools"].([]any)
	if len(tools) != 100 || result["nextCursor"] != nil {
		t.Fatalf("%d tools, then %v", len(tools), result["nextCursor"])
	}
	for i := range items {
		if got := tools[i].(object)["name"]; got != items[i].id {
			t.Fatalf("tool %d is %v, not %s", i, got, items[i].id)
		}
	}
	for i := range items {
		equal(t, r.call(items[i].id, `{"name":"x"}`)["content"], `[{"type":"text","text":"text of `+items[i].id+`"}]`)
	}
}

func TestWhatIsHandedOn(t *testing.T) {
	t.Parallel()
	s := new(seen)
	r := start(t, handlers{"seen": s}, over(nil, person("add"))...)
	r.send(http.MethodPost, with(
		"Authorization", "Bearer writer", "X-Tenant", "t1", "Mcp-Session-Id", "s", "MCP-Protocol-Version", "2025-06-18",
		"Last-Event-Id", "7", "If-None-Match", "x", "Accept-Language", "de", "X-Request-Id", "abc",
	), message("1", "tools/call", `{"name":"add","arguments":{"name":"x"}}`)).result()
	request := s.last(t)
	for name, want := range map[string]string{
		"Authorization": "Bearer writer", "X-Tenant": "t1", "Accept-Language": "de", "User-Agent": "curl/8.5.0",
		"Content-Type": "application/json",
		"Accept":       "", "Mcp-Session-Id": "", "Mcp-Protocol-Version": "", "Last-Event-Id": "", "If-None-Match": "", "Content-Length": "",
	} {
		if got := request.Header.Get(name); got != want {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
	if request.Remote != "127.0.0.1" || request.Host != strings.TrimPrefix(r.url, "http://") || request.Scheme != "http" || request.ID == "" {
		t.Errorf("the caller is lost: %+v", request)
	}
}
