package policy_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/gateway/internal/jsonschema"
	"waybill.dev/services/gateway/internal/jsontree"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/problem"
)

const document = `{"components":{"schemas":{
	"Order":{"type":"object","required":["item"],"properties":{"item":{"type":"string","maxLength":8},"count":{"$ref":"#/components/schemas/Count"}},"additionalProperties":false},
	"Count":{"type":"integer","minimum":1},
	"Counts":{"type":"array","items":{"$ref":"#/components/schemas/Count"},"maxItems":2},
	"Word":{"type":"string","maxLength":3},
	"Flag":{"type":"boolean"},
	"Either":{"anyOf":[{"type":"integer"},{"enum":["all"]}]},
	"Point":{"type":"object","required":["x"]}
}}}`

// documented is an operation with parameters of every kind.
func documented(t *testing.T) *routefile.Operation {
	t.Helper()
	tree, err := jsontree.Parse([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	schemas, err := jsonschema.NewDocument(tree, "3.1.0", nil)
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return "/components/schemas/" + name }
	return &routefile.Operation{
		ID: "order", File: &routefile.File{Raw: []byte(document), Schemas: schemas},
		Parameters: []routefile.Parameter{
			{Name: "id", In: "path", Required: true, Pointer: at("Count"), Style: "simple"},
			{Name: "name", In: "path", Required: true, Schema: []byte(`{"type":"string"}`), Style: "simple"},
			{Name: "limit", In: "query", Required: true, Pointer: at("Count"), Style: "form", Explode: true},
			{Name: "word", In: "query", Pointer: at("Word"), Style: "form", Explode: true},
			{Name: "flag", In: "query", Pointer: at("Flag"), Style: "form", Explode: true},
			{Name: "either", In: "query", Pointer: at("Either"), Style: "form", Explode: true},
			{Name: "many", In: "query", Pointer: at("Counts"), Style: "form", Explode: true},
			{Name: "list", In: "query", Pointer: at("Counts"), Style: "form"},
			{Name: "piped", In: "query", Pointer: at("Counts"), Style: "pipeDelimited"},
			{Name: "deep", In: "query", Required: true, Pointer: at("Point"), Style: "deepObject", Explode: true},
			{Name: "json", In: "query", Pointer: at("Point"), Style: "json"},
			{Name: "x-count", In: "header", Required: true, Pointer: at("Count"), Style: "simple"},
			{Name: "accept", In: "header", Required: true, Pointer: at("Count"), Style: "simple"},
		},
		Media: []routefile.Media{{Type: "application/json", Pointer: at("Order")}}, BodyRequired: true,
	}
}

// order is a request that fits the document; more of its query may be given.
func order(query string) *route.Request {
	r := request("X-Count", "3", "Content-Type", "application/json")
	r.Params = map[string]string{"id": "7", "name": "42"}
	r.Query = route.ParseQuery(&url.URL{RawQuery: "limit=5&deep[x]=1&" + query})
	r.Body = []byte(`{"item":"pen","count":2}`)
	return r
}

// faults returns the places and details that the policy tells of.
func faults(t *testing.T, in route.Inbound, r *route.Request) []string {
	t.Helper()
	_, err := in.In(t.Context(), r)
	if err == nil {
		return nil
	}
	p, ok := errors.AsType[*problem.Problem](err)
	if !ok || p.Code != problem.InvalidInput {
		return []string{err.Error()}
	}
	var list []string
	for _, f := range p.Faults {
		list = append(list, strings.TrimSpace(f.Pointer+f.Parameter+f.Header+" "+f.Detail))
	}
	return list
}

func TestValidation(t *testing.T) {
	t.Parallel()
	op := documented(t)
	in := inbound(t, "request-validation-inbound", `{}`, op)
	change := func(f func(*route.Request)) *route.Request {
		r := order("")
		f(r)
		return r
	}
	for _, row := range []struct {
		name string
		r    *route.Request
		want []string
	}{
		{"everything fits", order("word=abc&flag=true&either=7&many=1&many=2&list=1,2&piped=1|2&json={\"x\":1}&other=x"), nil},
		{"words that look like numbers", order("word=123&either=all&many=1&list=1"), nil},
		{"a word that is no boolean", order("flag=yes"), []string{"flag must be of type boolean"}},
		{"bounds", order("word=1234&many=0&list=1,0"), []string{"word must have 3 characters or fewer", "many at /0: must be 1 or more", "list at /1: must be 1 or more"}},
		{"too many", order("many=1&many=2&many=3"), []string{"many must have 2 elements or fewer"}},
		{"one value asked for, two given", order("word=a&word=b"), []string{"word must be of type string"}},
		{"neither form", order("either=some"), []string{"either fits none of the allowed forms"}},
		{"a parameter in JSON", order("json={}"), []string{"json at /x: is required"}},
		{"a parameter in JSON that is none", order("json={x"), []string{"json The value is not valid JSON, from byte 1 on."}},
		{"all at once", change(func(r *route.Request) {
			r.Params["id"] = "x"
			r.Query = route.Query{}
			r.Header.Del("X-Count")
			r.Body = []byte(`{"count":0,"cuont":1}`)
		}), []string{
			"id must be of type integer", "limit is required", "deep is required", "X-Count is required",
			"/count must be 1 or more", "/cuont is not a known member", "/item is required",
		}},
		{"no body", change(func(r *route.Request) { r.Body = nil }), []string{"is required"}},
		{"no JSON", change(func(r *route.Request) { r.Body = []byte(`{"item":"hunter2"`) }), []string{"The value is not valid JSON, from byte 17 on."}},
		{"a member twice", change(func(r *route.Request) { r.Body = []byte(`{"item":"a","item":"b"}`) }), []string{"/item is given twice"}},
		{"no media type", change(func(r *route.Request) { r.Header.Del("Content-Type") }), nil},
		{"another kind of JSON", change(func(r *route.Request) { r.Header.Set("Content-Type", "application/merge-patch+json") }), nil},
		{"another media type", change(func(r *route.Request) { r.Header.Set("Content-Type", "text/plain") }), []string{"UNSUPPORTED_MEDIA_TYPE: The body must be application/json in UTF-8."}},
		{"another character set", change(func(r *route.Request) { r.Header.Set("Content-Type", "application/json; charset=latin1") }), []string{"UNSUPPORTED_MEDIA_TYPE: The body must be application/json in UTF-8."}},
		{"a body in gzip", change(func(r *route.Request) { r.Header.Set("Content-Encoding", "gzip") }), []string{"UNSUPPORTED_MEDIA_TYPE: The body must be application/json in UTF-8."}},
	} {
		if diff := cmp.Diff(row.want, faults(t, in, row.r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.name, diff)
		}
	}
}

// Each part of a request is refused, noted or left alone, as the options say; what is
// noted has nothing of the request in it.
func TestValidationModes(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	op := documented(t)
	logging := &route.Runtime{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	bad := func() *route.Request {
		r := order("limit=hunter2")
		r.Runtime = logging
		setQuery(r, "limit=hunter2&deep[x]=1")
		r.Params["id"] = "hunter2"
		r.Header.Set("X-Count", "hunter2")
		r.Body = []byte(`{"hunter2":"hunter2","item":"pen"}`)
		return r
	}
	for _, row := range []struct {
		options string
		want    []string
		noted   string
	}{
		{`{"validateBody":"none","validateHeaders":"none","validateQueryParameters":"none","validatePathParameters":"none"}`, nil, ""},
		{`{"validateBody":"log-only","validateHeaders":"log-only","validateQueryParameters":"log-only","validatePathParameters":"log-only"}`, nil, "faults=4 contentType=false rejected=false"},
		{`{"validateBody":"none","validateHeaders":"none","validateQueryParameters":"reject-and-log","validatePathParameters":"log-only"}`, []string{"limit must be of type integer"}, "faults=2 contentType=false rejected=true"},
		{`{"validateBody":"none","validateQueryParameters":"none","validatePathParameters":"none"}`, []string{"X-Count must be of type integer"}, "faults=1 contentType=false rejected=true"},
		{`{"validateHeaders":"none","validateQueryParameters":"none","validatePathParameters":"none"}`, []string{"/hunter2 is not a known member"}, "faults=1 contentType=false rejected=true"},
	} {
		log.Reset()
		got := faults(t, inbound(t, "request-validation-inbound", row.options, op), bad())
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.options, diff)
		}
		if noted := log.String(); (noted == "") != (row.noted == "") || !strings.Contains(noted, row.noted) || strings.Contains(noted, "hunter2") {
			t.Errorf("%s: noted %q", row.options, noted)
		}
	}
	r := bad()
	r.Header.Set("Content-Type", "text/plain")
	in := inbound(t, "request-validation-inbound", `{"validateBody":"log-only","validateHeaders":"none","validateQueryParameters":"none","validatePathParameters":"none"}`, op)
	log.Reset()
	if got := faults(t, in, r); got != nil || !strings.Contains(log.String(), "contentType=true rejected=false") {
		t.Errorf("another media type: %v, noted %q", got, log.String())
	}
}

// A route that documents nothing asks for nothing.
func TestValidationOfWhatIsNotDocumented(t *testing.T) {
	t.Parallel()
	in := inbound(t, "request-validation-inbound", ``, operation())
	r := order("")
	r.Body = []byte("no JSON")
	if got := faults(t, in, r); got != nil {
		t.Error(got)
	}
	op := documented(t)
	op.Media[0].Pointer = ""
	in = inbound(t, "request-validation-inbound", ``, op)
	if got := faults(t, in, r); !cmp.Equal(got, []string{"The body is not valid JSON, from byte 1 on."}) {
		t.Errorf("a body without a schema: %q", got)
	}
	op = documented(t)
	op.Parameters[0].Pointer, op.Media[0].Pointer = "/nowhere", "/nowhere"
	it, _ := made(t, definition("request-validation-inbound", `{}`))
	_, said := it.Inbound(op)
	if len(said) == 0 || !strings.Contains(said[0], "can't be used here") {
		t.Errorf("schemas that are not there: %v", said)
	}
}
