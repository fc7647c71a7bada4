package gateway

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/gateway/internal/routefile"
)

// Info is what a route is, for people.
type Info struct {
	File, Operation, Method, Path string
	Handler                       string // module and export
	Inbound, Outbound             []string
	// MCP is what the route is to AI clients of the servers that name it: tool, prompt or
	// resource; empty: nothing says so.
	MCP string
}

// Check loads the routes as New does, and tells what they are, without anything being
// served: of Options, Dir, Modules, Reserved and Getenv are needed.
func Check(options Options) ([]Info, routefile.Faults, error) {
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	options.Registerer = prometheus.NewRegistry()
	g := prepare(options)
	files, err := g.open()
	if err != nil {
		return nil, nil, err
	}
	t, faults := g.build(files)
	if len(faults) > 0 {
		return nil, faults, nil
	}
	defer g.retire(t)
	list := make([]Info, len(t.routes))
	for i, rt := range t.routes {
		op := rt.operation
		list[i] = Info{
			File: op.File.Name, Operation: op.ID, Method: op.Method, Path: op.Path,
			Handler: op.Handler.Module + " " + op.Handler.Export, Inbound: op.Inbound, Outbound: op.Outbound,
		}
		if op.MCP != nil {
			list[i].MCP = op.Exposed().Type
		}
	}
	return list, nil, nil
}
