package mcpserver_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A tool whose body is a form is called with the form's fields. What is sent passes the validation of its own route, and any reader
// finds the fields.
func TestFormTools(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","required":["to"],"additionalProperties":false,"properties":{"to":{"type":"string"},"copies":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"}},` +
		`"meta":{"type":"object","additionalProperties":{"type":"string"}}}}`
	for media, meta := range map[string]string{"application/x-www-form-urlencoded": "meta[a]", "multipart/form-data": "meta"} {
		t.Run(media, func(t *testing.T) {
			t.Parallel()
			content := object{"schema": json.RawMessage(schema)}
			if meta != "meta" {
				content["encoding"] = object{"meta": object{"style": "deepObject", "explode": true}}
			}
			form := item{
				id: "label", path: "/labels/{id}", method: "POST", handler: module("seen"), inbound: []string{"validate"},
				more: object{"requestBody": object{"required": true, "content": object{media: content}}},
			}
			kept := new(seen)
			r := start(t, handlers{"seen": kept}, over(nil, form)...)
			r.ask("tools/call", `{"name":"label","arguments":{"id":"7","body":{"to":"Ada & <Söhne>+1","copies":2,"tags":["a,b","c"],"meta":{"a":"x"}}}}`).result()
			got := kept.last(t)
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(got.Body))
			if err != nil {
				t.Fatal(err)
			}
			request.Header = got.Header
			if err := request.ParseMultipartForm(1 << 20); err != nil && media == "multipart/form-data" {
				t.Fatal(err)
			}
			value := map[string]string{"meta": `{"a":"x"}`, "meta[a]": "x"}[meta]
			if said, want := fmt.Sprint(request.PostForm), fmt.Sprintf("map[copies:[2] %s:[%s] tags:[a,b c] to:[Ada & <Söhne>+1]]", meta, value); said != want {
				t.Errorf("the route reads %s, want %s", said, want)
			}
			for arguments, want := range map[string]string{
				`{"id":"7","body":{}}`: "to", `{"id":"7"}`: "body", `{"id":"7","body":{"to":"x","copies":"two"}}`: "/body/copies", `{"id":"7","body":{"to":"x","other":1}}`: "/body/other",
			} {
				if result := fmt.Sprint(r.ask("tools/call", `{"name":"label","arguments":`+arguments+`}`).result()); !strings.Contains(result, "isError:true") || !strings.Contains(result, want) {
					t.Errorf("%s: %s", arguments, result)
				}
			}
			kept.last(t) // none of these has reached it
		})
	}
}

// A form with a file is no tool, and the build says so.
func TestUploadsAreNoTools(t *testing.T) {
	t.Parallel()
	upload := item{id: "upload", method: "POST", more: object{"requestBody": object{"content": object{"multipart/form-data": object{
		"schema": json.RawMessage(`{"type":"object","properties":{"note":{"type":"string"},"scan":{"type":"string","format":"binary"}}}`),
	}}}}}
	if said := faults(t, over(nil, upload)...); !strings.Contains(said, "operation upload of routes.oas.json: its request can't become a tool's arguments: its form has a file, scan, but arguments are JSON; leave it out of the server's operations, or set mcp/enabled to false") {
		t.Error(said)
	}
	upload.mcp = object{"enabled": false}
	if got := start(t, nil, over(nil, upload)...).ask("tools/list", "").names("tools"); got != "" {
		t.Errorf("what is left out is listed: %s", got)
	}
}
