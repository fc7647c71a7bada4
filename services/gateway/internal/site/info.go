package site

// Info describes a route for people.
type Info struct {
	File, Operation, Method, Path string
	Handler                       string // module and export
	Inbound, Outbound             []string
	// MCP is the kind of the route for AI clients of the servers that name it: tool, prompt or
	// resource; empty: not set.
	MCP string
	// Notes are messages for the people who deploy the route that are not faults.
	Notes []string
}

// Routes returns the routes of the site, in the order in which they are matched.
func (s *Site) Routes() []Info {
	list := make([]Info, len(s.routes))
	for i, rt := range s.routes {
		op := rt.operation
		list[i] = Info{
			File: op.File.Name, Operation: op.ID, Method: op.Method, Path: op.Path,
			Handler: op.Handler.Module + " " + op.Handler.Export, Inbound: op.Inbound, Outbound: op.Outbound, Notes: rt.notes,
		}
		if op.MCP != nil {
			list[i].MCP = op.Exposed().Type
		}
	}
	return list
}
