package mcpserver

import (
	"slices"
	"strings"

	"waybill.dev/services/gateway/internal/route"
)

const (
	// manyTools is the number of tools up to which all are listed, on a server that has tools to
	// find others: some clients show no more.
	manyTools = 40
	// everything is the toolset of all tools.
	everything = "all"
)

// toolsets returns the toolsets that the URL names, without repetitions; nil: none.
func toolsets(r *route.Request) []string {
	var sets []string
	for _, value := range r.Query.Values()["tools"] {
		for name := range strings.SplitSeq(value, ",") {
			if name = strings.TrimSpace(name); name != "" {
				sets = append(sets, name)
			}
		}
	}
	slices.Sort(sets)
	return slices.Compact(sets)
}

// unknownToolset returns the failure for unknown toolsets in the URL; nil: all are known. An empty
// list would hide the mistake from the client.
func (s *server) unknownToolset(r *route.Request) *failure {
	for _, name := range toolsets(r) {
		if name == everything || slices.Contains(s.catalog.toolsets, name) {
			continue
		}
		f := invalidParams("The URL's parameter tools names a toolset that there is not; see data.")
		f.status = 400
		f.data = append(appendTexts([]byte(`{"toolsets":`), append(slices.Clone(s.catalog.toolsets), everything)), '}')
		return f
	}
	return nil
}

// sees reports whether the caller may use an entry and, for a tool, whether the URL's toolsets
// include it.
func (e *entry) sees(r *route.Request) bool { return seeing(r)(e) }

// seeing returns a function like sees for many entries of one request. The URL is parsed once.
func seeing(r *route.Request) func(*entry) bool {
	sets := toolsets(r)
	all := len(sets) == 0 || slices.Contains(sets, everything)
	return func(e *entry) bool {
		return e.target.Route.Permits(r.Principal) && (e.tool == nil || all ||
			slices.ContainsFunc(e.target.Definition.Tags, func(tag string) bool { return slices.Contains(sets, tag) }))
	}
}

// defaultTools returns those of the caller's tools that are listed by default. Found reports whether the
// tools to find the others are listed, too.
func (s *server) defaultTools(r *route.Request, entries []*entry) (listed []*entry, found bool) {
	if !s.searches() || len(entries) <= manyTools || len(toolsets(r)) > 0 {
		return entries, false
	}
	return slices.DeleteFunc(slices.Clone(entries), func(e *entry) bool { return !slices.Contains(s.defaults, e.key) }), true
}

// searches reports whether the server has tools to find others.
func (s *server) searches() bool { return len(s.defaults) > 0 }

// appendTexts appends an array of texts.
func appendTexts(b []byte, texts []string) []byte {
	b = append(b, '[')
	for i, text := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, text)
	}
	return append(b, ']')
}
