package site

import (
	"bytes"
	"slices"
	"strings"

	"waybill.dev/services/gateway/internal/mcpserver"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
)

// mcpHandler is the export of the handler that calls other routes of the site.
const mcpHandler = "mcpServerHandler"

// isMCP reports whether the route is an MCP server.
func (rt *Route) isMCP() bool {
	return rt.operation.Handler.Module == routefile.Runtime && rt.operation.Handler.Export == mcpHandler
}

// mcp makes the handlers of the MCP servers, when all other routes are there.
func (b *builder) mcp() {
	for _, rt := range b.site.routes {
		if b.mustStop() || !rt.isMCP() || b.unread(rt.operation, "handler") {
			continue
		}
		targets, ok := b.targets(rt)
		if !ok {
			continue
		}
		options := mcpserver.Options{Definition: rt.operation, Route: rt, Targets: targets}
		if rt.cors != nil {
			options.Trusts = rt.cors.allows
		}
		made, faults := mcpserver.New(options)
		b.fault(rt.operation, faults...)
		b.use(rt, made)
		rt.maxRequest, rt.maxResponse = route.MaxMCPRequest, 0
	}
}

// targets returns the operations that an MCP server names. It leaves out operations with faults: the list of
// faults has them already. It returns false if the options of the server can't be read.
func (b *builder) targets(rt *Route) ([]mcpserver.Target, bool) {
	references, faults := mcpserver.References(rt.operation.Handler.Options)
	b.fault(rt.operation, faults...)
	if len(faults) > 0 {
		return nil, false
	}
	targets := make([]mcpserver.Target, 0, len(references))
	for _, reference := range references {
		if b.mustStop() {
			return nil, false
		}
		target := b.site.lookup(reference.File, reference.ID)
		if target == nil {
			b.noTarget(rt, reference)
			continue
		}
		if b.faulty(target.operation) {
			continue
		}
		target.noteTool()
		targets = append(targets, mcpserver.Target{Definition: target.operation, Route: target, MediaType: target.mediaType(), ChangesWith: target.changesWith})
		if rt.operation.Timeout == 0 {
			// The route of the server must not cut off a tool with a longer time limit.
			rt.timeout = max(rt.timeout, target.timeout+slack)
		}
	}
	return targets, true
}

// mediaType returns the Content-Type of the handler's answers, if the handler knows it in advance; otherwise it
// is empty.
func (rt *Route) mediaType() string {
	if ready, ok := rt.handler.(interface{ MediaType() string }); ok && len(rt.outbound) == 0 {
		return ready.MediaType()
	}
	return ""
}

// noteTool adds notes about the differences for clients: a derived name, because clients can't accept the
// operationId, and a body that can't be made from arguments.
func (rt *Route) noteTool() {
	op := rt.operation
	note := func(text string) {
		if !slices.Contains(rt.notes, text) {
			rt.notes = append(rt.notes, text)
		}
	}
	if op.Derived() {
		note("AI clients know the operation as " + op.Exposed().Name + ": its operationId is no name for them, and mcp/name is not set")
	}
	if why := op.Unsent(); why != "" && op.Exposed().Type == routefile.Tool {
		note("AI clients call the operation without its body: " + why)
	}
}

// noTarget notes that an operation does not exist, unless a reported fault may be the reason.
func (b *builder) noTarget(rt *Route, reference mcpserver.Reference) {
	there := slices.ContainsFunc(b.set.Files, func(f *routefile.File) bool { return f.Name == reference.File })
	switch {
	case reference.File == "" || reference.ID == "" || b.unreadOperation(reference):
	case !there:
		b.fault(rt.operation, "operations names the file "+ifWritten(rt, reference.File)+", which is not there")
	default:
		b.fault(rt.operation, "operations names the operation "+ifWritten(rt, reference.ID)+" of "+ifWritten(rt, reference.File)+", which is not there")
	}
}

// unreadOperation reports whether reported faults may be the reason why an operation does not exist: faults of
// the operation, its path or the whole file.
func (b *builder) unreadOperation(reference mcpserver.Reference) bool {
	return slices.ContainsFunc(b.faults[:b.readFaults], func(f routefile.Fault) bool {
		above := f.Operation == "" && (f.Pointer == "" || f.Pointer == "/paths" || strings.HasPrefix(f.Pointer, "/paths/"))
		return f.File == reference.File && (f.Operation == reference.ID || above)
	})
}

// ifWritten returns a name if it is written in the route file itself: values of variables are never shown.
func ifWritten(rt *Route, name string) string {
	if bytes.Contains(rt.operation.File.Raw, []byte(name)) {
		return name
	}
	return "that is made of variables"
}

// lookup finds the route of an operation by its file and id.
func (s *Site) lookup(file, id string) *Route {
	for _, rt := range s.routes {
		if rt.operation.File.Name == file && rt.operation.ID == id {
			return rt
		}
	}
	return nil
}
