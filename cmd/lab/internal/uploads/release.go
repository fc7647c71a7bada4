// Package uploads deploys one release after the other while requests go on, and judges every
// answer: none may fail, be made of two releases, or come from a release that is out of date.
package uploads

import (
	"archive/zip"
	"bytes"
	"fmt"
	"strconv"
)

const (
	// Path is the route whose answer says the number of the release, in the body and in
	// a header, which come from different files.
	Path          = "/release"
	releaseHeader = "X-Release"
)

// Release makes an archive whose files all say n. padding is how many routes it has besides,
// which makes its check take longer.
func Release(n, padding int) ([]byte, error) {
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for _, file := range []struct{ name, text string }{
		{"release.oas.json", routes(padding)}, {"policies.json", policies(n)}, {"release.txt", strconv.Itoa(n)},
	} {
		entry, err := w.Create(file.name)
		if err != nil {
			return nil, fmt.Errorf("make release %d: %w", n, err)
		}
		if _, err := entry.Write([]byte(file.text)); err != nil {
			return nil, fmt.Errorf("make release %d: %w", n, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("make release %d: %w", n, err)
	}
	return archive.Bytes(), nil
}

func routes(padding int) string {
	var paths bytes.Buffer
	route := func(path, id, options, more string) {
		if paths.Len() > 0 {
			paths.WriteString(",\n")
		}
		fmt.Fprintf(&paths, `%q: { "get": { "operationId": %q, "responses": { "200": { "description": "It." } },
  "x-gateway-route": { "handler": { "module": "$import(@gateway/runtime)", "export": "staticHandler", "options": { %s, "contentType": "text/plain" } }%s } } }`,
			path, id, options, more)
	}
	route(Path, "release", `"file": "release.txt"`, `, "policies": { "outbound": ["says-so"] }`)
	for i := range padding {
		route(fmt.Sprintf("/padding/%d/{id}", i), fmt.Sprintf("padding%d", i), `"body": "padding"`, "")
	}
	return `{ "openapi": "3.1.0", "info": { "title": "Release", "version": "1" }, "paths": {` + paths.String() + `} }`
}

func policies(n int) string {
	return fmt.Sprintf(`{ "policies": [ { "name": "says-so", "policyType": "set-headers-outbound", "handler": { "module": "$import(@gateway/runtime)",
  "export": "SetHeadersOutboundPolicy", "options": { "headers": [ { "name": %q, "value": "%d", "overwrite": true } ] } } } ] }`, releaseHeader, n)
}
