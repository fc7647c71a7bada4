package site

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"waybill.dev/services/gateway/internal/handler"
	"waybill.dev/services/gateway/internal/jsonschema"
	"waybill.dev/services/gateway/internal/policy"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/services/gateway/internal/upstream"
	"waybill.dev/shared/input"
)

// builder makes a site of a folder's files.
type builder struct {
	limits     Limits
	reserved   [][]string // the segments of limits.Reserved
	variables  func(name string) (value string, ok bool)
	files      fs.FS
	set        *routefile.Set
	site       *Site
	policies   map[string]*policy.Made // by name of their definition; nil: faulty, and reported already
	cors       map[string]*cors
	faults     Faults
	readFaults int   // number of faults that were found when the files were read
	answers    int64 // bytes of fixed answers that routes hold
}

// Compile makes the site of a folder of route files, or returns all faults in the files and in the
// resources that they ask for, as far as the budget limits.Schemas lasts. The result depends only
// on the arguments: Compile uses no environment, store, network or clock, opens nothing, and calls
// no handler.
func Compile(files fs.FS, variables Variables, limits Limits) (*Site, Faults) {
	lookup := func(name string) (string, bool) { return limits.lookupVariable(variables, name) }
	set, faults := routefile.Load(limits.Schemas, files, lookup)
	b := &builder{
		limits: limits.complete(), variables: lookup, files: files, set: set, faults: faults, readFaults: len(faults),
		site:     &Site{exact: make(map[string][]int), files: len(set.Files)},
		policies: make(map[string]*policy.Made),
		cors:     map[string]*cors{routefile.CORSNone: nil, "": nil, routefile.CORSAnything: anythingGoes()},
	}
	for _, template := range limits.Reserved {
		b.reserved = append(b.reserved, strings.Split(strings.TrimSuffix(template, "/"), "/"))
	}
	b.definitions()
	for _, file := range set.Files {
		for _, op := range file.Operations {
			if !b.mustStop() {
				b.route(op)
			}
		}
	}
	b.mcp()
	switch {
	case len(b.faults) > 0 || !b.mustStop():
	case limits.Schemas.Err() != nil:
		b.faults = Faults{{Message: limits.Schemas.Err().Error()}}
	default:
		b.faults = Faults{{Message: fmt.Sprintf("the routes take more than the %d MiB of memory that a gateway gives the deployments of an account; "+
			"their schemas and the files that they answer with take most of it", limits.MaxWeight>>20)}}
	}
	if len(b.faults) > 0 {
		return nil, b.faults
	}
	b.site.weight = b.weight()
	return b.site, nil
}

// weight returns how much memory the site takes so far, in bytes.
func (b *builder) weight() int64 {
	return b.limits.Weight + b.limits.Schemas.Spent()*jsonschema.BytesOfValue + b.answers
}

// mustStop reports whether the work must stop.
func (b *builder) mustStop() bool {
	return b.limits.Schemas.Err() != nil || b.limits.MaxWeight > 0 && b.weight() > b.limits.MaxWeight
}

func (b *builder) fault(op *routefile.Operation, messages ...string) {
	for _, message := range messages {
		b.faults = append(b.faults, routefile.Fault{File: op.File.Name, Operation: op.ID, Pointer: routeOf(op), Message: message})
	}
}

// routeOf returns the JSON pointer to the route of an operation in its file.
func routeOf(op *routefile.Operation) string {
	return input.Pointer("paths", op.Path, strings.ToLower(op.Method), "x-gateway-route")
}

// definitions makes every policy, used or not, so that faults are found before a route uses it.
func (b *builder) definitions() {
	for _, def := range b.set.Policies {
		if b.unreadPolicy(&def) {
			b.policies[def.Name] = nil
			continue
		}
		made, faults := b.limits.Policies.Make(&def, policy.Env{Account: b.limits.Account, Bucket: b.limits.Bucket, Uploaded: b.limits.Uploaded, Built: b.limits.Built, Egress: b.limits.Egress})
		b.policies[def.Name] = made
		for _, message := range faults {
			b.faults = append(b.faults, routefile.Fault{File: routefile.PolicyFile, Pointer: def.Pointer, Message: "policy " + def.Name + ": " + message})
		}
	}
	if b.unreadFile(routefile.PolicyFile) {
		return // the missing parts of a CORS policy have been reported already
	}
	for _, def := range b.set.CORS {
		made, faults := newCORS(def)
		for _, message := range faults {
			b.faults = append(b.faults, routefile.Fault{File: routefile.PolicyFile, Pointer: def.Pointer, Message: "CORS policy " + def.Name + ": " + message})
		}
		b.cors[def.Name] = made
	}
}

// route makes the route of an operation, except the handler of an MCP server.
func (b *builder) route(op *routefile.Operation) {
	rt := &Route{
		operation: op, place: len(b.site.routes), timeout: op.Timeout,
		maxRequest: route.MaxRequest, maxResponse: route.MaxResponse, cors: b.cors[op.CORSPolicy], uploaded: b.limits.Uploaded,
	}
	rt.timeout = cmp.Or(rt.timeout, defaultTimeout)
	if own := b.servedBy(op); own != "" {
		b.fault(op, "Waybill itself serves this path, as "+own)
	}
	if !b.unread(op, "policies") {
		b.chain(rt)
	}
	if !b.unread(op, "handler") {
		b.handler(rt)
	}
	if err := b.site.add(rt); err != nil {
		b.fault(op, err.Error())
	}
}

// unread reports whether a member of x-gateway-route has faults that have been reported already.
func (b *builder) unread(op *routefile.Operation, member string) bool {
	return slices.ContainsFunc(b.faults[:b.readFaults], func(f routefile.Fault) bool {
		_, at, found := strings.Cut(f.Pointer, "/x-gateway-route")
		return found && f.File == op.File.Name && f.Operation == op.ID && (at == "" || strings.HasPrefix(at, "/"+member))
	})
}

// faulty reports whether an operation has faults that were found when its file was read.
func (b *builder) faulty(op *routefile.Operation) bool {
	return slices.ContainsFunc(b.faults[:b.readFaults], func(f routefile.Fault) bool { return f.File == op.File.Name && f.Operation == op.ID })
}

// unreadPolicy reports whether the definition of a policy has faults that have been reported
// already. A duplicate name does not count: the rest of the definition may be good.
func (b *builder) unreadPolicy(def *routefile.PolicyDef) bool {
	return slices.ContainsFunc(b.faults[:b.readFaults], func(f routefile.Fault) bool {
		rest, found := strings.CutPrefix(f.Pointer, def.Pointer)
		return f.File == routefile.PolicyFile && found && (rest == "" || strings.HasPrefix(rest, "/") && rest != "/name")
	})
}

// unreadFile reports whether a file has faults that have been reported already.
func (b *builder) unreadFile(name string) bool {
	return slices.ContainsFunc(b.faults[:b.readFaults], func(f routefile.Fault) bool { return f.File == name })
}

// chain gives a route its policies.
func (b *builder) chain(rt *Route) {
	for _, name := range rt.operation.Inbound {
		if made := b.policies[name]; made != nil { // otherwise its faults have been reported already
			b.inbound(rt, name, made)
		}
	}
	for _, name := range rt.operation.Outbound {
		made := b.policies[name]
		if made == nil {
			continue
		}
		out := made.Outbound()
		if out == nil {
			b.fault(rt.operation, "the policy "+name+" can't run after the handler: it belongs to inbound")
			continue
		}
		rt.outbound = append(rt.outbound, out)
		rt.needsWhole = rt.needsWhole || route.NeedsBody(out)
	}
}

func (b *builder) inbound(rt *Route, name string, made *policy.Made) {
	in, faults := made.Inbound(rt.operation)
	switch {
	case len(faults) > 0:
		for _, message := range faults {
			b.fault(rt.operation, "policy "+name+": "+message)
		}
	case in == nil:
		b.fault(rt.operation, "the policy "+name+" can't run before the handler: it belongs to outbound")
	default:
		if noted, ok := in.(interface{ Notes() []string }); ok {
			rt.notes = append(rt.notes, noted.Notes()...)
		}
		if len(rt.inbound) == 0 && !route.NeedsBody(in) {
			rt.early = append(rt.early, in)
		} else {
			rt.inbound = append(rt.inbound, in)
		}
		rt.guard(in)
		if tokens, ok := in.(route.TakesTokens); ok && rt.isMCP() {
			rt.takesTokens = append(rt.takesTokens, tokens)
		}
	}
}

// guard adds a part to the gates if it is a gate.
func (rt *Route) guard(part any) {
	if gate, ok := part.(route.Gate); ok {
		rt.gates = append(rt.gates, gate)
	}
}

// handler makes the handler of the route.
func (b *builder) handler(rt *Route) {
	def := rt.operation.Handler
	if def.Module != routefile.Runtime {
		if b.limits.Uploaded {
			b.fault(rt.operation, "modules can't be uploaded: handler/module must be $import("+routefile.Runtime+")")
			return
		}
		registered := b.limits.Modules[def.Module][def.Export]
		if registered == nil {
			b.fault(rt.operation, "no handler "+def.Export+" of a module "+def.Module+" is registered")
			return
		}
		rt.guard(registered)
		if changing, ok := registered.(route.Changing); ok {
			rt.changesWith = changing.ChangesWith()
		}
		rt.handler = prompt{registered}
		return
	}
	if rt.isMCP() {
		return // made after all others
	}
	made, faults := handler.New(rt.operation, handler.Env{
		Set: b.set, Folder: b.files, Egress: b.limits.Egress, Strict: b.limits.Uploaded, Built: b.limits.Built, Getenv: b.variables, Services: b.limits.Services,
	})
	b.fault(rt.operation, faults...)
	b.use(rt, made)
}

// use sets the handler of the route.
func (b *builder) use(rt *Route, made route.Handler) {
	if made == nil {
		return
	}
	rt.handler = made
	rt.passesBody = len(rt.inbound) == 0 && !route.NeedsBody(made)
	if fixed, ok := made.(interface{ Instant() bool }); ok && len(rt.early)+len(rt.inbound)+len(rt.outbound) == 0 {
		rt.instant = fixed.Instant()
	}
	if ready, ok := made.(interface{ Size() int }); ok {
		b.answers += int64(ready.Size())
	}
	rt.guard(made)
	if forwards, ok := made.(interface{ Upstream() upstream.BackEnd }); ok {
		b.site.upstreams = append(b.site.upstreams, forwards.Upstream())
	}
}
