package routefile

import (
	"slices"

	"waybill.dev/services/gateway/internal/jsontree"
	"waybill.dev/shared/input"
)

// most bounds lists of names in route files.
const most = 1000

// policies reads policies.json.
func (l *loader) policies() {
	p := faultPlace{loader: l, file: PolicyFile}
	tree := p.tree()
	if tree == nil {
		return
	}
	form := p.form(tree)
	if form == nil {
		return
	}
	form.Ignore("$schema")
	for _, name := range []string{"policies", "corsPolicies"} {
		list, _ := form.Elements(name, 0, most, false)
		for i, n := range tree.Member(name).Elements() {
			if i >= len(list) || list[i].Form == nil {
				continue
			}
			if name == "policies" {
				p.policy(n, list[i].Form)
			} else {
				p.cors(n, list[i].Form)
			}
		}
	}
	p.noteFaults(tree, form.Err())
}

func (p faultPlace) policy(n *jsontree.Node, form *input.Form) {
	def := PolicyDef{Pointer: n.Pointer()}
	form.Require("name", "policyType", "handler")
	def.Name, _ = form.Text("name", 1, 128)
	def.Type, _ = form.Text("policyType", 1, 128)
	if _, ok := form.Object("handler"); ok {
		handler := p.handler(n.Member("handler"))
		def.Module, def.Export, def.Options = handler.Module, handler.Export, handler.Options
	}
	set := p.loader.set
	if slices.ContainsFunc(set.Policies, func(other PolicyDef) bool { return def.Name != "" && other.Name == def.Name }) {
		p.fault(n.Pointer()+"/name", "another policy is called %s", def.Name)
	}
	set.Policies = append(set.Policies, def)
}

func (p faultPlace) cors(n *jsontree.Node, form *input.Form) {
	def := CORSDef{Pointer: n.Pointer()}
	form.Require("name", "allowedOrigins")
	def.Name, _ = form.Text("name", 1, 128)
	def.AllowedOrigins, _ = form.Texts("allowedOrigins", 1, most)
	def.AllowedMethods, _ = form.Texts("allowedMethods", 0, most)
	def.AllowedHeaders, _ = form.Texts("allowedHeaders", 0, most)
	def.ExposeHeaders, _ = form.Texts("exposeHeaders", 0, most)
	def.MaxAge, _ = form.Integer("maxAge", 0, 86400)
	def.AllowCredentials, _ = form.Bool("allowCredentials")
	set := p.loader.set
	switch {
	case def.Name == CORSNone || def.Name == CORSAnything:
		p.fault(n.Pointer()+"/name", "%s is there already, and can't be defined", def.Name)
	case slices.ContainsFunc(set.CORS, func(other CORSDef) bool { return def.Name != "" && other.Name == def.Name }):
		p.fault(n.Pointer()+"/name", "another CORS policy is called %s", def.Name)
	}
	if def.AllowCredentials && slices.Contains(def.AllowedOrigins, "*") {
		p.fault(n.Pointer()+"/allowCredentials", "credentials can't be allowed to every origin")
	}
	set.CORS = append(set.CORS, def)
}
