package policy_test

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/jsonscan/attack"
)

// read returns the operation of a document: PUT of a path, with members of its own.
func read(t *testing.T, path, members, schemas string) *routefile.Operation {
	t.Helper()
	text := `{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{"` + path + `":{"put":{"operationId":"put",` + members + `,
		"x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler"}}}}},"components":{"schemas":{` + schemas + `}}}`
	set, faults := routefile.Load(nil, fstest.MapFS{"a.oas.json": {Data: []byte(text)}}, func(string) (string, bool) { return "", false })
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return set.Files[0].Operations[0]
}

// Parameters are read in the style that the document gives them.
func TestStyles(t *testing.T) {
	t.Parallel()
	const ints, point = `"schema":{"type":"array","items":{"type":"integer"},"maxItems":3}`, `"schema":{"type":"object","required":["x"],"properties":{"x":{"type":"integer"},"name":{"type":"string"},"tags":{"type":"array","items":{"type":"integer"}},"in":{"type":"object","properties":{"y":{"type":"boolean"}}}},"additionalProperties":false}`
	for name, tc := range map[string]struct {
		parameter string
		in, value string // p in a path, a query, a header's value, or a Cookie header
		want      []string
	}{
		"deepObject":                         {`"name":"p","in":"query","style":"deepObject","explode":true,` + point, "query", "p[x]=1&p[name]=7&p[in][y]=true&p[tags]=1&p[tags]=2", nil},
		"deepObject, escaped, with indexes":  {`"name":"p","in":"query","style":"deepObject","explode":true,` + point, "query", "p%5Bx%5D=1&p[tags][]=1&p[tags][]=2", nil},
		"deepObject that does not fit":       {`"name":"p","in":"query","style":"deepObject","required":true,` + point, "query", "p[x]=a&p[in][y]=7&p[z]=1", []string{"p at /in/y: must be of type boolean", "p at /x: must be of type integer", "p at /z: is not a known member"}},
		"deepObject that is missing":         {`"name":"p","in":"query","style":"deepObject","required":true,` + point, "query", "q[x]=1", []string{"p is required"}},
		"an exploded object":                 {`"name":"p","in":"query","required":true,` + point, "query", "x=1&name=a&other=2", nil},
		"an exploded object of other types":  {`"name":"p","in":"query","required":true,` + point, "query", "x=a", []string{"p at /x: must be of type integer"}},
		"an exploded object lacks a member":  {`"name":"p","in":"query",` + point, "query", "name=a", []string{"p at /x: is required"}},
		"an exploded object that is missing": {`"name":"p","in":"query","required":true,` + point, "query", "", []string{"p is required"}},
		"an object in one value":             {`"name":"p","in":"query","explode":false,` + point, "query", "p=x,1,name,a", nil},
		"an array in one value":              {`"name":"p","in":"query","explode":false,` + ints, "query", "p=1,2,3", nil},
		"an array in one value, escaped":     {`"name":"p","in":"query","explode":false,` + ints, "query", "p=1%2C2%2Cx", []string{"p at /2: must be of type integer"}},
		"too many in one value":              {`"name":"p","in":"query","explode":false,` + ints, "query", "p=1%2C2%2C3%2C4", []string{"p must have 3 elements or fewer"}},
		"spaceDelimited":                     {`"name":"p","in":"query","style":"spaceDelimited","explode":false,` + ints, "query", "p=1%202+3", nil},
		"spaceDelimited that does not fit":   {`"name":"p","in":"query","style":"spaceDelimited","explode":false,` + ints, "query", "p=1,2", []string{"p at /0: must be of type integer"}},
		"pipeDelimited":                      {`"name":"p","in":"query","style":"pipeDelimited","explode":false,` + ints, "query", "p=1%7C2|3", nil},
		"JSON":                               {`"name":"p","in":"query","content":{"application/json":{` + point + `}}`, "query", `p={"x":"1"}`, []string{"p at /x: must be of type integer"}},
		"text":                               {`"name":"p","in":"query","content":{"text/plain":{"schema":{"type":"string","maxLength":3}}}`, "query", `p=1,23`, []string{"p must have 3 characters or fewer"}},
		"an empty value":                     {`"name":"p","in":"query","allowEmptyValue":true,"schema":{"type":"integer"}`, "query", "p=", nil},
		"a header with blanks":               {`"name":"X-P","in":"header",` + ints, "header", "1, 2 ,\t3", nil},
		"a header that does not fit":         {`"name":"X-P","in":"header",` + ints, "header", "1, b", []string{"X-P at /1: must be of type integer"}},
		"a header with an object":            {`"name":"X-P","in":"header","explode":true,` + point, "header", "x=1, name=a b", nil},
		"a header with an object, listed":    {`"name":"X-P","in":"header",` + point, "header", "x, a", []string{"X-P at /x: must be of type integer"}},
		"a path":                             {`"name":"p","in":"path","required":true,` + ints, "path", "1,2", nil},
		"a path with an object":              {`"name":"p","in":"path","required":true,"explode":true,` + point, "path", "x=1,name=a", nil},
		"label":                              {`"name":"p","in":"path","required":true,"style":"label",` + ints, "path", ".1,2", nil},
		"label, exploded":                    {`"name":"p","in":"path","required":true,"style":"label","explode":true,` + ints, "path", ".1.x", []string{"p at /1: must be of type integer"}},
		"label with dots, as of old":         {`"name":"p","in":"path","required":true,"style":"label",` + ints, "path", ".1.2", nil},
		"label with an object":               {`"name":"p","in":"path","required":true,"style":"label","explode":true,` + point, "path", ".x=1.name=a", nil},
		"label of one value":                 {`"name":"p","in":"path","required":true,"style":"label","schema":{"type":"integer"}`, "path", ".7", nil},
		"no label":                           {`"name":"p","in":"path","required":true,"style":"label","schema":{"type":"integer"}`, "path", "7", []string{"p must begin with a . as its style label has it"}},
		"matrix":                             {`"name":"p","in":"path","required":true,"style":"matrix",` + ints, "path", ";p=1,2", nil},
		"matrix, exploded":                   {`"name":"p","in":"path","required":true,"style":"matrix","explode":true,` + ints, "path", ";p=1;p=x", []string{"p at /1: must be of type integer"}},
		"matrix with an object":              {`"name":"p","in":"path","required":true,"style":"matrix","explode":true,` + point, "path", ";x=1;name=a", nil},
		"matrix of one value":                {`"name":"p","in":"path","required":true,"style":"matrix","schema":{"type":"integer"}`, "path", ";p=x", []string{"p must be of type integer"}},
		"no matrix":                          {`"name":"p","in":"path","required":true,"style":"matrix","schema":{"type":"integer"}`, "path", "7", []string{"p must begin with ;p= as its style matrix has it"}},
		"a cookie":                           {`"name":"p","in":"cookie","required":true,"schema":{"type":"integer"}`, "cookie", "a=b; p=7", nil},
		"a cookie that does not fit":         {`"name":"p","in":"cookie","required":true,"schema":{"type":"integer"}`, "cookie", "p=x", []string{"Cookie p: must be of type integer"}},
		"a cookie that is missing":           {`"name":"p","in":"cookie","required":true,"schema":{"type":"integer"}`, "cookie", "q=7", []string{"Cookie p: is required"}},
		"a cookie with an array":             {`"name":"p","in":"cookie","explode":false,` + ints, "cookie", "p=1,2", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := "/x"
			if tc.in == "path" {
				path = "/x/{p}"
			}
			in := inbound(t, "request-validation-inbound", `{}`, read(t, path, `"parameters":[{`+tc.parameter+`}]`, ""))
			r := request()
			switch tc.in {
			case "path":
				r.Params = map[string]string{"p": tc.value}
			case "query":
				setQuery(r, tc.value)
			case "header":
				r.Header.Set("X-P", tc.value)
			case "cookie":
				r.Header.Set("Cookie", tc.value)
			}
			if diff := cmp.Diff(tc.want, faults(t, in, r)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// What can't be read is refused when the route is made, with the reason.
func TestStylesThatAreNone(t *testing.T) {
	t.Parallel()
	for members, want := range map[string]string{
		`"parameters":[{"name":"p","in":"query","style":"matrix"}]`:                                                          "the parameter p has the style matrix, which is none of a query parameter",
		`"parameters":[{"name":"p","in":"cookie","style":"deepObject"}]`:                                                     "the parameter p has the style deepObject, which is none of a cookie parameter",
		`"requestBody":{"content":{"multipart/form-data":{"schema":{"type":"object"},"encoding":{"f":{"style":"matrix"}}}}}`: "the body has a field f of the style matrix, which is none of forms",
		`"parameters":[{"name":"p","in":"query","content":{"application/xml":{"schema":{}}}}]`:                               "the parameter p has the media type application/xml, which this gateway does not know in parameters: JSON and text are",
	} {
		it, _ := made(t, definition("request-validation-inbound", `{}`))
		if _, said := it.Inbound(read(t, "/x", members, "")); len(said) != 1 || !strings.HasSuffix(said[0], want+"; a route without the policy, or with none for this place, passes it unchecked") {
			t.Errorf("%s: %q", members, said)
		}
		it, _ = made(t, definition("request-validation-inbound", `{"validateQueryParameters":"none","validateHeaders":"none","validateBody":"none"}`))
		if _, said := it.Inbound(read(t, "/x", members, "")); len(said) > 0 {
			t.Errorf("%s, which is not to be checked: %q", members, said)
		}
	}
}

// formOf returns a form with files; a name with @ is of a file, and what is before a | in a value is
// the part's media type.
func formOf(t *testing.T, fields ...string) (contentType string, body []byte) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(fields); i += 2 {
		name, isFile := strings.CutPrefix(fields[i], "@")
		kind, value, typed := strings.Cut(fields[i+1], "|")
		if !typed {
			value = fields[i+1]
		}
		header := textproto.MIMEHeader{"Content-Disposition": {`form-data; name="` + name + `"`}}
		if isFile {
			header.Set("Content-Disposition", `form-data; name="`+name+`"; filename="f"`)
		}
		if typed {
			header.Set("Content-Type", kind)
		}
		part, err := w.CreatePart(header)
		if err == nil {
			_, err = part.Write([]byte(value))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return w.FormDataContentType(), b.Bytes()
}

// A body of each media type that the document has is held to its schema, or passes; of another it
// is refused.
func TestBodies(t *testing.T) {
	t.Parallel()
	const order = `"Order":{"type":"object","required":["item","id"],"additionalProperties":false,"properties":{"id":{"type":"string","readOnly":true},"item":{"type":"string","maxLength":8},"count":{"type":"integer"},"tags":{"type":"array","items":{"type":"integer"}},"to":{"type":"object","required":["zip"],"properties":{"zip":{"type":"string"}}},"label":{"type":"string","format":"binary","maxLength":3}}}`
	const json, form, parts = `"application/json":{"schema":{"$ref":"#/components/schemas/Order"}}`, `"application/x-www-form-urlencoded":{"schema":{"$ref":"#/components/schemas/Order"}}`, `"multipart/form-data":{"schema":{"$ref":"#/components/schemas/Order"},"encoding":{"label":{"contentType":"image/png, image/*"}}}`
	const urlencoded = "application/x-www-form-urlencoded"
	short := `"text/plain":{"schema":{"type":"string","maxLength":3}}`
	boundary, good := formOf(t, "item", "pen", "count", "2", "tags", "1", "tags", "2", "to", `application/json|{"zip":"1"}`, "@label", "image/png|\xff\x00a")
	badBoundary, bad := formOf(t, "count", "x", "to", `{}`, "more", "1", "@label", "image/gif|\xff\x00ab")
	foreignBoundary, foreign := formOf(t, "item", "pen", "@label", "text/html|a")
	for name, tc := range map[string]struct {
		content, contentType, body string
		want                       []string
	}{
		"JSON of several":             {json + "," + form, "application/json", `{"item":"pen"}`, nil},
		"JSON of several, bad":        {form + "," + json, "application/json", `{"count":"2"}`, []string{"/count must be of type integer", "/item is required"}},
		"a form of several":           {json + "," + form, urlencoded + "; charset=UTF-8", "item=pen&count=2&tags=1&tags=2&to[zip]=0123", nil},
		"a form of several, bad":      {json + "," + form, urlencoded, "count=x&tags=a&to[city]=b&more=1", []string{"/count must be of type integer", "/item is required", "/more is not a known member", "/tags/0 must be of type integer", "/to/zip is required"}},
		"a form alone":                {form, urlencoded, "item=a+pen%21", nil},
		"a form alone, bad":           {form, urlencoded, "item=a+pen+that+is+long", []string{"/item must have 8 characters or fewer"}},
		"numbers that are texts":      {form, urlencoded, "item=12", nil},
		"an object in JSON":           {form, urlencoded, "item=a&to=%7B%22zip%22%3A%221%22%7D", nil},
		"names as PHP has them":       {form, urlencoded, "item=a&tags[]=1&tags[]=2", nil},
		"JSON for a form":             {form, "application/json", `{"item":"pen"}`, []string{"UNSUPPORTED_MEDIA_TYPE: The body must be application/x-www-form-urlencoded in UTF-8."}},
		"an array in one value":       {`"application/x-www-form-urlencoded":{"schema":{"$ref":"#/components/schemas/Order"},"encoding":{"tags":{"style":"form","explode":false}}}`, urlencoded, "item=a&tags=1,2", nil},
		"an array that is too long":   {`"application/x-www-form-urlencoded":{"schema":{"$ref":"#/components/schemas/Order"},"encoding":{"tags":{"style":"form","explode":false}}}`, urlencoded, "item=a&tags=" + strings.Repeat("1,", 40_000) + "1", []string{"/tags is too long to be checked"}},
		"too many fields":             {form, urlencoded, "item=a" + strings.Repeat("&", 1<<20-10), []string{"has more than 1000 fields"}},
		"files":                       {parts, boundary, string(good), nil},
		"files, bad":                  {parts, badBoundary, string(bad), []string{"/count must be of type integer", "/item is required", "/label must have 3 characters or fewer", "/more is not a known member", "/to/zip is required"}},
		"a file of another type":      {parts, foreignBoundary, string(foreign), []string{"has a part of another media type than image/png, image/*"}},
		"no form with files":          {parts, "multipart/form-data; boundary=x", "item=pen", []string{"is not a form that can be read"}},
		"text":                        {short, "text/plain", "äöü", nil},
		"text that is too long":       {short, "text/plain; charset=iso-8859-1", "\xe4\xf6\xfc\xdf", []string{"must have 3 characters or fewer"}},
		"text among others":           {json + "," + short, "text/plain", "long", []string{"must have 3 characters or fewer"}},
		"a number as text":            {`"text/plain":{"schema":{"type":"integer"}}`, "text/plain", "x", []string{"must be of type integer"}},
		"a range, of text":            {`"text/*":{"schema":{"type":"string","maxLength":3}}`, "text/csv", "a,b,c", []string{"must have 3 characters or fewer"}},
		"a range, of JSON":            {`"application/*":{"schema":{"$ref":"#/components/schemas/Order"}}`, "application/json", `{}`, []string{"/item is required"}},
		"a range, of something else":  {`"text/*":{"schema":{"type":"string"}}`, "application/pdf", "x", []string{"UNSUPPORTED_MEDIA_TYPE: The body must be text/*."}},
		"anything, in JSON":           {`"*/*":{"schema":{"$ref":"#/components/schemas/Order"}}`, "application/json", `{"count":"x"}`, []string{"/count must be of type integer", "/item is required"}},
		"anything, in a form":         {`"*/*":{"schema":{"$ref":"#/components/schemas/Order"}}`, urlencoded, "count=1", []string{"/item is required"}},
		"anything, without a name":    {`"*/*":{"schema":{"$ref":"#/components/schemas/Order"}}`, "", `{}`, []string{"/item is required"}},
		"anything, in text":           {`"*/*":{"schema":{"$ref":"#/components/schemas/Order"}}`, "text/plain", "x", []string{"must be of type object"}},
		"anything, in XML":            {`"*/*":{"schema":{"$ref":"#/components/schemas/Order"}}`, "application/xml", "<x/>", nil},
		"anything at all":             {`"*/*":{}`, "image/png", "\x89PNG", nil},
		"the closer of two":           {`"*/*":{},` + short, "text/plain", "long", []string{"must have 3 characters or fewer"}},
		"csv":                         {`"text/csv":{"schema":{"type":"array","items":{"type":"string"}}}`, "text/csv; header=present", "a,b", nil},
		"bytes":                       {`"application/octet-stream":{"schema":{"type":"string","format":"binary"}}`, "application/octet-stream", "\xff", nil},
		"XML":                         {`"application/xml":{"schema":{"$ref":"#/components/schemas/Order"}}`, "application/xml", "<x/>", nil},
		"a media type that is none":   {json, "json", "{}", []string{"UNSUPPORTED_MEDIA_TYPE: The body must be application/json in UTF-8."}},
		"one of many that is not one": {json + "," + form + `,"text/csv":{}`, "image/png", "x", []string{"UNSUPPORTED_MEDIA_TYPE: The body must be application/json in UTF-8, application/x-www-form-urlencoded in UTF-8 or text/csv."}},
		"none":                        {form, urlencoded, "", []string{"is required"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := inbound(t, "request-validation-inbound", `{}`, read(t, "/x", `"requestBody":{"required":true,"content":{`+tc.content+`}}`, order))
			r := request()
			if tc.contentType != "" {
				r.Header.Set("Content-Type", tc.contentType)
			}
			r.Method, r.Body = http.MethodPut, []byte(tc.body)
			if diff := cmp.Diff(tc.want, faults(t, in, r)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// What passes unchecked is said when the route is made, and needs no reading of the body.
func TestUncheckedBodies(t *testing.T) {
	t.Parallel()
	const object = `{"schema":{"type":"object"}}`
	for content, want := range map[string]struct {
		notes string
		reads bool
	}{
		`"application/json":` + object:                     {"", true},
		`"text/plain":{"schema":{"type":"string"}}`:        {"", false},
		`"application/octet-stream":{}`:                    {"", false},
		`"application/xml":` + object:                      {"policy it: bodies of application/xml pass unchecked", false},
		`"text/csv":` + object:                             {"policy it: bodies of text/csv pass unchecked", false},
		`"*/*":` + object:                                  {"policy it: bodies of */* that are neither JSON, nor a form, nor text pass unchecked", true},
		`"application/xml":{},"multipart/mixed":` + object: {"policy it: bodies of multipart/mixed pass unchecked", false},
	} {
		in := inbound(t, "request-validation-inbound", `{}`, read(t, "/x", `"requestBody":{"content":{`+content+`}}`, ""))
		got := strings.Join(in.(interface{ Notes() []string }).Notes(), "; ")
		if got != want.notes || route.NeedsBody(in) != want.reads {
			t.Errorf("%s: noted %q, needs the body: %v", content, got, route.NeedsBody(in))
		}
	}
}

// Checking a form costs no more than its size allows, whatever its fields and the schema are.
func TestHostileForms(t *testing.T) {
	var values strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&values, ",%d", i)
	}
	const size = route.MaxRequest - 10
	for name, tc := range map[string]struct{ schema, encoding, body string }{
		"many fields":      {`{"type":"object"}`, `{}`, strings.Repeat("a&", size/2)},
		"one long array":   {`{"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"}}}}`, `{"a":{"style":"form","explode":false}}`, "a=" + strings.Repeat("1,", size/2)},
		"long enumeration": {`{"type":"object","additionalProperties":{"enum":["a"` + values.String() + `]}}`, `{}`, strings.Repeat("k[x][y]=1&", 990)},
	} {
		in := inbound(t, "request-validation-inbound", `{}`, read(t, "/x", `"requestBody":{"required":true,"content":{"application/x-www-form-urlencoded":{"schema":`+tc.schema+`,"encoding":`+tc.encoding+`}}}`, ""))
		r := request("Content-Type", "application/x-www-form-urlencoded")
		r.Method, r.Body = http.MethodPut, []byte(tc.body)
		t.Run(name, func(t *testing.T) {
			attack.Hold(t, len(tc.body), attack.Allowance{Bytes: 1 << 20}, func() { _ = faults(t, in, r) })
		})
	}
}
