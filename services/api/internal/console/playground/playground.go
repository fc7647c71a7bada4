// Package playground has the console's page of the MCP server: its tools, resources and prompts
// as the session's key sees them, and a form to call each.
package playground

import (
	"cmp"
	"embed"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
)

//go:embed templates/*.html
var files embed.FS

const path = "/console/mcp"

// Module returns the page.
func Module() console.Module {
	return console.Module{
		Name: "playground", Templates: files,
		Nav: []console.NavEntry{{Label: "MCP", Path: path, Icon: "mcp", Order: console.OrderMCP, Key: "m"}},
		Routes: []console.Route{
			{Method: http.MethodGet, Path: path, Static: true, Handle: show},
			{Method: http.MethodPost, Path: path, Static: true, Handle: call},
		},
	}
}

// Plain returns the description without the marks of code.
func (i item) Plain() string { return strings.ReplaceAll(i.Description, "`", "") }

// item is a tool, a prompt or a resource, as the server lists it.
type item struct {
	Name        string         `json:"name"`
	URI         string         `json:"uri"`
	URITemplate string         `json:"uriTemplate"`
	Title       string         `json:"title"`
	Description string         `json:"description"`
	MimeType    string         `json:"mimeType"`
	InputSchema jsontext.Value `json:"inputSchema"`
	// OutputSchema is only listed for clients that ask for it.
	OutputSchema jsontext.Value `json:"outputSchema"`
	Arguments    []argument     `json:"arguments"`
	Annotations  struct {
		ReadOnly    bool  `json:"readOnlyHint"`
		Destructive *bool `json:"destructiveHint"`
	} `json:"annotations"`

	kind string
	size int // size of its description for clients, in bytes
}

// bytesPerToken is about how many bytes of JSON a model reads as one token.
const bytesPerToken = 4

// Tokens returns about how many tokens of a model's context the description takes.
func (i item) Tokens() int { return i.size / bytesPerToken }

// group is a toolset with its tools.
type group struct {
	Name  string
	Tools []item
}

// Tokens returns the tokens of all its tools.
func (g group) Tokens() int {
	sum := 0
	for _, tool := range g.Tools {
		sum += tool.Tokens()
	}
	return sum
}

type argument struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Required    bool   `json:"required"`
}

// The kinds of items.
const (
	kindTool     = "tool"
	kindPrompt   = "prompt"
	kindResource = "resource"
)

// Path returns the path of the item's form.
func (i item) Path() string { return path + "?" + url.Values{i.kind: {i.key()}}.Encode() }

func (i item) key() string {
	if i.kind == kindResource {
		return i.URI
	}
	return i.Name
}

// Destroys reports whether the tool may lose or repeat something. A tool that changes something
// counts unless it says otherwise: that is the protocol's default.
func (i item) Destroys() bool {
	return i.kind == kindTool && !i.Annotations.ReadOnly && (i.Annotations.Destructive == nil || *i.Annotations.Destructive)
}

// Effect returns a word for the effect of a call.
func (i item) Effect() string {
	switch {
	case i.kind != kindTool || i.Annotations.ReadOnly:
		return "reads"
	case i.Destroys():
		return "destructive"
	}
	return "changes"
}

// Tone colours Effect.
func (i item) Tone() string {
	switch i.Effect() {
	case "destructive":
		return "bad"
	case "changes":
		return "warn"
	}
	return "idle"
}

type view struct {
	URL                                  string // URL of the server
	Problem                              *console.Problem
	Tools, Prompts, Resources, Templates []item
	Groups                               []group // groups of the tools that match the search
	Match                                string
	Clients                              []client
	Selected                             *item
	Fields                               []field
	Form                                 *console.Form
	Call                                 *exchange
}

// exchange is one call: the message sent, and the answer.
type exchange struct {
	Request, Answer jsontext.Value
	Failed          string // empty: the call did not fail
	Curl            string
	Problem         *console.Problem
}

// load reads the lists of items that the session's key may use, and finds the item that the query
// names.
func load(p *console.Page) view {
	v := view{URL: p.Base() + "/mcp", Form: console.NewForm(url.Values{})}
	v.Clients = clients(v.URL)
	lists := []struct {
		method, member, kind string
		into                 *[]item
	}{
		{"tools/list", "tools", kindTool, &v.Tools}, {"prompts/list", "prompts", kindPrompt, &v.Prompts},
		{"resources/list", "resources", kindResource, &v.Resources}, {"resources/templates/list", "resourceTemplates", kindResource, &v.Templates},
	}
	for _, l := range lists {
		if *l.into, v.Problem = everything(p, l.method, l.member, l.kind); v.Problem != nil {
			return v
		}
	}
	v.Match = strings.TrimSpace(p.Query("q"))
	v.Groups = groups(p, v.Tools, v.Match)
	for _, l := range [][]item{v.Tools, v.Prompts, v.Resources} {
		if i := slices.IndexFunc(l, func(i item) bool { return p.Query(i.kind) != "" && p.Query(i.kind) == i.key() }); i >= 0 {
			v.Selected = &l[i]
			v.Fields = fieldsOf(v.Selected)
			break
		}
	}
	return v
}

// groups returns the tools in which a text is found, by their toolsets.
func groups(p *console.Page, tools []item, text string) []group {
	of := make(map[string][]item)
	for _, tool := range tools {
		if strings.Contains(strings.ToLower(tool.Name+" "+tool.Title+" "+tool.Description), strings.ToLower(text)) {
			name := cmp.Or(p.API.Toolset(tool.Name), "other")
			of[name] = append(of[name], tool)
		}
	}
	var list []group
	for _, name := range slices.Sorted(maps.Keys(of)) {
		list = append(list, group{name, of[name]})
	}
	return list
}

// Tokens returns the tokens of all tools.
func (v view) Tokens() int { return group{Tools: v.Tools}.Tokens() }

// maxPages bounds how many pages of a list are read.
const maxPages = 20

func everything(p *console.Page, method, member, kind string) ([]item, *console.Problem) {
	var all []item
	cursor := ""
	for range maxPages {
		params := map[string]any{}
		if cursor != "" {
			params["cursor"] = cursor
		}
		x := send(p, method, params)
		if x.Problem != nil {
			return nil, x.Problem
		}
		page, next := listed(x.Answer, member)
		for _, i := range page {
			i.kind = kind
			all = append(all, i)
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	return all, nil
}

func show(p *console.Page) error {
	v := load(p)
	if v.Selected != nil && v.Selected.kind == kindResource {
		x := send(p, "resources/read", map[string]any{"uri": v.Selected.URI})
		v.Call = &x
	}
	return p.Show("playground.html", title(&v), v)
}

func title(v *view) string {
	if v.Selected != nil {
		return v.Selected.key()
	}
	return "MCP"
}

// confirmed is the field that says that a destructive call was confirmed.
const confirmed = "confirmed"

func call(p *console.Page) error {
	values, err := p.Form()
	if err != nil {
		return err
	}
	v := load(p)
	if v.Problem != nil || v.Selected == nil || v.Selected.kind == kindResource {
		return p.Show("playground.html", title(&v), v)
	}
	v.Form.Values = values
	arguments := read(&v)
	if v.Form.Problem != nil {
		return p.ShowInvalid("playground.html", title(&v), v, v.Form)
	}
	if v.Selected.Destroys() && values.Get(confirmed) == "" {
		return ask(p, &v, arguments)
	}
	method := "tools/call"
	if v.Selected.kind == kindPrompt {
		method = "prompts/get"
	}
	x := send(p, method, map[string]any{"name": v.Selected.Name, "arguments": arguments})
	v.Call = &x
	return p.Show("playground.html", title(&v), v)
}

// ask asks before a call that may lose or repeat something.
func ask(p *console.Page, v *view, arguments map[string]jsontext.Value) error {
	hidden := url.Values{confirmed: {"yes"}}
	facts := []console.Fact{{Name: "Tool", Value: v.Selected.Name}}
	for _, f := range v.Fields {
		if list := v.Form.Values[f.Name]; len(list) > 0 {
			hidden[f.Name] = list
		}
	}
	facts = append(facts, console.Fact{Name: "Arguments", Value: string(encode(arguments))})
	return p.ShowConfirm(console.Confirm{
		Title: "Call " + v.Selected.Name + "?", Effect: "The tool says of itself that it loses or repeats something. " + v.Selected.Description,
		Facts: facts, Verb: "Call the tool", Danger: true, Action: v.Selected.Path(), Hidden: hidden, Back: v.Selected.Path(),
	})
}
