package backend

import (
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/input"
	"waybill.dev/services/api/internal/jsontree"
	"waybill.dev/services/api/internal/policy"
	"waybill.dev/services/api/internal/route"
	"waybill.dev/services/api/internal/routefile"
)

// The names of the ways to show a key, in a published document.
const (
	bearerScheme = "waybillBearer"
	headerScheme = "waybillKey"

	schemes = `"` + bearerScheme + `":{"type":"http","scheme":"bearer","description":"An API key."},` +
		`"` + headerScheme + `":{"type":"apiKey","in":"header","name":"X-API-Key","description":"An API key."}`
	needsKey = `[{"` + bearerScheme + `":[]},{"` + headerScheme + `":[]}]`
)

// newSpec makes the handler that publishes a route file as an OpenAPI document.
func newSpec(options *input.Form, _ *routefile.Operation, env *Env) route.Handler {
	options.Require("openApiFilePath")
	name, given := options.Text("openApiFilePath", 1, 1024)
	if !given {
		return nil
	}
	file := fileOf(env.Set, name)
	if file == nil {
		options.Fault("is no route file of the folder", "openApiFilePath")
		return nil
	}
	tree, err := jsontree.Parse(file.Raw)
	if err != nil {
		options.Fault("can't be read", "openApiFilePath")
		return nil
	}
	p := publisher{keyed: keyed(env.Set, file)}
	body := p.document(tree)
	if len(body) > route.MaxResponse {
		options.Fault(errLongFile.Error(), "openApiFilePath")
	}
	return &fixed{route.Response{Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}}
}

// fileOf returns the route file that a path names, be it seen from the folder or from the
// one above.
func fileOf(set *routefile.Set, path string) *routefile.File {
	name := strings.TrimPrefix(path, "./")
	if set == nil {
		return nil
	}
	for _, prefix := range []string{"", "config/"} {
		for _, file := range set.Files {
			if prefix+file.Name == name {
				return file
			}
		}
	}
	return nil
}

// keyed returns the operations of a file that ask for a key, as method and path.
func keyed(set *routefile.Set, file *routefile.File) map[string]bool {
	asking := make(map[string]bool)
	for i := range set.Policies {
		if policy.KeyDocumented(&set.Policies[i]) {
			asking[set.Policies[i].Name] = true
		}
	}
	operations := make(map[string]bool)
	for _, op := range file.Operations {
		for _, name := range op.Inbound {
			if asking[name] {
				operations[op.Method+" "+op.Path] = true
			}
		}
	}
	return operations
}

// publisher leaves out of a document what is the gateway's affair, and says where a key is
// needed.
type publisher struct {
	keyed map[string]bool
	used  bool // some operation that is published needs a key
}

// object is a JSON object that is being written.
type object struct{ text jsontext.Value }

func (o *object) add(name string, value []byte) {
	if len(o.text) == 0 {
		o.text = append(o.text, '{')
	} else {
		o.text = append(o.text, ',')
	}
	o.text, _ = jsontext.AppendQuote(o.text, name)
	o.text = append(append(o.text, ':'), value...)
}

func (o *object) end() jsontext.Value {
	if len(o.text) == 0 {
		return jsontext.Value("{}")
	}
	return append(o.text, '}')
}

func isOwn(name string) bool { return strings.HasPrefix(name, "x-gateway-") || name == "x-internal" }

func (p *publisher) document(n *jsontree.Node) jsontext.Value {
	paths := p.paths(n.Member("paths"))
	var o object
	for name, member := range n.Members() {
		switch {
		case isOwn(name):
		case name == "paths":
			o.add(name, paths)
		case name == "components" && p.used:
			o.add(name, components(member))
		default:
			o.add(name, member.Raw)
		}
	}
	if p.used && n.Member("components") == nil {
		o.add("components", components(nil))
	}
	return o.end()
}

func (p *publisher) paths(n *jsontree.Node) jsontext.Value {
	var o object
	for path, item := range n.Members() {
		if item.Kind() != '{' {
			o.add(path, item.Raw)
			continue
		}
		if written, some := p.item(path, item); some {
			o.add(path, written)
		}
	}
	return o.end()
}

// item writes a path's operations; some is false when none is left.
func (p *publisher) item(path string, n *jsontree.Node) (written jsontext.Value, some bool) {
	var o object
	for name, member := range n.Members() {
		switch {
		case isOwn(name):
		case !isMethod(name):
			o.add(name, member.Raw)
			some = some || name == "$ref"
		case !member.Member("x-internal").True() && !n.Member("x-internal").True():
			o.add(name, p.operation(strings.ToUpper(name)+" "+path, member))
			some = true
		}
	}
	return o.end(), some
}

func isMethod(name string) bool {
	switch name {
	case "get", "put", "post", "delete", "options", "head", "patch", "trace":
		return true
	}
	return false
}

func (p *publisher) operation(which string, n *jsontree.Node) jsontext.Value {
	var o object
	for name, member := range n.Members() {
		if !isOwn(name) {
			o.add(name, member.Raw)
		}
	}
	if p.keyed[which] && n.Member("security") == nil {
		p.used = true
		o.add("security", jsontext.Value(needsKey))
	}
	return o.end()
}

// components writes the document's components with the ways to show a key.
func components(n *jsontree.Node) jsontext.Value {
	var o object
	for name, member := range n.Members() {
		if name != "securitySchemes" {
			o.add(name, member.Raw)
		}
	}
	var s object
	for name, member := range n.Member("securitySchemes").Members() {
		if name != bearerScheme && name != headerScheme {
			s.add(name, member.Raw)
		}
	}
	own, err := jsontree.Parse([]byte("{" + schemes + "}"))
	if err == nil {
		for name, member := range own.Members() {
			s.add(name, member.Raw)
		}
	}
	o.add("securitySchemes", s.end())
	return o.end()
}
