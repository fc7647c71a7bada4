package routefile_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/gateway/internal/routefile"
)

// parcel is a form as carriers document them, of either media type.
const parcel = `{"schema":{"$ref":"#/components/schemas/parcel"},"encoding":{
	"metadata":{"style":"deepObject","explode":true},"expand":{"style":"deepObject","explode":true},"lines":{"style":"deepObject"},
	"ids":{"explode":false},"codes":{"style":"pipeDelimited","explode":false},"point":{"style":"form"},"customs":{"contentType":"application/json"},"note":{"contentType":"text/plain"}}}`

const parcelSchema = `"parcel":{"type":"object","required":["weight"],"additionalProperties":{"type":"string"},"properties":{
	"weight":{"type":"number"},"fragile":{"type":"boolean"},"note":{"type":"string"},"tags":{"type":"array","items":{"type":"string"}},
	"metadata":{"type":"object","additionalProperties":{"type":"string"}},"expand":{"type":"array","items":{"type":"string"}},
	"lines":{"type":"array","items":{"type":"object","properties":{"sku":{"type":"string"},"n":{"type":"integer"},"marks":{"type":"array","items":{"type":"string"}}}}},
	"ids":{"type":"array","items":{"type":"string"}},"codes":{"type":"array","items":{"type":"integer"}},
	"address":{"type":"object","properties":{"city":{"type":"string"}}},"boxes":{"type":"array","items":{"type":"object"}},
	"customs":{"type":"array","items":{"type":"string"}},"gone":{"type":["string","null"]}}}`

const parcelArguments = `{"weight":2.50,"fragile":false,"note":"a&b=c é","tags":["x,y","z"],"metadata":{"order id":"6735","a]":"b"},"expand":["rates"],` +
	`"lines":[{"sku":"s1","n":2,"marks":["p","q"]},{"sku":"s2"}],"ids":["1,2","3"],"codes":[7,8],"address":{"city":"Ghent"},"boxes":[{"w":1},{"w":2}],"customs":["c"],"gone":null,"extra":"more"}`

func form(media string) string { return `"requestBody":{"content":{"` + media + `":` + parcel + `}}` }

// Arguments are sent in a form as its encoding says, and read back as they were.
func TestForm(t *testing.T) {
	t.Parallel()
	o := operation(t, "3.1.0", "/x", form(routefile.Urlencoded), parcelSchema)
	if schema, err := o.Input(); err != nil || !strings.Contains(string(schema), `"weight":{"type":"number"}`) {
		t.Fatalf("schema is %s, %v", schema, err)
	}
	call, found := o.Arguments(t.Context(), []byte(parcelArguments))
	if len(found) > 0 {
		t.Fatal(found)
	}
	want := strings.Join([]string{
		"weight=2.50", "fragile=false", "note=a%26b%3Dc%20%C3%A9", "tags=x%2Cy", "tags=z", "metadata%5Border%20id%5D=6735", "metadata%5Ba%5D%5D=b", "expand%5B0%5D=rates",
		"lines%5B0%5D%5Bsku%5D=s1", "lines%5B0%5D%5Bn%5D=2", "lines%5B0%5D%5Bmarks%5D%5B0%5D=p", "lines%5B0%5D%5Bmarks%5D%5B1%5D=q", "lines%5B1%5D%5Bsku%5D=s2",
		"ids=1%2C2,3", "codes=7%7C8", "address=%7B%22city%22%3A%22Ghent%22%7D", "boxes=%7B%22w%22%3A1%7D", "boxes=%7B%22w%22%3A2%7D", "customs=%5B%22c%22%5D", "extra=more",
	}, "&")
	if diff := cmp.Diff(want, string(call.Body)); diff != "" || call.Header.Get("Content-Type") != routefile.Urlencoded {
		t.Errorf("%v, body (-want +got):\n%s", call.Header, diff)
	}
	var parts []routefile.Part
	for _, pair := range routefile.Pairs(string(call.Body)) {
		parts = append(parts, routefile.Part{Name: pair.Name, Text: pair.Value})
	}
	shape := o.File.Schemas.Shape(o.Media[0].Pointer)
	for _, reading := range o.Media[0].Form(shape, parts, true) {
		if diff := cmp.Diff(strings.Replace(parcelArguments, `"gone":null,`, "", 1), string(reading)); diff != "" {
			t.Errorf("read back (-want +got):\n%s", diff)
		}
	}
}

// The same in parts, each with the media type that it needs.
func TestMultipartForm(t *testing.T) {
	t.Parallel()
	o := operation(t, "3.1.0", "/x/{id}", parameters(`{"name":"id","in":"path"}`)+","+form(routefile.FormData), parcelSchema)
	call, found := o.Arguments(t.Context(), []byte(`{"id":"1","body":`+parcelArguments+`}`))
	if len(found) > 0 {
		t.Fatal(found)
	}
	kind, params, err := mime.ParseMediaType(call.Header.Get("Content-Type"))
	if err != nil || kind != routefile.FormData || call.Path != "/x/1" {
		t.Fatalf("%s %v %v", call.Path, call.Header, err)
	}
	var got []string
	for reader := multipart.NewReader(bytes.NewReader(call.Body), params["boundary"]); ; {
		part, err := reader.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, part.FormName()+" ("+part.Header.Get("Content-Type")+"): "+string(content))
	}
	want := []string{
		"weight (): 2.50", "fragile (): false", "note (text/plain): a&b=c é", "tags (): x,y", "tags (): z", "metadata[order id] (): 6735", "metadata[a]] (): b", "expand[0] (): rates",
		"lines[0][sku] (): s1", "lines[0][n] (): 2", "lines[0][marks][0] (): p", "lines[0][marks][1] (): q", "lines[1][sku] (): s2", "ids (): 1,2,3", "codes (): 7|8",
		`address (application/json): {"city":"Ghent"}`, `boxes (application/json): {"w":1}`, `boxes (application/json): {"w":2}`, `customs (application/json): ["c"]`, "extra (): more",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
	// What a field is called ends neither its header nor the part.
	call, found = o.Arguments(t.Context(), []byte(`{"id":"1","body":{"weight":1,"a\"; filename=\"f\r\nX-Header: y\r\n\r\nz":"v"}}`))
	if len(found) > 0 || strings.Contains(string(call.Body), "\nX-Header") || !strings.Contains(string(call.Body), `name="a\"; filename=\"f%0D%0AX-Header: y%0D%0A%0D%0Az"`) {
		t.Errorf("%v %s", found, call.Body)
	}
}

// Which forms arguments can be, and why others are none.
func TestFormsOfTools(t *testing.T) {
	t.Parallel()
	content := func(media string) string { return `"requestBody":{"content":{` + media + `}}` }
	object := func(properties string) string {
		return `{"schema":{"type":"object","properties":{` + properties + `}}}`
	}
	for name, tc := range map[string]struct{ version, members, want string }{
		"a form and JSON":                   {"3.1.0", content(`"` + routefile.Urlencoded + `":` + parcel + `,"application/json":` + object(`"json":{}`)), `{"type":"object","properties":{"json":{}}}`},
		"a form with files and one without": {"3.1.0", content(`"multipart/form-data":` + object(`"f":{"type":"string","format":"binary"}`) + `,"application/x-www-form-urlencoded":` + object(`"t":{}`)), `{"type":"object","properties":{"t":{}}}`},
		"a file":                            {"3.0.3", content(`"multipart/form-data":` + object(`"f":{"type":"string","format":"binary"}`)), "its form has a file, f, but arguments are JSON"},
		"a file as 3.1 has it":              {"3.1.0", content(`"multipart/form-data":` + object(`"f":{"contentMediaType":"application/octet-stream"}`)), "its form has a file, f, but arguments are JSON"},
		"a file by its encoding":            {"3.1.0", content(`"multipart/form-data":{"schema":{"type":"object","properties":{"t":{},"f":{"type":"string"}}},"encoding":{"f":{"contentType":"image/png, image/jpeg"},"t":{"contentType":"text/csv"}}}`), "its form has a file, f, but arguments are JSON"},
		"bytes in base64":                   {"3.1.0", content(`"multipart/form-data":` + object(`"f":{"contentMediaType":"application/octet-stream","contentEncoding":"base64"}`)), `{"type":"object","properties":{"f":{"contentMediaType":"application/octet-stream","contentEncoding":"base64"}}}`},
		"a style that is none":              {"3.1.0", content(`"application/x-www-form-urlencoded":{"schema":{"type":"object"},"encoding":{"a":{"style":"wavy"}}}`), `{"type":"object","properties":{},"additionalProperties":false}`},
		"a form of nothing in particular":   {"3.1.0", content(`"application/x-www-form-urlencoded":{}`), `{"type":"object","properties":{},"additionalProperties":false}`},
		"a schema that is faulty":           {"3.1.0", content(`"application/x-www-form-urlencoded":{"schema":{"type":"object","properties":{"a":{"type":"wavy"}}}}`), `{"type":"object","properties":{},"additionalProperties":false}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := operation(t, tc.version, "/x", tc.members, parcelSchema).Input()
			if err != nil {
				got = []byte(err.Error())
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, found := operation(t, "3.1.0", "/x", content(`"application/x-www-form-urlencoded":`+object(`"a":{}`)), "").Arguments(t.Context(), []byte(`{"a":"`+strings.Repeat("x", 1<<20)+`"}`)); len(found) != 1 || !strings.Contains(found[0].Detail, "bytes for a form") {
		t.Errorf("a form of more than a route takes: %v", found)
	}
}

// A name stands before each of its values, so a short body could make a form or a URL of gigabytes.
func TestLongNamesAreBounded(t *testing.T) {
	t.Parallel()
	const tags = `"type":"array","items":{"type":"integer"}`
	for name, tc := range map[string]struct {
		members, shape string // of the operation, and of the arguments, with the name as %[1]s and the values as %[2]s
		length, values int
	}{
		"a form":             {form(routefile.Urlencoded), `{"weight":1,"%[1]s":[%[2]s]}`, 100_000, 100_000},
		"a form in parts":    {form(routefile.FormData), `{"weight":1,"%[1]s":[%[2]s]}`, 100_000, 100_000},
		"parts without text": {form(routefile.FormData), `{"weight":1,"%[1]s":[%[2]s]}`, 1, 200_000},
		"a form, deep":       {form(routefile.Urlencoded), `{"weight":1,"lines":[{"%[1]s":[%[2]s]}]}`, 100_000, 100_000},
		"a query":            {parameters(`{"name":"q","in":"query","style":"form","explode":true,"schema":{"type":"object","additionalProperties":{` + tags + `}}}`), `{"q":{"%[1]s":[%[2]s]}}`, 20_000, 20_000},
		"a query, deep":      {parameters(`{"name":"q","in":"query","style":"deepObject","explode":true,"schema":{"type":"object"}}`), `{"q":{"%[1]s":[%[2]s]}}`, 20_000, 20_000},
		"a query, nested":    {parameters(`{"name":"q","in":"query","style":"deepObject","explode":true,"schema":{"type":"object"}}`), `{"q":{"%[1]s":` + strings.Repeat("[", 50) + `%[2]s` + strings.Repeat("]", 50) + `}}`, 20_000, 20_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schemas := strings.Replace(parcelSchema, `"additionalProperties":{"type":"string"}`, `"additionalProperties":true`, 1)
			o := operation(t, "3.1.0", "/x", tc.members, schemas)
			args := fmt.Sprintf(tc.shape, strings.Repeat("n", tc.length), strings.TrimSuffix(strings.Repeat("1,", tc.values), ","))
			call, found := o.Arguments(t.Context(), []byte(args))
			if call != nil || len(found) != 1 || !strings.HasPrefix(found[0].Detail, "has more than ") {
				t.Errorf("a call: %v, violations: %.300s", call != nil, fmt.Sprint(found))
			}
		})
	}
}
