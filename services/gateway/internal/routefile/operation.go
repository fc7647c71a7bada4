package routefile

import (
	"mime"
	"strings"
	"time"

	"waybill.dev/services/gateway/internal/jsontree"
)

// operation reads one that is routed; the others are documentation.
func (d *document) operation(s *source, item, n *jsontree.Node) {
	s.operation = s.Method + " " + s.Path
	if n.Kind() != '{' {
		s.fault(n.Pointer(), "must be an object")
		return
	}
	if s.route = n.Member(routeMember); s.route == nil {
		return
	}
	if id := n.Member("operationId"); id != nil {
		text, ok := id.Text()
		if !ok || text == "" || len(text) > 200 {
			s.fault(id.Pointer(), "must be a text of 1 to 200 characters")
			return
		}
		s.ID, s.operation = text, text
	} else {
		s.ID = d.generatedID(s.Operation)
	}
	s.Summary, _ = n.Member("summary").Text()
	s.Description, _ = n.Member("description").Text()
	for _, tag := range n.Member("tags").Elements() {
		text, _ := tag.Text()
		s.Tags = append(s.Tags, text)
	}
	if internal := n.Member(internalMember); internal != nil {
		if s.Internal = internal.True(); !s.Internal && internal.Kind() != 'f' {
			s.fault(internal.Pointer(), "must be true or false")
		}
	}
	d.parameters(s, item.Member("parameters"), n.Member("parameters"))
	d.body(s, n.Member("requestBody"))
	d.output(s, n.Member("responses"))
	s.extension()
	d.file.Operations = append(d.file.Operations, s.Operation)
	d.loader.operations = append(d.loader.operations, s)
}

func (d *document) body(s *source, n *jsontree.Node) {
	if n == nil {
		return
	}
	target, nowhere := n.Follow(d.root)
	if target == nil {
		s.fault(n.Pointer(), "%s leads nowhere in this file", nowhere)
		return
	}
	required := target.Member("required").True()
	content := target.Member("content")
	name, media := jsonMedia(content)
	if media == nil {
		s.otherBody = required && content.Len() > 0
		return
	}
	s.Body = &Body{Required: required, MediaType: name}
	s.Body.Description, _ = target.Member("description").Text()
	if schema := media.Member("schema"); schema != nil {
		s.Body.Pointer, s.Body.Schema = schema.Pointer(), schema.Raw
		d.schema(s, schema.Pointer())
	}
}

// output finds the schema of the first 2xx answer in JSON.
func (d *document) output(s *source, responses *jsontree.Node) {
	for status, n := range responses.Members() {
		if len(status) != 3 || status[0] != '2' {
			continue
		}
		target, nowhere := n.Follow(d.root)
		if target == nil {
			s.fault(n.Pointer(), "%s leads nowhere in this file", nowhere)
			continue
		}
		_, media := jsonMedia(target.Member("content"))
		if schema := media.Member("schema"); schema != nil {
			s.Output = schema.Pointer()
			d.schema(s, s.Output)
			return
		}
	}
}

// schema notes what is wrong with a schema.
func (d *document) schema(s *source, pointer string) bool {
	if _, err := d.file.Schemas.Compile(pointer); err != nil {
		s.fault(pointer, "%s", err)
		return false
	}
	return true
}

// jsonMedia returns the media type that is JSON: application/json where there is one, else
// the first that is like it, else one that means any.
func jsonMedia(content *jsontree.Node) (name string, media *jsontree.Node) {
	best := 0
	for text, n := range content.Members() {
		kind, _, err := mime.ParseMediaType(text)
		if err != nil {
			continue
		}
		rank := 0
		switch {
		case kind == "application/json":
			rank = 3
		case strings.HasSuffix(kind, "+json"), kind == "text/json":
			rank = 2
		case kind == "*/*", kind == "application/*":
			rank, kind = 1, "application/json"
		}
		if rank > best {
			best, name, media = rank, kind, n
		}
	}
	return name, media
}

// extension reads x-gateway-route.
func (s *source) extension() {
	form := s.form(s.route)
	if form == nil {
		return
	}
	form.Require("handler")
	if _, ok := form.Object("handler"); ok {
		s.Handler = s.handler(s.route.Member("handler"))
	}
	if _, ok := form.Object("policies"); ok {
		s.chains(s.route.Member("policies"))
	}
	s.CORSPolicy = CORSNone
	if name, ok := form.Text("corsPolicy", 1, 128); ok {
		s.CORSPolicy = name
	}
	if seconds, ok := form.Number("timeoutSeconds", 1, 60); ok {
		s.Timeout = time.Duration(seconds * float64(time.Second))
	}
	if _, ok := form.Object("mcp"); ok {
		s.mcp(s.route.Member("mcp"))
	}
	s.note(s.route, form.Err())
}

func (s *source) chains(n *jsontree.Node) {
	form := s.form(n)
	if form == nil {
		return
	}
	s.Inbound, _ = form.Texts("inbound", 0, most)
	s.Outbound, _ = form.Texts("outbound", 0, most)
	s.note(n, form.Err())
}
