package apitest_test

import (
	"net/http"
	"strings"
	"testing"

	"waybill.dev/services/api/apitest"
)

const document = `{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{
	"/things":{"get":{"responses":{"200":{"description":"","content":{"application/json":{"schema":{"type":"array","items":{"$ref":"#/components/schemas/Thing"}}}}}}},
		"delete":{"responses":{"204":{"description":""}}}},
	"/things/{id}":{"get":{"responses":{"200":{"description":"","headers":{"ETag":{"required":true,"schema":{"type":"string"}}},
		"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Thing"}}}},"404":{"$ref":"#/components/responses/NotFound"}}}},
	"/things/$all":{"post":{"responses":{"204":{"description":""}}}}},
	"components":{"schemas":{
		"Thing":{"type":"object","required":["id"],"properties":{"id":{"type":"string","format":"uuid"},"more":{"type":"object"}}},
		"Problem":{"type":"object","required":["code"],"properties":{"code":{"type":"string"}}}},
	"responses":{
		"NotFound":{"description":"","content":{"application/problem+json":{"schema":{"$ref":"#/components/schemas/Problem"}}}},
		"MethodNotAllowed":{"description":"","headers":{"Allow":{"required":true,"schema":{"type":"string"}}},"content":{"application/problem+json":{"schema":{"$ref":"#/components/schemas/Problem"}}}}}}}`

func TestAnswer(t *testing.T) {
	t.Parallel()
	checker, err := apitest.New([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	const (
		id      = "0190c0f0-0000-7000-8000-000000000000"
		thing   = `{"id":"` + id + `","more":{"x":1}}`
		missing = `{"code":"NOT_FOUND"}`
	)
	for name, tc := range map[string]struct {
		call, media string
		status      int
		body, wrong string
	}{
		"as documented":            {"GET /things", "application/json; charset=utf-8", 200, "[" + thing + "]", ""},
		"with a query":             {"GET /things?limit=1", "application/json", 200, "[]", ""},
		"by id":                    {"GET /things/" + id, "application/json", 200, thing, ""},
		"no body":                  {"DELETE /things", "", 204, "", ""},
		"found nothing":            {"GET /things/x", "application/problem+json", 404, missing, ""},
		"no such path":             {"GET /others", "application/problem+json", 404, missing, ""},
		"no such method":           {"PUT /things", "application/problem+json", 405, missing, ""},
		"method of the other path": {"GET /things/$all", "application/problem+json", 404, missing, ""},
		"undocumented status":      {"GET /things", "application/json", 201, "[]", "status 201 is not documented"},
		"undocumented member":      {"GET /things", "application/json", 200, `[{"id":"` + id + `","x":1}]`, "'x' not allowed"},
		"missing member":           {"GET /things/1", "application/json", 200, `{}`, "missing property 'id'"},
		"wrong type":               {"GET /things", "application/json", 200, `{}`, "want array"},
		"wrong format":             {"GET /things/1", "application/json", 200, `{"id":"1"}`, "uuid"},
		"wrong media type":         {"GET /things", "text/plain", 200, "[]", "not documented as text/plain"},
		"no media type":            {"GET /things", "", 200, "[]", "content type"},
		"not JSON":                 {"GET /things", "application/json", 200, "[", "read JSON"},
		"unexpected body":          {"DELETE /things", "", 204, "x", "without a body"},
		"served, not documented":   {"GET /others", "application/json", 200, "{}", "no such operation"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			header := http.Header{"X-Request-Id": {"1"}, "Etag": {`"1"`}, "Allow": {"GET"}}
			if tc.media != "" {
				header.Set("Content-Type", tc.media)
			}
			method, path, _ := strings.Cut(tc.call, " ")
			err := checker.Answer(method, path, tc.status, header, []byte(tc.body))
			if (err == nil) != (tc.wrong == "") || err != nil && !strings.Contains(err.Error(), tc.wrong) {
				t.Errorf("got %v, want %q", err, tc.wrong)
			}
		})
	}
	if err := checker.Answer("GET", "/things/1", 200, http.Header{"X-Request-Id": {"1"}, "Content-Type": {"application/json"}}, []byte(thing)); err == nil {
		t.Error("an answer without a required header is taken")
	}
	if err := checker.Answer("DELETE", "/things", 204, http.Header{}, nil); err == nil {
		t.Error("an answer without a request id is taken")
	}
}

func TestRequest(t *testing.T) {
	t.Parallel()
	checker, err := apitest.New([]byte(strings.Replace(document, `"/things/$all":{"post":{`, `"/things/$all":{"post":{
		"parameters":[{"$ref":"#/components/parameters/Limit"},{"name":"tags","in":"query","schema":{"type":"object","propertyNames":{"pattern":"^tag\\."}}},{"name":"key","in":"header","schema":{"type":"string"}}],
		"requestBody":{"content":{"application/json":{"schema":{"type":"object","additionalProperties":false,"properties":{"a":{"type":"integer"}}}}}},`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ call, body, wrong string }{
		"as documented":          {"POST /things/$all?tag.a=1&tag.b=2", `{"a":1}`, ""},
		"no body":                {"POST /things/$all", "", ""},
		"a body no one reads":    {"DELETE /things", "x", ""},
		"undocumented parameter": {"POST /things/$all?limits=1", "", "limits is taken"},
		"parameter of a header":  {"POST /things/$all?key=1", "", "key is taken"},
		"undocumented member":    {"POST /things/$all", `{"b":1}`, "'b' not allowed"},
		"no such operation":      {"POST /things", "", "no such operation"},
	} {
		method, path, _ := strings.Cut(tc.call, " ")
		err := checker.Request(method, path, []byte(tc.body))
		if (err == nil) != (tc.wrong == "") || err != nil && !strings.Contains(err.Error(), tc.wrong) {
			t.Errorf("%s: got %v, want %q", name, err, tc.wrong)
		}
	}
}
