package gateway

import (
	"io"
	"io/fs"
	"slices"
	"strings"

	"waybill.dev/services/api/internal/backend"
	"waybill.dev/services/api/internal/policy"
	"waybill.dev/services/api/internal/route"
	"waybill.dev/services/api/internal/routefile"
)

// builder makes a table of a folder's files.
type builder struct {
	gateway *Gateway
	files   fs.FS
	set     *routefile.Set
	table   *table
	// counters are the table's; they become the gateway's with it.
	counters *policy.Counters
	defs     map[string]routefile.PolicyDef // by name
	broken   map[string]bool                // definitions whose faults are told already
	cors     map[string]*cors
	faults   routefile.Faults
	told     int // how many of the faults were found when the files were read
}

// build makes the table, or says everything that is wrong, with what the files say and with
// what they want. What is refused leaves no trace.
func (g *Gateway) build(files fs.FS) (*table, routefile.Faults) {
	set, faults := routefile.Load(files, g.Getenv)
	b := &builder{
		gateway: g, files: files, set: set, faults: faults, told: len(faults), counters: g.counters.Next(),
		table: &table{exact: make(map[string][]int), files: len(set.Files)},
		defs:  make(map[string]routefile.PolicyDef), broken: make(map[string]bool),
		cors: map[string]*cors{routefile.CORSNone: nil, "": nil, routefile.CORSAnything: anythingGoes()},
	}
	b.table.uses.Store(1)
	if !b.unreadFile(routefile.PolicyFile) {
		b.policies()
	}
	for _, file := range set.Files {
		for _, op := range file.Operations {
			b.route(op)
		}
	}
	b.mcp()
	if len(b.faults) > 0 {
		return nil, append(b.faults, b.abandon()...)
	}
	b.counters.Keep()
	g.counters = b.counters
	return b.table, nil
}

// abandon closes what was made for a table that is not to be.
func (b *builder) abandon() routefile.Faults {
	if err := b.table.close(); err != nil {
		return routefile.Faults{{Message: err.Error()}}
	}
	return nil
}

func (b *builder) fault(op *routefile.Operation, messages ...string) {
	for _, message := range messages {
		b.faults = append(b.faults, routefile.Fault{File: op.File.Name, Operation: op.ID, Message: message})
	}
}

// policies checks every definition, used or not, so that a route that begins to use one
// finds it in order.
func (b *builder) policies() {
	for _, def := range b.set.Policies {
		_, _, faults := policy.New(def, b.policyEnv(nil))
		b.defs[def.Name], b.broken[def.Name] = def, len(faults) > 0
		for _, message := range faults {
			b.faults = append(b.faults, routefile.Fault{File: routefile.PolicyFile, Message: "policy " + def.Name + ": " + message})
		}
	}
	for _, def := range b.set.CORS {
		made, faults := newCORS(def)
		for _, message := range faults {
			b.faults = append(b.faults, routefile.Fault{File: routefile.PolicyFile, Message: "CORS policy " + def.Name + ": " + message})
		}
		b.cors[def.Name] = made
	}
}

func (b *builder) policyEnv(op *routefile.Operation) policy.Env {
	return policy.Env{
		Operation: op, Authenticator: b.gateway.Authenticator, Account: b.gateway.Account,
		Counters: b.counters, Logger: b.gateway.Logger,
	}
}

// route makes the route of an operation, but for the handler of an MCP server.
func (b *builder) route(op *routefile.Operation) {
	rt := &Route{
		operation: op, gateway: b.gateway, timeout: op.Timeout,
		maxRequest: route.MaxRequest, maxResponse: route.MaxResponse, cors: b.cors[op.CORSPolicy],
	}
	if rt.timeout == 0 {
		rt.timeout = defaultTimeout
	}
	if own := b.gateway.servedBy(op); own != "" {
		b.fault(op, "Waybill itself serves this path, as "+own)
	}
	if !b.unread(op, "policies") {
		b.chain(rt)
	}
	if !b.unread(op, "handler") {
		b.handler(rt)
	}
	if err := b.table.add(rt); err != nil {
		b.fault(op, err.Error())
	}
}

// unread tells whether a member of x-gateway-route has faults that are told already.
func (b *builder) unread(op *routefile.Operation, member string) bool {
	return slices.ContainsFunc(b.faults[:b.told], func(f routefile.Fault) bool {
		_, at, found := strings.Cut(f.Pointer, "/x-gateway-route")
		return found && f.File == op.File.Name && f.Operation == op.ID && (at == "" || strings.HasPrefix(at, "/"+member))
	})
}

// unreadFile tells whether a file has faults that are told already.
func (b *builder) unreadFile(name string) bool {
	return slices.ContainsFunc(b.faults[:b.told], func(f routefile.Fault) bool { return f.File == name })
}

// chain makes the policies of a route.
func (b *builder) chain(rt *Route) {
	for _, name := range rt.operation.Inbound {
		if in, _, ok := b.policy(rt.operation, name); !ok {
			continue
		} else if in == nil {
			b.fault(rt.operation, "the policy "+name+" can't run before the handler: it belongs to outbound")
		} else {
			if len(rt.inbound) == 0 && !route.NeedsBody(in) {
				rt.early = append(rt.early, in)
			} else {
				rt.inbound = append(rt.inbound, in)
			}
			rt.guard(in)
		}
	}
	for _, name := range rt.operation.Outbound {
		if _, out, ok := b.policy(rt.operation, name); !ok {
			continue
		} else if out == nil {
			b.fault(rt.operation, "the policy "+name+" can't run after the handler: it belongs to inbound")
		} else {
			rt.outbound = append(rt.outbound, out)
		}
	}
}

func (b *builder) policy(op *routefile.Operation, name string) (route.Inbound, route.Outbound, bool) {
	if b.broken[name] || b.defs[name].Name == "" {
		return nil, nil, false // told already
	}
	in, out, faults := policy.New(b.defs[name], b.policyEnv(op))
	for _, message := range faults {
		b.fault(op, "policy "+name+": "+message)
	}
	return in, out, len(faults) == 0
}

// guard adds a gate, if it is one.
func (rt *Route) guard(part any) {
	if gate, ok := part.(route.Gate); ok {
		rt.gates = append(rt.gates, gate)
	}
}

// handler makes what answers the route.
func (b *builder) handler(rt *Route) {
	def := rt.operation.Handler
	if def.Module != routefile.Runtime {
		// The program's own handlers outlive every table.
		handler := b.gateway.Modules[def.Module][def.Export]
		if handler == nil {
			b.fault(rt.operation, "no handler "+def.Export+" of a module "+def.Module+" is registered")
			return
		}
		rt.guard(handler)
		rt.handler = prompt{handler}
		return
	}
	if def.Export == mcpHandler {
		return // when all others are there
	}
	handler, faults := backend.New(rt.operation, backend.Env{
		Set: b.set, Folder: b.files, Egress: b.gateway.Egress, Getenv: b.gateway.Getenv,
	})
	b.fault(rt.operation, faults...)
	b.use(rt, handler)
}

// use gives the route its handler, which lives as long as the table.
func (b *builder) use(rt *Route, handler route.Handler) {
	if handler == nil {
		return
	}
	rt.handler = handler
	rt.guard(handler)
	if closer, ok := handler.(io.Closer); ok {
		b.table.closers = append(b.table.closers, closer.Close)
	}
}
