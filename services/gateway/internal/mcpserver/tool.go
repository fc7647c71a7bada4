package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"waybill.dev/services/gateway/internal/jsonschema"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/jsonscan"
)

// tool is the data of an entry that is a tool.
type tool struct {
	headers []boundHeader
	// output is the schema that answers must fit for clients that see it; nil: there is none.
	output *jsonschema.Schema
	// withOutput is the entry of the list with that schema.
	withOutput []byte
	// terms are the words by which the tool is found; nil: the server has no tool to find others.
	terms map[string]int
	// further says how to get the rest of an answer that is too long.
	further string
}

// toolName matches the names of tools that clients accept. An operation that is a tool by default is called
// by its operationId, which may be any text.
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
		return fmt.Errorf("its request can't become a tool's arguments: %w; leave it out of the server's operations, or set mcp/enabled to false", err)
	}
	shown := listEntry{
		Name: def.Name, Title: title(def), Description: def.Description,
		InputSchema: input, Annotations: def.Annotations, Meta: def.Meta,
	}
	headers, err := boundHeaders(nil, input, nil)
	if err != nil {
		return fmt.Errorf("its input can't be a tool's: %w", err)
	}
	own := &tool{headers: headers, further: howToGoOn(input)}
	if len(s.DefaultTools) > 0 {
		own.terms = terms(def.Name, shown.Title, def.Description, t.Definition.Tags)
	}
	for _, tag := range t.Definition.Tags {
		if !slices.Contains(c.toolsets, tag) {
			c.toolsets = append(c.toolsets, tag)
		}
	}
	if s.IncludeOutputSchema || s.OfferOutputSchema {
		if err := own.promise(t.Definition, shown); err != nil {
			return fmt.Errorf("its response's schema: %w", err)
		}
	}
	return c.tools.put(t, def.Name, shown, entry{tool: own})
}

// howToGoOn says how to call a tool again after its answer was cut, using the arguments that it has.
func howToGoOn(input jsontext.Value) string {
	var properties jsontext.Value
	fields{"properties": &properties}.read(input)
	has := make(map[string]bool)
	for raw := range jsonscan.Value(properties).Members() {
		name, _ := raw.Text()
		has[name] = true
	}
	if !has["limit"] {
		return "Ask for less, if the tool's arguments allow that."
	}
	for _, name := range []string{"cursor", "after", "offset"} {
		if has[name] {
			return "Call the tool again with a smaller limit, and go on with " + name + "."
		}
	}
	return "Call the tool again with a smaller limit."
}

// promise gives a tool its output schema, if every answer that the document knows has one. A
// client takes a result that does not fit for a failure, though the call has taken effect.
func (own *tool) promise(operation *routefile.Operation, shown listEntry) error {
	schemas := operation.File.Schemas
	// Before 2026-07-28, clients refuse a tool with an output that is no object.
	if len(operation.Outputs) == 0 || slices.ContainsFunc(operation.Outputs, func(at string) bool { return !schemas.IsObject(at) }) {
		return nil
	}
	output, err := schemas.Choice(operation.Outputs)
	if err != nil {
		return err
	}
	if own.output, err = schemas.CompileText(output); err != nil {
		return err
	}
	shown.OutputSchema = output
	own.withOutput, err = json.Marshal(shown)
	return err
}

// title returns the title that people see: the name, unless a title is set.
func title(def routefile.MCPDef) string {
	var annotations struct {
		Title string `json:"title"`
	}
	if len(def.Annotations) > 0 && json.Unmarshal(def.Annotations, &annotations) == nil && annotations.Title != "" {
		return annotations.Title
	}
	return def.Name
}

// callTool checks the arguments, calls the tool's route and makes a result of its answer.
// Faults of the arguments and of the route are results, which the model can read and
// learn from; errors of the protocol would be the client's affair.
func callTool(ctx context.Context, x *exchange) *mcp.CallToolResult {
	call, violations := x.entry.target.Definition.Arguments(ctx, x.arguments)
	if len(violations) > 0 {
		return toolError(describe(violations))
	}
	return x.toolResult(ctx, x.invoke(call))
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

// toolResult makes a result of the answer of a tool's route.
func (x *exchange) toolResult(ctx context.Context, response *route.Response) *mcp.CallToolResult {
	if response.Stream != nil {
		return toolError("The tool's route answers with a stream, which a tool can't show.")
	}
	isError := response.Status < 200 || response.Status > 299
	answered := mediaType(response.Header)
	if answered == native && !isError {
		return x.cut(x.fitOrFail(ctx, response.Status, readNative(response.Body)))
	}
	if isCoded(response.Header) {
		return toolError("The tool's route answers with a Content-Encoding, which a tool can't show.")
	}
	result := &mcp.CallToolResult{IsError: isError}
	if isError && len(response.Body) == 0 {
		result.Content = []mcp.Content{&mcp.TextContent{Text: statusText(response.Status)}}
		return result
	}
	shown, text := content(x, response)
	result.Content = []mcp.Content{shown}
	if (x.structured || x.promised()) && !isError && isJSONType(answered) {
		// Before 2026-07-28, clients accept only objects.
		if value := jsontext.Value(text); value.IsValid() && (x.era == modern || value.Kind() == kindObject) {
			result.StructuredContent = json.RawMessage(value)
		}
	}
	return x.cut(x.fitOrFail(ctx, response.Status, result))
}

// cut shortens a result that is longer than clients accept.
func (x *exchange) cut(result *mcp.CallToolResult) *mcp.CallToolResult {
	structured, _ := result.StructuredContent.(json.RawMessage)
	room := x.server.maxResult - len(structured)
	for i, item := range result.Content {
		said, ok := item.(*mcp.TextContent)
		if !ok {
			continue
		}
		if room >= len(said.Text) {
			room -= len(said.Text)
			continue
		}
		// Structured content can't be cut. If the client was promised structured content, a result without
		// it is an error.
		if structured != nil {
			result.StructuredContent, result.IsError = nil, result.IsError || x.promised()
			room += len(structured)
		}
		shown := cutText(said.Text, room)
		told := cutNote(len(said.Text), len(shown), x.entry.tool.further)
		result.Content = append(result.Content[:i:i], &mcp.TextContent{Text: shown + told})
		break
	}
	return result
}

// promised reports whether the client knows a schema of the tool's output.
func (x *exchange) promised() bool { return x.schemas && x.entry.tool.output != nil }

// fitOrFail returns the result if it fits the tool's output schema. Otherwise it returns a result that says what
// has happened: a client would hide a result that does not fit from its AI model, and the model would call
// again.
func (x *exchange) fitOrFail(ctx context.Context, status int, result *mcp.CallToolResult) *mcp.CallToolResult {
	if !x.promised() || result.IsError {
		return result
	}
	detail := "it is not an object in JSON"
	if value, ok := result.StructuredContent.(json.RawMessage); ok {
		found := x.entry.tool.output.Validate(ctx, value)
		if len(found) == 0 {
			return result
		}
		detail = strings.TrimPrefix(found[0].Pointer+": "+found[0].Detail, ": ")
	}
	told := fmt.Sprintf("The tool's route has answered with status %d, so the call has taken effect. Do not repeat it. Its answer is not what the tool's output schema says: %s.", status, detail)
	return &mcp.CallToolResult{IsError: true, Content: append([]mcp.Content{&mcp.TextContent{Text: told}}, result.Content...)}
}

func statusText(status int) string {
	return strings.TrimSpace("The tool's route has answered with status " + strconv.Itoa(status) + " " + http.StatusText(status))
}

// content turns a route's answer into an item of a tool's result or of a prompt's message. text is the
// answer in UTF-8, if it is text.
func content(x *exchange, response *route.Response) (shown mcp.Content, text []byte) {
	text, readable := decodeText(x.request.Lease, response.Header, response.Body)
	answered := mediaType(response.Header)
	switch {
	case readable:
		return &mcp.TextContent{Text: string(text)}, text
	case strings.HasPrefix(answered, "image/"):
		return &mcp.ImageContent{MIMEType: answered, Data: response.Body}, nil
	case strings.HasPrefix(answered, "audio/"):
		return &mcp.AudioContent{MIMEType: answered, Data: response.Body}, nil
	}
	return &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{
		URI: "mcp://results/" + x.entry.key, MIMEType: contentType(response.Header), Blob: response.Body,
	}}, nil
}

// readNative reads a result that a route has made itself. Values inside it stay as they are written: no
// number is converted to a float.
func readNative(body []byte) *mcp.CallToolResult {
	var read mcp.CallToolResult
	var raw struct {
		StructuredContent json.RawMessage `json:"structuredContent"`
	}
	if !jsontext.Value(body).IsValid() || json.Unmarshal(body, &read) != nil || json.Unmarshal(body, &raw) != nil {
		return toolError("The tool's route has given a result that is not one of MCP.")
	}
	if read.InputRequests != nil || read.RequestState != "" {
		return toolError("The tool's route asks the user for input, which a route can't get.")
	}
	result := &mcp.CallToolResult{Meta: read.Meta, Content: read.Content, IsError: read.IsError}
	if result.Content == nil {
		result.Content = []mcp.Content{}
	}
	if raw.StructuredContent != nil {
		result.StructuredContent = raw.StructuredContent
	}
	return result
}
