package mcpserver

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
)

// catalog is everything that a server exposes.
type catalog struct {
	tools, prompts, resources, templates shelf

	names  map[string]string // of resources and templates: name → operation
	shapes map[string]string // of templates: the uri without the names of variables → operation

	toolsets []string // tags of the tools' operations, in their order
}

// newCatalog makes the catalog, or returns its faults.
func newCatalog(targets []Target, s settings) (*catalog, []string) {
	c := &catalog{
		tools:     shelf{member: "tools", byKey: make(map[string]int)},
		prompts:   shelf{member: "prompts", byKey: make(map[string]int)},
		resources: shelf{member: "resources", byKey: make(map[string]int)},
		templates: shelf{member: "resourceTemplates", byKey: make(map[string]int)},
		names:     make(map[string]string),
		shapes:    make(map[string]string),
	}
	var faults []string
	for _, t := range targets {
		def := t.Definition.Exposed()
		if t.Definition.Handler.Module == routefile.Runtime && t.Definition.Handler.Export == "mcpServerHandler" {
			faults = append(faults, fmt.Sprintf("operation %s of %s is an MCP server itself", t.Definition.ID, t.Definition.File.Name))
			continue
		}
		if !def.Enabled {
			continue
		}
		if err := c.add(t, def, s); err != nil {
			faults = append(faults, fmt.Sprintf("operation %s of %s: %v", t.Definition.ID, t.Definition.File.Name, err))
		}
	}
	for _, shelf := range []*shelf{&c.tools, &c.prompts, &c.resources, &c.templates} {
		shelf.seal()
	}
	return c, faults
}

func (c *catalog) add(t Target, def routefile.MCPDef, s settings) error {
	switch def.Type {
	case routefile.Tool:
		return c.addTool(t, def, s)
	case routefile.Prompt:
		return c.addPrompt(t, def)
	case routefile.Resource:
		return c.addResource(t, def)
	}
	return fmt.Errorf("there is no mcp type %q", def.Type)
}

// listEntry is an entry of a list. Which members there are depends on its kind.
type listEntry struct {
	Name         string         `json:"name"`
	URI          string         `json:"uri,omitzero"`
	URITemplate  string         `json:"uriTemplate,omitzero"`
	Title        string         `json:"title"`
	Description  string         `json:"description"`
	MimeType     string         `json:"mimeType,omitzero"`
	Arguments    []argument     `json:"arguments,omitempty"`
	InputSchema  jsontext.Value `json:"inputSchema,omitzero"`
	OutputSchema jsontext.Value `json:"outputSchema,omitzero"`
	Annotations  jsontext.Value `json:"annotations,omitzero"`
	Meta         jsontext.Value `json:"_meta,omitzero"`
}

// addResource adds a resource, or a template when the path of its route has parameters. Two entries
// with the same name or uri would hide each other, so that is a fault.
func (c *catalog) addResource(t Target, def routefile.MCPDef) error {
	if other, taken := c.names[def.Name]; taken {
		return fmt.Errorf("the resource name %q is taken by operation %s", def.Name, other)
	}
	c.names[def.Name] = t.Definition.ID
	shown := listEntry{
		Name: def.Name, Title: def.Name, Description: def.Description, Meta: def.Meta,
		// The list does not ask the route.
		MimeType: cmp.Or(def.MimeType, mediaType(http.Header{"Content-Type": {t.MediaType}}), t.Definition.Answer, plainText),
	}
	r := &resource{mimeType: def.MimeType, line: def.URI + " (" + shown.MimeType + "): " + def.Description + "\n"}
	if strings.ContainsAny(def.URI, "{}") {
		var err error
		if r.template, err = newTemplate(def.URI); err != nil {
			return err
		}
		if other, taken := c.shapes[r.template.shape]; taken {
			return fmt.Errorf("the uri %q is that of operation %s, too", def.URI, other)
		}
		c.shapes[r.template.shape] = t.Definition.ID
		shown.URITemplate = def.URI
		return c.templates.put(t, def.URI, shown, entry{resource: r})
	}
	key := normalURI(def.URI)
	if i, taken := c.resources.byKey[key]; taken {
		return fmt.Errorf("the uri %q is that of operation %s, too", def.URI, c.resources.entries[i].target.Definition.ID)
	}
	call, violations := t.Definition.CallFromPath(context.Background(), nil)
	if len(violations) > 0 {
		return fmt.Errorf("a resource whose route needs parameters needs a uri with the same variables: %s %s",
			violations[0].Pointer, violations[0].Detail)
	}
	r.fixed, r.changes = call, t.ChangesWith
	shown.URI = def.URI
	return c.resources.put(t, key, shown, entry{resource: r})
}

// put adds an entry under its key, which is new.
func (s *shelf) put(t Target, key string, shown listEntry, e entry) error {
	encoded, err := json.Marshal(shown)
	if err != nil {
		return fmt.Errorf("encode the list's entry: %w", err)
	}
	e.key, e.json, e.target = key, encoded, t
	s.byKey[key] = len(s.entries)
	s.entries = append(s.entries, &e)
	return nil
}

// seal encodes the whole list, for callers that may use all of it.
func (s *shelf) seal() {
	if len(s.entries) == 0 || len(s.entries) > pageSize {
		return
	}
	for _, e := range s.entries {
		s.all = append(append(s.all, ','), e.json...)
	}
	s.all = s.all[1:]
}

// resolve finds the resource of a uri, if the caller may read it, and the call that reads it.
func (c *catalog) resolve(ctx context.Context, uri string, r *route.Request) (*entry, *routefile.Call) {
	uri = normalURI(uri)
	if found := c.resources.find(uri, r); found != nil {
		return found, found.resource.fixed
	}
	for _, e := range c.templates.entries {
		params, ok := e.resource.template.match(uri)
		if !ok || !e.sees(r) {
			continue
		}
		if call, violations := e.target.Definition.CallFromPath(ctx, params); len(violations) == 0 {
			return e, call
		}
	}
	return nil, nil
}
