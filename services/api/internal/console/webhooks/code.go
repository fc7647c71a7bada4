package webhooks

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/spec"
)

type codeView struct {
	head

	Curl, CLI, MCP string
	Snippets       []snippet // code that checks with the secret
	Public         []snippet // code that checks with a public key
}

func showCode(p *console.Page) error {
	h, err := read(p, "code")
	if err != nil {
		return err
	}
	v := codeView{head: h}
	v.Snippets, v.Public = h.Webhook.snippetsFor()
	list, err := h.Webhook.settings()
	if err != nil {
		return err
	}
	if v.Curl, err = curl(p.Base(), list); err != nil {
		return err
	}
	if v.MCP, err = mcp(list); err != nil {
		return err
	}
	v.CLI = command(list)
	return p.Show("code.html", h.title("code"), v)
}

// setting is a field of a registration, with the webhook's value.
type setting struct {
	spec.Field

	Value jsontext.Value
}

// registered is the schema of registrations, and changes the schema of changes.
const (
	registered = "WebhookCreateBody"
	changes    = "WebhookUpdateBody"
)

// settings returns all fields that are needed to register the webhook again, except those with their default value. The
// secret is left out: a new webhook gets its own.
func (w *webhook) settings() ([]setting, error) {
	fields, err := spec.Fields(registered)
	if err != nil {
		return nil, err
	}
	var list []setting
	for _, field := range fields {
		value := w.given[field.Name]
		switch field.Name {
		case "headers":
			value = secrets(w.HeaderNames, nil)
		case "auth":
			if w.AuthType != nil {
				value = secrets(slices.Sorted(maps.Keys(authFields(*w.AuthType))), map[string]string{"type": string(*w.AuthType)})
			}
		}
		if len(value) > 0 && value.Kind() != 'n' && string(value) != `""` && !same(value, field.Default) {
			list = append(list, setting{field, value})
		}
	}
	return list, nil
}

// secrets returns an object with members whose values are never shown, with placeholders; nil: there are none.
func secrets(names []string, shown map[string]string) jsontext.Value {
	object := maps.Clone(shown)
	for _, name := range names {
		if object == nil {
			object = map[string]string{}
		}
		object[name] = "…"
	}
	if object == nil {
		return nil
	}
	text, err := json.Marshal(object, json.Deterministic(true))
	if err != nil {
		return nil // names that are invalid UTF-8, which the API never accepts
	}
	return text
}

// same reports whether two values are equal except for white space.
func same(a, b jsontext.Value) bool {
	a, b = a.Clone(), b.Clone()
	return a.Compact() == nil && b.Compact() == nil && string(a) == string(b)
}

// object writes settings as JSON.
func object(list []setting) (jsontext.Value, error) {
	text := jsontext.Value("{")
	for i, s := range list {
		if i > 0 {
			text = append(text, ',')
		}
		text, _ = jsontext.AppendQuote(text, s.Name) // can't fail: the name is ASCII
		text = append(append(text, ':'), s.Value...)
	}
	text = append(text, '}')
	err := text.Indent(jsontext.WithIndent("  "))
	return text, err
}

func curl(base string, list []setting) (string, error) {
	body, err := object(list)
	return "curl -X POST -H \"Authorization: Bearer $WAYBILL_KEY\" -H 'Content-Type: application/json' \\\n  " +
		quoted(base+"/v1/webhooks") + " -d " + quoted(string(body)), err
}

// mcp returns the settings as arguments of the MCP tool, without authentication: the tool accepts none, so that secrets do
// not pass through a model.
func mcp(list []setting) (string, error) {
	tools, err := spec.Tools()
	if err != nil {
		return "", err
	}
	arguments, err := object(slices.DeleteFunc(slices.Clone(list), func(s setting) bool { return s.Name == "auth" }))
	if err != nil {
		return "", err
	}
	message := struct {
		Method string `json:"method"`
		Params any    `json:"params"`
	}{"tools/call", struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	}{tools["registerWebhook"].Name, arguments}}
	text, err := json.Marshal(message, json.Deterministic(true), jsontext.WithIndent("  "))
	return string(text), err
}

// command returns the command that registers the webhook.
func command(list []setting) string {
	text, parts := "waybill webhooks create", []string(nil)
	for _, s := range list {
		switch s.Name {
		case "url":
			text += " " + quoted(s.text())
		case "filter":
			text = "printf %s " + quoted(string(s.Value)) + " | " + text // echo reads backslashes in some shells
			parts = append(parts, "--filter -")
		case "headers":
			var names map[string]string
			_ = json.Unmarshal(s.Value, &names) // can't fail: secrets has made it
			for _, name := range slices.Sorted(maps.Keys(names)) {
				parts = append(parts, "--header "+quoted(name+"=…"))
			}
		case "auth":
			parts = append(parts, "--auth-file FILE")
		default:
			parts = append(parts, s.flag())
		}
	}
	return strings.Join(append([]string{text}, parts...), " \\\n  ")
}

// flag writes a setting as a flag of the command line: timeoutSeconds 15 is --timeout 15s.
func (s setting) flag() string {
	name, seconds := strings.CutSuffix(s.Name, "Seconds")
	var flag strings.Builder
	flag.WriteString("--")
	for _, r := range name {
		if unicode.IsUpper(r) {
			flag.WriteByte('-')
		}
		flag.WriteRune(unicode.ToLower(r))
	}
	switch value := s.text(); {
	case s.Value.Kind() == '[':
		return flag.String() + " " + console.Shell(strings.ReplaceAll(value, " ", ""))
	case s.Value.Kind() == 't' || s.Value.Kind() == 'f':
		return flag.String() + "=" + value
	case seconds:
		return flag.String() + " " + value + "s"
	default:
		return flag.String() + " " + console.Shell(value)
	}
}

// text returns the value for a form: a list with commas, an object with a line per member, nothing for null.
func (s setting) text() string {
	value := s.Value
	switch value.Kind() {
	case '"':
		text, _ := jsontext.AppendUnquote(nil, value) // the API has written it
		return string(text)
	case '[':
		var elements []jsontext.Value
		_ = json.Unmarshal(value, &elements) // the API has written it
		parts := make([]string, len(elements))
		for i, element := range elements {
			parts[i] = setting{Value: element}.text()
		}
		return strings.Join(parts, ", ")
	case '{':
		lines := value.Clone()
		_ = lines.Indent(jsontext.WithIndent("  ")) // the API has written it
		return string(lines)
	case 'n', jsontext.KindInvalid:
		return ""
	}
	return string(value)
}

// quoted quotes text for a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
