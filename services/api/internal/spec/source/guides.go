package source

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"

	"github.com/goccy/go-yaml"
)

// guidesFile is the route file that Guides writes.
const guidesFile = "guides.oas.json"

// docsServer is the path of the MCP server with the documentation.
const docsServer = "/mcp/docs"

// Guides returns the route file with a resource for each guide in a folder, and routes with these in
// the list of the MCP server that has the documentation.
func Guides(files fs.FS, routes []byte) (guides, listed []byte, err error) {
	var file yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(routes, &file, yaml.UseOrderedMap()); err != nil {
		return nil, nil, fmt.Errorf("read routes: %w", err)
	}
	names, err := fs.Glob(files, "*.md")
	if err != nil {
		return nil, nil, fmt.Errorf("list guides: %w", err)
	}
	var paths yaml.MapSlice
	ids := make([]string, 0, len(names))
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, nil, fmt.Errorf("read guide: %w", err)
		}
		title, _, _ := bytes.Cut(text, []byte("\n"))
		name = strings.TrimSuffix(name, ".md")
		ids = append(ids, "doc-"+name)
		paths = append(paths, yaml.MapItem{
			Key: docsServer + "/pages/" + name, Value: yaml.MapSlice{{Key: "get", Value: guideOf(name, strings.TrimPrefix(string(title), "# "))}},
		})
	}
	guides, err = indented(yaml.MapSlice{
		{Key: "openapi", Value: "3.1.0"},
		{Key: "info", Value: yaml.MapSlice{
			{Key: "title", Value: "Waybill's documentation"}, {Key: "version", Value: "1.0.0"},
			{Key: "description", Value: "Routes for the MCP server at " + docsServer + ", made from the folder docs."},
		}},
		{Key: "paths", Value: paths},
	})
	if err != nil {
		return nil, nil, err
	}
	listed, err = indented(withTools(file, docsServer, guidesFile, ids))
	return guides, listed, err
}

// guideOf returns the route of a guide, and the resource that it is.
func guideOf(name, title string) yaml.MapSlice {
	return yaml.MapSlice{
		{Key: "operationId", Value: "doc-" + name},
		{Key: "summary", Value: title},
		{Key: "responses", Value: yaml.MapSlice{{Key: "200", Value: yaml.MapSlice{{Key: "description", Value: "The page."}}}}},
		{Key: "x-gateway-route", Value: yaml.MapSlice{
			{Key: "handler", Value: yaml.MapSlice{{Key: "module", Value: "$import(./modules/waybill)"}, {Key: "export", Value: "doc-" + name}}},
			{Key: "policies", Value: yaml.MapSlice{{Key: "inbound", Value: []any{"docs-rate"}}}},
			{Key: "mcp", Value: yaml.MapSlice{
				{Key: "type", Value: "resource"}, {Key: "name", Value: name}, {Key: "uri", Value: "docs://" + name}, {Key: "mimeType", Value: "text/markdown"},
			}},
		}},
	}
}
