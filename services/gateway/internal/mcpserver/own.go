package mcpserver

import (
	"context"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/jsonschema"
	"waybill.dev/services/gateway/internal/route"
)

// The names of the server's own tools.
const (
	findTools    = "find_tools"
	callTools    = "call_tool"
	readResource = "read_resource"
)

// ownTool is a tool of the server itself.
type ownTool struct {
	name   string
	json   []byte // the tool in the list
	schema *jsonschema.Schema
	call   func(ctx context.Context, r *route.Request, q *request, arguments jsontext.Value) *messageAnswer
}

// ownTools makes the tools of the server itself that its settings ask for.
func (s *server) ownTools(settings settings) ([]*ownTool, error) {
	var tools []*ownTool
	add := func(name, title, description, schema string, readOnly bool, call func(context.Context, *route.Request, *request, jsontext.Value) *messageAnswer) error {
		hints := `{"title":` + string(appendText(nil, title)) + `,"readOnlyHint":true,"openWorldHint":false}`
		if !readOnly {
			hints = `{"title":` + string(appendText(nil, title)) + `,"readOnlyHint":false,"destructiveHint":true,"idempotentHint":false,"openWorldHint":false}`
		}
		encoded, err := json.Marshal(listEntry{Name: name, Title: title, Description: description, InputSchema: jsontext.Value(schema), Annotations: jsontext.Value(hints)})
		if err != nil {
			return err
		}
		compiled, err := jsonschema.Compile(jsontext.Value(schema))
		if err != nil {
			return err
		}
		tools = append(tools, &ownTool{name, encoded, compiled, call})
		return nil
	}
	if s.searches() {
		sets := strings.Join(s.catalog.toolsets, ", ")
		if err := add(findTools, "Find tools", "Finds more tools than are listed, and describes them with their arguments. Say what you want to do. "+
			"Without a query, it names all tools. Toolsets: "+sets+". Then use "+callTools+".",
			`{"type":"object","properties":{"query":{"type":"string","maxLength":200,"description":"What the tool is to do, such as: roll the keys of a consumer."},`+
				`"toolset":{"type":"string","maxLength":64,"description":"Only tools of this toolset."},`+
				`"limit":{"type":"integer","minimum":1,"maximum":20,"default":5,"description":"How many tools to describe."}},"additionalProperties":false}`,
			true, s.answerFindTools); err != nil {
			return nil, err
		}
		if err := add(callTools, "Call a tool", "Calls a tool that "+findTools+" has described, with its arguments. It does what a call of the tool itself does. "+
			"Mind the annotations of the tool: ask before you call a destructive one.",
			`{"type":"object","properties":{"name":{"type":"string","maxLength":64,"description":"The tool's name."},`+
				`"arguments":{"type":"object","description":"The tool's arguments, as its inputSchema says."}},"required":["name"],"additionalProperties":false}`,
			false, s.callNamed); err != nil {
			return nil, err
		}
	}
	if settings.ResourceTool {
		if err := add(readResource, "Read a resource", "Reads a resource of this server, for clients that can't read resources themselves. Without a uri, it lists them.",
			`{"type":"object","properties":{"uri":{"type":"string","maxLength":8192,"description":"Which resource."},`+
				`"offset":{"type":"integer","minimum":0,"default":0,"description":"Where in its text to begin, in bytes."}},"additionalProperties":false}`,
			true, s.readForTool); err != nil {
			return nil, err
		}
	}
	return tools, nil
}

// ownTool returns the server's own tool with a name, if the client sees it, otherwise nil.
func (s *server) ownTool(name string, r *route.Request) *ownTool {
	for _, tool := range s.own {
		if tool.name == name && (name == readResource || len(toolsets(r)) == 0) {
			return tool
		}
	}
	return nil
}

// answer checks the arguments and calls the tool.
func (t *ownTool) answer(ctx context.Context, s *server, r *route.Request, q *request, arguments jsontext.Value) *messageAnswer {
	q.tool = t.name
	if violations := t.schema.Validate(ctx, arguments); len(violations) > 0 {
		return s.textResult(q, describe(violations), true)
	}
	return t.call(ctx, r, q, arguments)
}

// textResult answers with a tool's result that is a text.
func (s *server) textResult(q *request, text string, isError bool) *messageAnswer {
	a := beginResult(q, len(text)*5/4)
	a.body = appendText(append(a.body, `{"content":[{"type":"text","text":`...), text)
	a.body = append(a.body, "}]"...)
	if isError {
		a.body = append(a.body, `,"isError":true`...)
	}
	return s.end(a, q)
}

// callNamed calls the tool that the arguments name, as if the client had called it.
func (s *server) callNamed(ctx context.Context, r *route.Request, q *request, arguments jsontext.Value) *messageAnswer {
	var name, given jsontext.Value
	fields{"name": &name, "arguments": &given}.read(arguments)
	named, _ := text(name)
	return s.invoke(ctx, r, q, call{from: &s.catalog.tools, name: named, arguments: given, missing: missingTool, indirect: true})
}

// answerFindTools answers with the tools that fit a question best, or with the names of all.
func (s *server) answerFindTools(_ context.Context, r *route.Request, q *request, arguments jsontext.Value) *messageAnswer {
	asked := struct {
		Query   string  `json:"query"`
		Toolset string  `json:"toolset"`
		Limit   float64 `json:"limit"` // clients may write 5.0
	}{Limit: 5}
	if err := json.Unmarshal(arguments, &asked); err != nil {
		return internal().answer(q) // the schema guarantees that the arguments can be read
	}
	var usable []*entry
	sees := seeing(r)
	for _, e := range s.catalog.tools.entries {
		if sees(e) && (asked.Toolset == "" || slices.Contains(e.target.Definition.Tags, asked.Toolset)) {
			usable = append(usable, e)
		}
	}
	b := []byte(`{"tools":[`)
	described := 0
	if strings.TrimSpace(asked.Query) == "" {
		b = append(append(b[:0], `{"names":`...), appendTexts(nil, keys(usable))...)
	} else {
		usable = rankTools(usable, asked.Query)
		for _, e := range usable[:min(int(asked.Limit), len(usable))] {
			if described > 0 && len(b)+len(e.json) > s.maxResult {
				break
			}
			if described > 0 {
				b = append(b, ',')
			}
			b = append(b, e.json...)
			described++
		}
		b = append(b, ']')
		if rest := usable[described:min(len(usable), described+manyTools)]; len(rest) > 0 {
			b = append(append(b, `,"more":`...), appendTexts(nil, keys(rest))...)
		}
	}
	b = append(append(b, `,"toolsets":`...), appendTexts(nil, s.catalog.toolsets)...)
	return s.textResult(q, string(append(b, '}')), false)
}

func keys(entries []*entry) []string {
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.key
	}
	return names
}

// readForTool reads a piece of a resource, or lists all.
func (s *server) readForTool(ctx context.Context, r *route.Request, q *request, arguments jsontext.Value) *messageAnswer {
	var asked struct {
		URI    *string `json:"uri"`
		Offset float64 `json:"offset"`
	}
	if err := json.Unmarshal(arguments, &asked); err != nil {
		return internal().answer(q) // the schema guarantees that the arguments can be read
	}
	if asked.URI == nil {
		return s.textResult(q, s.resourceList(r), false)
	}
	found, response, failed := s.fetch(ctx, r, q, *asked.URI)
	if failed != nil {
		return s.textResult(q, failed.message, true)
	}
	shown, body, readable := shownAs(r, found.resource.mimeType, response)
	if !readable {
		a := beginResult(q, len(body)*3/2)
		a.body = append(a.body, `{"content":[{"type":"resource","resource":`...)
		a.body = append(appendContent(a.body, *asked.URI, shown, false, body), "}]"...)
		return s.end(a, q)
	}
	rest := body[int(min(asked.Offset, float64(len(body)))):]
	piece := cutText(string(rest), s.maxResult)
	if len(piece) < len(rest) {
		next := len(body) - len(rest) + len(piece)
		piece += cutNote(len(body), next, "Go on with offset "+itoa(next)+".")
	}
	return s.textResult(q, piece, false)
}

// resourceList names the resources that the caller may read, one a line.
func (s *server) resourceList(r *route.Request) string {
	var b strings.Builder
	sees := seeing(r)
	for _, shelf := range []*shelf{&s.catalog.resources, &s.catalog.templates} {
		for _, e := range shelf.entries {
			if sees(e) {
				b.WriteString(e.resource.line)
			}
		}
	}
	return cutText(b.String(), s.maxResult)
}
