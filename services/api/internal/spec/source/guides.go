package source

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"waybill.dev/services/api/internal/docsite"
)

// guidesFile is the route file with the MCP server of the documentation.
const guidesFile = "docs.oas.json"

const (
	guidePaths = "/mcp/docs/pages/" // beginning of the paths of guides' routes
	guideIDs   = "doc-"             // begins their ids
)

// Guides returns the route file with the MCP server of the documentation, with a resource for
// each guide of the folder docs.
func Guides(file []byte) ([]byte, error) {
	var routes yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(file, &routes, yaml.UseOrderedMap()); err != nil {
		return nil, fmt.Errorf("read routes: %w", err)
	}
	guides, err := docsite.NewLibrary().Guides()
	if err != nil {
		return nil, err
	}
	paths := slices.DeleteFunc(object(get(routes, "paths")), func(m yaml.MapItem) bool {
		return strings.HasPrefix(fmt.Sprint(m.Key), guidePaths)
	})
	options := []string{"/mcp/docs", "post", "x-gateway-route", "handler", "options", "operations"}
	listed, _ := get(paths, options...).([]any)
	listed = slices.DeleteFunc(slices.Clone(listed), func(entry any) bool {
		id, _ := get(entry, "id").(string)
		return strings.HasPrefix(id, guideIDs)
	})
	for _, g := range guides {
		name := strings.TrimSuffix(g.Path, ".md")
		paths = append(paths, yaml.MapItem{Key: guidePaths + name, Value: yaml.MapSlice{{Key: "get", Value: guideRoute(g, name)}}})
		listed = append(listed, yaml.MapSlice{{Key: "file", Value: guidesFile}, {Key: "id", Value: guideIDs + name}})
	}
	paths = set(paths, listed, options[0], options[1:]...)
	return indented(set(routes, paths, "paths"))
}

// guideRoute returns the route that answers with a guide. The route is an MCP resource as well.
func guideRoute(g docsite.Guide, name string) yaml.MapSlice {
	return yaml.MapSlice{
		{Key: "operationId", Value: guideIDs + name},
		{Key: "summary", Value: g.Title},
		{Key: "description", Value: g.Title + ". " + g.Lede},
		{Key: "responses", Value: yaml.MapSlice{{Key: "200", Value: yaml.MapSlice{{Key: "description", Value: "The page in Markdown."}}}}},
		{Key: "x-gateway-route", Value: yaml.MapSlice{
			{Key: "handler", Value: yaml.MapSlice{{Key: "module", Value: "$import(./modules/docs)"}, {Key: "export", Value: g.Path}}},
			{Key: "policies", Value: yaml.MapSlice{{Key: "inbound", Value: []any{"docs-calls"}}}},
			{Key: "mcp", Value: yaml.MapSlice{
				{Key: "type", Value: "resource"}, {Key: "name", Value: name},
				{Key: "uri", Value: docsite.Scheme + g.Path}, {Key: "mimeType", Value: "text/markdown"},
			}},
		}},
	}
}
