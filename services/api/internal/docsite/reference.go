package docsite

import (
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// operations are the operations of one tag of the OpenAPI document.
type operations struct {
	Tag, Description string
	Operations       []operation
}

type operation struct {
	Method, Path, ID, Summary string
	Tag                       string
}

// Anchor returns the fragment of the operation in the viewer.
func (o operation) Anchor() string { return "#/" + o.Tag + "/" + o.ID }

type openAPI struct {
	Tags []struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	} `json:"tags"`
	Paths map[string]map[string]jsontext.Value `json:"paths"`
}

// methods returns the methods of operations, in the order in which they are shown.
func methods() []string { return []string{"get", "post", "put", "patch", "delete"} }

// addOperations adds the page of the HTTP API: a list of all operations, which the viewer replaces
// with all their details.
func (c *content) addOperations(document []byte) error {
	var api openAPI
	if err := json.Unmarshal(document, &api); err != nil {
		return fmt.Errorf("read API document: %w", err)
	}
	tags := make([]operations, len(api.Tags))
	for i, tag := range api.Tags {
		tags[i] = operations{Tag: tag.Name, Description: tag.Description}
	}
	paths := make([]string, 0, len(api.Paths))
	for path := range api.Paths {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		for _, method := range methods() {
			raw := api.Paths[path][method]
			if raw == nil {
				continue
			}
			var o struct {
				ID          string   `json:"operationId"`
				Summary     string   `json:"summary"`
				Description string   `json:"description"`
				Tags        []string `json:"tags"`
			}
			if err := json.Unmarshal(raw, &o); err != nil {
				return fmt.Errorf("read operation %s %s: %w", method, path, err)
			}
			at := slices.IndexFunc(tags, func(t operations) bool { return slices.Contains(o.Tags, t.Tag) })
			if at < 0 {
				return fmt.Errorf("operation %s has no known tag", o.ID)
			}
			one := operation{strings.ToUpper(method), path, o.ID, o.Summary, tags[at].Tag}
			tags[at].Operations = append(tags[at].Operations, one)
			c.index.add(entry{
				Path: "/docs/http" + one.Anchor(), Page: "HTTP API", Title: one.Method + " " + path,
				text: o.ID + ": " + o.Summary + " " + o.Description,
			})
		}
	}
	return c.add("http.html", frame{Name: "http", Title: "HTTP API", Viewer: true, Data: tags})
}

// bus is the data of the page of the bus.
type bus struct {
	Title       string
	Description template.HTML
	Operations  []busOperation
}

type busOperation struct {
	ID, Title, Summary, Address string
	Description, Channel        template.HTML
	Parameters                  []described
	Messages                    []busMessage
}

type busMessage struct {
	Title       string
	Description template.HTML
	Headers     []described
	Examples    []busExample
}

type described struct{ Name, Description string }

type busExample struct{ Summary, Text string }

// addBus adds the page of the bus, from the AsyncAPI document.
func (c *content) addBus(document []byte) error {
	d := &asyncAPI{markdown: newMarkdown(nil)}
	if err := json.Unmarshal(document, &d.root); err != nil {
		return fmt.Errorf("read bus document: %w", err)
	}
	info := d.object(d.root, "info")
	page := bus{Title: str(info, "title"), Description: d.html(info)}
	f := frame{Name: "asyncapi", Title: page.Title}
	operations := d.object(d.root, "operations")
	for _, id := range keys(operations) {
		o := d.operation(id, d.object(operations, id))
		page.Operations = append(page.Operations, o)
		f.TOC = append(f.TOC, heading{2, id, o.Title})
		c.index.add(entry{Path: "/docs/asyncapi#" + id, Page: "Bus", Title: o.Title, text: d.text.String()})
		d.text.Reset()
	}
	f.Data = page
	if d.err != nil {
		return fmt.Errorf("show bus document: %w", d.err)
	}
	return c.add("bus.html", f)
}

// asyncAPI reads the document member by member: most of it is references.
type asyncAPI struct {
	*markdown

	root map[string]any
	text strings.Builder // text of the operation for the search
	err  error           // the first error
}

func (d *asyncAPI) operation(id string, o map[string]any) busOperation {
	channel := d.object(o, "channel")
	one := busOperation{
		ID: id, Title: str(o, "title"), Summary: str(o, "summary"), Address: str(channel, "address"),
		Description: d.html(o), Channel: d.html(channel),
	}
	d.text.WriteString(one.Summary + " " + one.Address + " ")
	parameters := d.object(channel, "parameters")
	for _, name := range keys(parameters) {
		one.Parameters = append(one.Parameters, described{name, str(d.object(parameters, name), "description")})
	}
	messages, _ := o["messages"].([]any)
	for _, m := range messages {
		one.Messages = append(one.Messages, d.message(d.resolve(m)))
	}
	return one
}

func (d *asyncAPI) message(m map[string]any) busMessage {
	one := busMessage{Title: str(m, "title"), Description: d.html(m)}
	d.text.WriteString(one.Title + " " + str(m, "summary") + " ")
	headers := d.object(d.object(m, "headers"), "properties")
	for _, name := range keys(headers) {
		one.Headers = append(one.Headers, described{name, str(d.object(headers, name), "description")})
		d.text.WriteString(name + " ")
	}
	examples, _ := m["examples"].([]any)
	for _, e := range examples {
		e := d.resolve(e)
		var b strings.Builder
		for _, name := range keys(d.object(e, "headers")) {
			fmt.Fprintf(&b, "%s: %v\n", name, d.object(e, "headers")[name])
		}
		payload, err := json.Marshal(e["payload"], json.Deterministic(true), jsontext.WithIndent("  "))
		if err != nil {
			d.err = err
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.Write(payload)
		one.Examples = append(one.Examples, busExample{str(e, "summary"), b.String()})
	}
	return one
}

// object returns the object with a name; nil: there is none.
func (d *asyncAPI) object(in map[string]any, name string) map[string]any { return d.resolve(in[name]) }

// resolve follows references within the document.
func (d *asyncAPI) resolve(value any) map[string]any {
	o, _ := value.(map[string]any)
	for range 8 {
		ref, ok := o["$ref"].(string)
		if !ok {
			return o
		}
		o = d.root
		for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			o = d.resolve(o[name])
		}
	}
	return o
}

// html returns the description of a part of the document.
func (d *asyncAPI) html(in map[string]any) template.HTML {
	text := str(in, "description")
	d.text.WriteString(text + " ")
	written, err := d.write(text)
	if err != nil {
		d.err = err
	}
	return written
}

func str(in map[string]any, name string) string {
	text, _ := in[name].(string)
	return text
}

func keys(in map[string]any) []string {
	names := make([]string, 0, len(in))
	for name := range in {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
