package routefile

import (
	"mime"
	"strings"
	"time"

	"waybill.dev/services/gateway/internal/jsontree"
)

// operation reads one that is routed; the others are documentation.
func (d *document) operation(s *routedOperation, item, n *jsontree.Node) {
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

func (d *document) body(s *routedOperation, n *jsontree.Node) {
	if n == nil {
		return
	}
	target, nowhere := n.Follow(d.root)
	if target == nil {
		s.refuse(n.Pointer(), "%s leads nowhere in this file", nowhere)
		return
	}
	required := target.Member("required").True()
	content := target.Member("content")
	s.media(required, content)
	name, media := jsonMedia(content)
	switch {
	case media != nil:
		s.Body = &Body{Required: required, MediaType: name}
	case len(s.Media) == 0:
		return
	default:
		if s.Body, media = d.formBody(s, content); s.Body == nil {
			return
		}
		s.Body.Required = required
	}
	s.Body.Description, _ = target.Member("description").Text()
	if schema := media.Member("schema"); schema != nil {
		s.Body.Pointer, s.Body.Schema = schema.Pointer(), schema.Raw
		d.schema(s, schema.Pointer())
	}
}

// output finds the schemas of the 2xx answers, and their media type.
func (d *document) output(s *routedOperation, responses *jsontree.Node) {
	silent := false // an answer is documented without a schema, or in another format than JSON
	media := make(map[string]bool)
	for status, n := range responses.Members() {
		if len(status) != 3 || status[0] != '2' {
			continue
		}
		target, nowhere := n.Follow(d.root)
		if target == nil {
			s.refuse(n.Pointer(), "%s leads nowhere in this file", nowhere)
			continue
		}
		content := target.Member("content")
		for name := range content.Members() {
			kind, _, err := mime.ParseMediaType(name)
			silent = silent || err != nil || rankJSON(kind) == 0
			media[kind] = true
		}
		_, described := jsonMedia(content)
		schema := described.Member("schema")
		if schema == nil {
			silent = true
			continue
		}
		s.Outputs = append(s.Outputs, schema.Pointer())
		d.schema(s, schema.Pointer())
	}
	if silent {
		s.Outputs = nil
	}
	for kind := range media {
		if len(media) == 1 && !strings.Contains(kind, "*") {
			s.Answer = kind
		}
	}
}

// media reads the forms that a body may have.
func (s *routedOperation) media(required bool, content *jsontree.Node) {
	s.BodyRequired = required && content.Len() > 0
	for text, n := range content.Members() {
		kind, _, err := mime.ParseMediaType(text)
		if err != nil {
			kind = strings.ToLower(text)
		}
		media := Media{Type: kind, Pointer: n.Member("schema").Pointer()}
		for name, encoding := range n.Member("encoding").Members() {
			if media.Fields == nil {
				media.Fields = make(map[string]Field)
			}
			var field Field
			field.MediaType, _ = encoding.Member("contentType").Text()
			field.Style, _ = encoding.Member("style").Text()
			if field.Style == "" && encoding.Member("explode") != nil {
				field.Style = styleForm
			}
			field.Explode = encoding.Member("explode").True() || encoding.Member("explode") == nil && (field.Style == "" || field.Style == styleForm)
			media.Fields[name] = field
		}
		s.Media = append(s.Media, media)
	}
}

// schema notes the faults of a schema.
func (d *document) schema(s *routedOperation, pointer string) bool {
	if _, err := d.file.Schemas.Compile(pointer); err != nil {
		s.refuse(pointer, "%s", err)
		return false
	}
	return true
}

// jsonMedia returns the media type that is JSON: application/json if there is one, otherwise the
// first JSON type, otherwise a range that includes JSON.
func jsonMedia(content *jsontree.Node) (name string, media *jsontree.Node) {
	best := 0
	for text, n := range content.Members() {
		kind, _, err := mime.ParseMediaType(text)
		if err != nil {
			continue
		}
		if rank := rankJSON(kind); rank > best {
			if rank == anyMedia {
				kind = "application/json"
			}
			best, name, media = rank, kind, n
		}
	}
	return name, media
}

// anyMedia is the rank of a range that includes every media type.
const anyMedia = 1

// rankJSON returns how well a media type fits JSON; 0: not at all.
func rankJSON(kind string) int {
	switch {
	case kind == "application/json":
		return 3
	case strings.HasSuffix(kind, "+json"), kind == "text/json":
		return 2
	case kind == "*/*", kind == "application/*":
		return anyMedia
	}
	return 0
}

// extension reads x-gateway-route.
func (s *routedOperation) extension() {
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
	s.noteFaults(s.route, form.Err())
}

func (s *routedOperation) chains(n *jsontree.Node) {
	form := s.form(n)
	if form == nil {
		return
	}
	s.Inbound, _ = form.Texts("inbound", 0, most)
	s.Outbound, _ = form.Texts("outbound", 0, most)
	s.noteFaults(n, form.Err())
}
