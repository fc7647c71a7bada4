package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"waybill.dev/services/gateway/internal/jsonschema"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/jsonscan"
)

// tool is what an entry has that is a tool.
type tool struct {
	input      jsontext.Value
	structured bool     // JSON answers are given as structuredContent, too
	headers    []string // arguments that clients repeat in headers
}

// toolName is what clients take for the name of a tool. An operation that is a tool without
// saying so is called by its operationId, which may be anything.
var toolName = regexp.MustCompile(`^[A-Za-z0-9_./-]{1,64}$`)

func (c *catalog) addTool(t Target, def routefile.MCPDef, s settings) error {
	if i, taken := c.tools.byKey[def.Name]; taken {
		return fmt.Errorf("the tool name %q is taken by operation %s", def.Name, c.tools.entries[i].target.Definition.ID)
	}
	if !toolName.MatchString(def.Name) {
		return fmt.Errorf("%q is not a valid name for a tool: 1 to 64 characters of A-Z a-z 0-9 _ . / -", def.Name)
	}
	input, err := t.Definition.Input()
	if err != nil {
		return fmt.Errorf("its request can't become a tool's arguments: %w", err)
	}
	shown := listed{
		Name: def.Name, Title: title(def), Description: def.Description,
		InputSchema: input, Annotations: def.Annotations, Meta: def.Meta,
	}
	if s.IncludeOutputSchema && t.Definition.Output != "" {
		output, err := t.Definition.File.Schemas.Bundle(t.Definition.Output)
		if err != nil {
			return fmt.Errorf("its response's schema: %w", err)
		}
		// Before 2026-07-28 clients refuse a tool whose output is no object.
		if isObjectSchema(output) {
			shown.OutputSchema = output
		}
	}
	own := &tool{input: input, headers: inHeaders(input), structured: s.IncludeStructuredContent || shown.OutputSchema != nil}
	return c.tools.put(t, def.Name, shown, entry{tool: own})
}

// title is what people see: the name when nobody has set anything else.
func title(def routefile.MCPDef) string {
	var annotations struct {
		Title string `json:"title"`
	}
	if len(def.Annotations) > 0 && json.Unmarshal(def.Annotations, &annotations) == nil && annotations.Title != "" {
		return annotations.Title
	}
	return def.Name
}

// inHeaders returns the properties of a schema that have x-mcp-header somewhere.
func inHeaders(schema jsontext.Value) []string {
	var properties jsontext.Value
	fields{"properties": &properties}.read(schema)
	var names []string
	for raw, property := range jsonscan.Value(properties).Members() {
		if bytes.Contains(property, []byte(`"x-mcp-header"`)) {
			name, _ := raw.Text()
			names = append(names, name)
		}
	}
	return names
}

func isObjectSchema(schema jsontext.Value) bool {
	var s struct {
		Type any `json:"type"`
	}
	return json.Unmarshal(schema, &s) == nil && s.Type == "object"
}

// callTool checks the arguments, calls the tool's route and makes a result of its answer.
// Faults of the arguments and of the route are results, which the model can read and
// learn from; errors of the protocol would be the client's affair.
func callTool(ctx context.Context, x *exchange) *mcp.CallToolResult {
	call, violations := x.entry.target.Definition.Arguments(ctx, x.arguments)
	if len(violations) > 0 {
		return toolError(describe(violations))
	}
	return toolResult(x.entry, x.invoke(call), x.era)
}

func toolError(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// describe names the faults of arguments, without the values.
func describe(violations []jsonschema.Violation) string {
	var b strings.Builder
	b.WriteString("The arguments do not match the tool's schema:")
	for _, v := range violations {
		b.WriteString("\n")
		if v.Pointer != "" {
			b.WriteString(v.Pointer + ": ")
		}
		b.WriteString(v.Detail)
	}
	return b.String()
}

func toolResult(e *entry, response *route.Response, of era) *mcp.CallToolResult {
	if response.Stream != nil {
		return toolError("The tool's route answers with a stream, which a tool can't show.")
	}
	isError := response.Status < 200 || response.Status > 299
	answered := mediaType(response.Header)
	if answered == native && !isError {
		result := new(mcp.CallToolResult)
		if err := readNative(response.Body, result); err != nil {
			return toolError("The tool's route has given a result that is not one of MCP.")
		}
		return result
	}
	result := &mcp.CallToolResult{IsError: isError}
	if isError && len(response.Body) == 0 {
		result.Content = []mcp.Content{&mcp.TextContent{Text: statusText(response.Status)}}
		return result
	}
	result.Content = []mcp.Content{content(e.key, answered, response.Body)}
	if e.tool.structured && !isError && isJSONType(answered) {
		// Before 2026-07-28 clients take objects alone.
		if value := jsontext.Value(response.Body); value.IsValid() && (of == modern || value.Kind() == kindObject) {
			result.StructuredContent = json.RawMessage(value)
		}
	}
	return result
}

func statusText(status int) string {
	return strings.TrimSpace("The tool's route has answered with status " + strconv.Itoa(status) + " " + http.StatusText(status))
}

// content is a route's answer as an item of a tool's result or of a prompt's message.
func content(name, answered string, body []byte) mcp.Content {
	switch {
	case isText(answered):
		return &mcp.TextContent{Text: strings.ToValidUTF8(string(body), "\uFFFD")}
	case strings.HasPrefix(answered, "image/"):
		return &mcp.ImageContent{MIMEType: answered, Data: body}
	case strings.HasPrefix(answered, "audio/"):
		return &mcp.AudioContent{MIMEType: answered, Data: body}
	}
	return &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "mcp://results/" + name, MIMEType: answered, Blob: body}}
}

// readNative reads a result that a route has made itself. Values of its own stay as they
// are written: no number passes through a float.
func readNative(body []byte, result *mcp.CallToolResult) error {
	if !jsontext.Value(body).IsValid() {
		return errors.New("it is not valid JSON")
	}
	if err := json.Unmarshal(body, result); err != nil {
		return fmt.Errorf("decode it: %w", err)
	}
	var raw struct {
		StructuredContent json.RawMessage `json:"structuredContent"`
	}
	if err := json.Unmarshal(body, &raw); err != nil {
		return fmt.Errorf("decode it: %w", err)
	}
	if raw.StructuredContent != nil {
		result.StructuredContent = raw.StructuredContent
	}
	return nil
}
