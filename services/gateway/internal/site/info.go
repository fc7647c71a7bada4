package site

// Info is what a route is, for people.
type Info struct {
	File, Operation, Method, Path string
	Handler                       string // module and export
	Inbound, Outbound             []string
	// MCP is what the route is to AI clients of the servers that name it: tool, prompt or
	// resource; empty: nothing says so.
	MCP string
	// Notes are what those who deploy the route should know of it, though it is no fault.
	Notes []string
}

// Routes tells what the routes of the site are, in the order in which they are asked.
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
