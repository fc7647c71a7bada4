package mcpserver

import (
	"cmp"
	"context"
	stdjson "encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"waybill.dev/services/gateway/internal/jsonschema"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/jsonscan"
)

// prompt is the data of an entry that is a prompt.
type prompt struct {
	arguments   []argument
	description string
}

// argument is an argument of a prompt. The protocol sends all of them as texts.
type argument struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitzero"`
	Description string `json:"description,omitzero"`
	Required    bool   `json:"required,omitzero"`

	isText bool
}

func (c *catalog) addPrompt(t Target, def routefile.MCPDef) error {
	if i, taken := c.prompts.byKey[def.Name]; taken {
		return fmt.Errorf("the prompt name %q is taken by operation %s", def.Name, c.prompts.entries[i].target.Definition.ID)
	}
	input, err := t.Definition.Input()
	if err != nil {
		return fmt.Errorf("its request is no prompt's arguments: %w", err)
	}
	own := &prompt{description: def.Description}
	if own.arguments, err = readArguments(input); err != nil {
		return fmt.Errorf("its request is no prompt's arguments: %w", err)
	}
	shown := listEntry{Name: def.Name, Title: def.Name, Description: def.Description, Arguments: own.arguments, Meta: def.Meta}
	return c.prompts.put(t, def.Name, shown, entry{prompt: own})
}

// readArguments reads a prompt's arguments from the input schema of its route, in their order
// there.
func readArguments(input jsontext.Value) ([]argument, error) {
	var schema struct {
		Properties jsontext.Value `json:"properties"`
		Required   []string       `json:"required"`
	}
	if err := json.Unmarshal(input, &schema); err != nil {
		return nil, fmt.Errorf("read its schema: %w", err)
	}
	var properties map[string]struct {
		Title       string         `json:"title"`
		Description string         `json:"description"`
		Type        jsontext.Value `json:"type"`
	}
	if len(schema.Properties) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(schema.Properties, &properties); err != nil {
		return nil, fmt.Errorf("read its schema's properties: %w", err)
	}
	var arguments []argument
	for raw := range jsonscan.Value(schema.Properties).Members() {
		name, _ := raw.Text()
		p := properties[name]
		kind, _ := text(p.Type)
		arguments = append(arguments, argument{
			Name: name, Title: p.Title, Description: p.Description,
			Required: slices.Contains(schema.Required, name),
			isText:   kind == "string" || kind == "",
		})
	}
	return arguments, nil
}

// getPrompt checks the arguments, calls the prompt's route and makes messages of its answer.
func getPrompt(ctx context.Context, x *exchange) (*mcp.GetPromptResult, *failure) {
	arguments, failed := x.entry.prompt.read(ctx, x.arguments)
	if failed != nil {
		return nil, failed
	}
	call, violations := x.entry.target.Definition.Arguments(ctx, arguments)
	if len(violations) > 0 {
		return nil, faulty(violations)
	}
	response := x.invoke(call)
	if response.Status < 200 || response.Status > 299 || response.Stream != nil || isCoded(response.Header) {
		return nil, withoutPrompt(response.Status)
	}
	return promptResult(x, response)
}

// read makes the arguments of the prompt's route from the texts that a client sends: where the
// schema does not ask for text, the text is parsed as JSON.
func (p *prompt) read(ctx context.Context, sent jsontext.Value) (jsontext.Value, *failure) {
	given := make([]bool, len(p.arguments))
	arguments := []byte{'{'}
	for raw, value := range jsonscan.Value(sent).Members() {
		name, _ := raw.Text()
		said, ok := value.Text()
		if !ok {
			return nil, invalidParams("The arguments of a prompt must be an object of texts.")
		}
		if i := slices.IndexFunc(p.arguments, func(a argument) bool { return a.Name == name }); i >= 0 {
			given[i] = true
			if !p.arguments[i].isText && isJSONValue(ctx, said) {
				value = jsonscan.Value(said)
			}
		}
		if len(arguments) > 1 {
			arguments = append(arguments, ',')
		}
		arguments = append(append(append(arguments, raw...), ':'), value...)
	}
	var missing []jsonschema.Violation
	for i, a := range p.arguments {
		if a.Required && !given[i] {
			missing = append(missing, jsonschema.Violation{Pointer: "/" + a.Name, Detail: "is required"})
		}
	}
	if len(missing) > 0 {
		return nil, faulty(missing)
	}
	return append(arguments, '}'), nil
}

// isJSONValue reports whether a text is one value of JSON.
func isJSONValue(ctx context.Context, said string) bool {
	faults, err := jsonscan.Check(ctx, []byte(said), jsonscan.Options{AnyText: true})
	return err == nil && len(faults) == 0
}

// faulty names the faults of arguments, without the values.
func faulty(violations []jsonschema.Violation) *failure {
	data := []byte(`{"errors":[`)
	for i, v := range violations {
		if i > 0 {
			data = append(data, ',')
		}
		data = appendText(append(data, `{"pointer":`...), v.Pointer)
		data = appendText(append(data, `,"detail":`...), v.Detail)
		data = append(data, '}')
	}
	return &failure{
		code:    codeInvalidParams,
		message: "The arguments do not match the prompt; see data.",
		data:    append(data, "]}"...),
	}
}

// withoutPrompt is the answer when a prompt's route fails: there are no messages for a model.
func withoutPrompt(status int) *failure {
	f := &failure{code: codeInternal, message: "The prompt is not available now."}
	if status == http.StatusBadRequest || status == http.StatusUnprocessableEntity {
		f.code, f.message = codeInvalidParams, "The prompt's route refuses the arguments."
	}
	f.data = append(strconv.AppendInt([]byte(`{"status":`), int64(status), 10), '}')
	return f
}

// promptResult takes messages that the route has made itself, or makes one of its answer.
func promptResult(x *exchange, response *route.Response) (*mcp.GetPromptResult, *failure) {
	shown, text := content(x, response)
	result := &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: shown}}}
	if isJSONType(mediaType(response.Header)) && hasMessages(text) {
		var read mcp.GetPromptResult
		if err := stdjson.Unmarshal(text, &read); err != nil {
			return nil, &failure{code: codeInternal, message: "The prompt's route has given messages that are not those of MCP."}
		}
		result = &mcp.GetPromptResult{Meta: read.Meta, Description: read.Description, Messages: read.Messages}
	}
	result.Description = cmp.Or(result.Description, x.entry.prompt.description)
	return result, nil
}

func hasMessages(body []byte) bool {
	var found struct {
		Messages jsontext.Value `json:"messages"`
	}
	return json.Unmarshal(body, &found) == nil && found.Messages.Kind() == '['
}
