package routefile

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"waybill.dev/services/gateway/internal/jsontree"
	"waybill.dev/shared/input"
)

var (
	validName     = regexp.MustCompile(`^[A-Za-z0-9_./-]{1,64}$`)
	noName        = regexp.MustCompile(`[^A-Za-z0-9_./-]+`)
	variableOfURI = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)
)

// mcp reads the object that describes an operation to AI clients.
func (s *routedOperation) mcp(n *jsontree.Node) {
	form := s.form(n)
	if form == nil {
		return
	}
	def := &MCPDef{Type: Tool, Enabled: true}
	s.MCP = def
	if kind, ok := form.Text("type", 0, 64); ok {
		def.Type = kind
	}
	if !slices.Contains([]string{Tool, Prompt, Resource}, def.Type) {
		form.Fault("must be tool, prompt or resource", "type")
	}
	def.Name, _ = form.Text("name", 1, 256)
	def.Description, _ = form.Text("description", 1, 10_000)
	def.URI, _ = form.Text("uri", 1, 2000)
	if media, ok := form.Text("mimeType", 1, 256); ok {
		def.MimeType = media
		if _, _, err := mime.ParseMediaType(media); err != nil {
			form.Fault("must be a media type", "mimeType")
		}
	}
	if form.Has("enabled") {
		def.Enabled, _ = form.Bool("enabled")
	}
	if _, ok := form.Object("_meta"); ok {
		def.Meta = n.Member("_meta").Raw
	}
	if _, ok := form.Object("annotations"); ok {
		def.Annotations = n.Member("annotations").Raw
		s.annotations(def.Type, n.Member("annotations"))
	}
	s.name(form)
	if def.Type == Resource {
		s.resource(form)
	}
	s.noteFaults(n, form.Err())
}

// name checks the name of a tool or a prompt, or the text that is used instead.
func (s *routedOperation) name(form *input.Form) {
	exposed := s.Exposed()
	if exposed.Type == Resource || ValidName(exposed.Name) || form.Has("name") && s.MCP.Name == "" {
		return
	}
	form.Fault("must be 1 to 64 of A-Z a-z 0-9 _ . / -", "name")
}

// derivedName makes a name from an operationId that can't be a name. It depends only on the
// operationId, and differs from every other operationId.
func derivedName(id string) string {
	const letters, digits = 64 - 1 - 8, 8
	slug := strings.Trim(noName.ReplaceAllString(id, "_"), "_")
	slug = strings.TrimRight(slug[:min(len(slug), letters)], "_")
	slug = cmp.Or(slug, "operation")
	sum := sha256.Sum256([]byte(id))
	return slug + "_" + hex.EncodeToString(sum[:])[:digits]
}

// Derived reports whether clients know the operation by a derived name, because its operationId
// can't be a name.
func (o *Operation) Derived() bool {
	def := o.Exposed()
	return def.Type != Resource && def.Name != o.ID && (o.MCP == nil || o.MCP.Name == "")
}

// ValidName reports whether a text may be the name of a tool or a prompt.
func ValidName(name string) bool {
	return validName.MatchString(name)
}

// resource checks the rules of resources.
func (s *routedOperation) resource(form *input.Form) {
	if s.Method != http.MethodGet {
		form.Fault("a resource is read by GET, and this is "+s.Method, "type")
	}
	if len(s.others) > 0 {
		form.Fault("the path of a resource has one method, and this one has "+strings.Join(s.others, ", ")+" as well", "type")
	}
	uri := s.Exposed().URI
	if u, err := url.Parse(strings.NewReplacer("{", "", "}", "").Replace(uri)); err != nil || u.Scheme == "" {
		form.Fault("must be an absolute URI", "uri")
		return
	}
	variables, ok := variables(uri)
	wanted := s.template.names()
	slices.Sort(variables)
	slices.Sort(wanted)
	switch {
	case !ok:
		form.Fault("has braces that hold no name", "uri")
	case s.template.unnamed():
		form.Fault("a resource's path has no part without a name", "uri")
	case !slices.Equal(variables, wanted) && len(wanted) == 0:
		form.Fault("has variables, and the path has no parameters", "uri")
	case !slices.Equal(variables, wanted):
		form.Fault("must have the path's parameters as variables: {"+strings.Join(wanted, "}, {")+"}", "uri")
	}
}

// variables returns the names in a URI template; ok is false when one of them is invalid.
func variables(uri string) (names []string, ok bool) {
	rest := uri
	for {
		_, after, more := strings.Cut(rest, "{")
		if !more {
			return names, !strings.Contains(rest, "}")
		}
		inner, next, closed := strings.Cut(after, "}")
		if !closed || !variableOfURI.MatchString(inner) {
			return nil, false
		}
		names, rest = append(names, inner), next
	}
}

// annotations checks the annotations of a tool or a resource.
func (s *routedOperation) annotations(kind string, n *jsontree.Node) {
	form := s.form(n)
	if form == nil {
		return
	}
	switch kind {
	case Tool:
		form.Text("title", 1, 256)
		for _, hint := range []string{"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"} {
			form.Bool(hint)
		}
	case Resource:
		audience, _ := form.Texts("audience", 0, 2)
		for _, who := range audience {
			if who != "user" && who != "assistant" {
				form.Fault("must hold user or assistant", "audience")
			}
		}
		form.Number("priority", 0, 1)
		form.Time("lastModified")
	}
	s.noteFaults(n, form.Err())
}

// Exposed returns the operation's description for AI clients, with defaults filled in; it is a tool
// when the document says nothing. MimeType stays empty: the answer has it.
func (o *Operation) Exposed() MCPDef {
	def := MCPDef{Type: Tool, Enabled: true}
	if o.MCP != nil {
		def = *o.MCP
	}
	if def.Name == "" {
		def.Name = o.ID
		if def.Type != Resource && !ValidName(def.Name) {
			def.Name = derivedName(o.ID)
		}
	}
	def.Description = cmp.Or(def.Description, o.Description, o.Summary, o.Method+" "+o.Path)
	if def.URI == "" && def.Type == Resource {
		def.URI = "mcp://resources/" + url.PathEscape(def.Name)
	}
	return def
}
