package routefile

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// checkSet notes faults between files, and between an operation and the names that it uses.
func (l *loader) checkSet() {
	routes := make(map[string]*routedOperation) // by method and path
	paths := make(map[string][]*routedOperation)
	for _, s := range l.operations {
		if l.budget.Err() != nil {
			return
		}
		s.names()
		key := s.template.key()
		if other := routes[s.Method+" "+key]; other != nil {
			s.fault(s.pointer, "%s is already answered by %s of %s", s.Method+" "+s.Path, other.ID, other.File.Name)
		} else {
			routes[s.Method+" "+key] = s
		}
		paths[key] = append(paths[key], s)
		s.arguments()
	}
	for _, s := range l.operations {
		if s.MCP == nil || s.MCP.Type != Resource || s.Method != http.MethodGet {
			continue
		}
		for _, other := range paths[s.template.key()] {
			// Other methods of the same path item were handled when it was read.
			if other.Method != s.Method && !slices.Contains(s.others, other.Method) {
				s.fault(s.pointer, "the path of a resource has one method, and %s of %s is %s", other.ID, other.File.Name, other.Method)
			}
		}
	}
}

// names notes the policies that are named and not defined.
func (s *routedOperation) names() {
	set := s.loader.set
	at := s.route.Pointer()
	for i, name := range slices.Concat(s.Inbound, s.Outbound) {
		chain := "/policies/inbound"
		if i >= len(s.Inbound) {
			chain = "/policies/outbound"
		}
		if name != "" && !slices.ContainsFunc(set.Policies, func(p PolicyDef) bool { return p.Name == name }) {
			s.fault(at+chain, "there is no policy %s%s", name, set.defined())
		}
	}
	known := s.CORSPolicy == CORSNone || s.CORSPolicy == CORSAnything || s.CORSPolicy == ""
	if !known && !slices.ContainsFunc(set.CORS, func(c CORSDef) bool { return c.Name == s.CORSPolicy }) {
		s.fault(at+"/corsPolicy", "there is no CORS policy %s", s.CORSPolicy)
	}
}

// mostNamed is how many policies a fault names.
const mostNamed = 40

// defined lists the policies that the files define, for a fault.
func (set *Set) defined() string {
	names := make([]string, len(set.Policies))
	for i := range set.Policies {
		names[i] = set.Policies[i].Name
	}
	switch n := len(names); {
	case n == 0:
		return ": the files define none"
	case n > mostNamed:
		return fmt.Sprintf(": the files define %s and %d others", strings.Join(names[:mostNamed], ", "), n-mostNamed)
	}
	return ": the files define " + strings.Join(names, ", ")
}

// arguments notes why a tool or a prompt can't be called. For other operations, the MCP server that
// names them reports that.
func (s *routedOperation) arguments() {
	if s.MCP == nil || s.MCP.Type == Resource || !s.MCP.Enabled {
		return
	}
	if slices.ContainsFunc(s.loader.faults, func(f Fault) bool { return f.File == s.file && f.Operation == s.operation }) {
		return // the error of Input would repeat some of them
	}
	if _, err := s.Input(); err != nil {
		s.fault(s.route.Pointer()+"/mcp", "%s; with enabled false it is left out for AI clients", err)
	}
}
