package handler

import (
	"net/http"
	"strconv"
	"strings"

	"waybill.dev/services/gateway/internal/jsontree"
	"waybill.dev/services/gateway/internal/policy"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/input"
)

// The names of the ways to show a key or a token, in a published document.
const (
	bearerScheme = "waybillBearer"
	headerScheme = "waybillKey"

	tokenScheme = "waybillToken"

	keySchemes = `"` + bearerScheme + `":{"type":"http","scheme":"bearer","description":"An API key."},` +
		`"` + headerScheme + `":{"type":"apiKey","in":"header","name":"X-API-Key","description":"An API key."}`
	tokenSchemes = `"` + tokenScheme + `":{"type":"http","scheme":"bearer","bearerFormat":"JWT","description":"An access token."}`

	needsKey   = `[{"` + bearerScheme + `":[]},{"` + headerScheme + `":[]}]`
	needsToken = `[{"` + tokenScheme + `":[]}]`
)

// maxServers is how many addresses a published document may name.
const maxServers = 100

// newSpec makes the handler that publishes a route file as an OpenAPI document.
func newSpec(options *input.Form, _ *routefile.Operation, env *Env) route.Handler {
	options.Require("openApiFilePath")
	name, given := options.Text("openApiFilePath", 1, 1024)
	servers, _ := options.Texts("servers", 1, maxServers)
	for i, server := range servers {
		if !isLocation(server) {
			options.Fault("must be an http or https URL, or a path that begins with a slash", "servers", strconv.Itoa(i))
		}
	}
	if !given {
		return nil
	}
	file := fileOf(env.Set, name)
	if file == nil {
		options.Fault("is not a route file in the folder", "openApiFilePath")
		return nil
	}
	tree, err := jsontree.Parse(file.Raw)
	if err != nil {
		options.Fault("can't be read", "openApiFilePath")
		return nil
	}
	p := publisher{root: tree, needs: needs(env.Set, file), servers: servers}
	body := p.document()
	if len(body) > route.MaxResponse {
		options.Fault(errLongFile.Error(), "openApiFilePath")
	}
	if reference := missing(tree, body); reference != "" {
		options.Fault("refers to "+reference+", which is left out of the published document", "openApiFilePath")
	}
	return &fixedAnswer{route.Response{Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}}
}

// fileOf returns the route file that a path names, relative to the folder or to its parent.
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

// needs returns what the operations of a file require, by method and path.
func needs(set *routefile.Set, file *routefile.File) map[string]string {
	asking := make(map[string]string)
	for i := range set.Policies {
		switch def := &set.Policies[i]; {
		case policy.KeyDocumented(def):
			asking[def.Name] = needsKey
		case def.Type == policy.JWTAuth:
			asking[def.Name] = needsToken
		}
	}
	operations := make(map[string]string)
	for _, op := range file.Operations {
		for _, name := range op.Inbound {
			if asking[name] != "" {
				operations[op.Method+" "+op.Path] = asking[name]
			}
		}
	}
	return operations
}

// missing returns a reference of the published document to a part that was left out of it; empty:
// there is none.
func missing(source *jsontree.Node, published []byte) string {
	tree, err := jsontree.Parse(published)
	if err != nil {
		return ""
	}
	var look func(n *jsontree.Node) string
	look = func(n *jsontree.Node) string {
		if reference, ok := n.Member("$ref").Text(); ok {
			pointer, local := jsontree.Fragment(reference)
			if local && tree.At(pointer) == nil && source.At(pointer) != nil {
				return reference
			}
		}
		for _, member := range n.Members() {
			if found := look(member); found != "" {
				return found
			}
		}
		for _, element := range n.Elements() {
			if found := look(element); found != "" {
				return found
			}
		}
		return ""
	}
	return look(tree)
}
