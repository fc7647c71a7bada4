package system

import (
	"math"
	"slices"
	"strings"
	"time"

	"waybill.dev/services/api/internal/console"
)

// RouteState says which route files are served, and which are not.
type RouteState struct {
	Dir      string // empty: Waybill's built-in routes
	Loaded   time.Time
	Files    int
	Routes   []RouteLine
	Faults   []RouteFault // faults of the folder as it is now; none: the folder is what is served
	FaultsAt time.Time
}

// RouteLine is one route.
type RouteLine struct {
	File, Operation, Method, Path, Handler, MCP string
	Inbound, Outbound                           []string
}

// RouteFault is one fault of the route files.
type RouteFault struct{ File, Operation, Pointer, Message string }

type routesView struct {
	Known    bool
	State    RouteState
	Lines    []routeLine
	Match    string
	File     string
	BuiltIn  bool // Waybill's built-in routes are shown
	Files    []console.Option
	Filtered bool
	Check    string // the command that checks the folder
	// Deployment is the path of the routes' traffic; empty: none.
	Deployment string
}

type routeLine struct {
	RouteLine

	Calls, Failed float64
	P95           string // in milliseconds; empty: the route was not called
}

func (o *Options) showRoutes(p *console.Page) error {
	if _, err := changes(p); err != nil {
		return err
	}
	v := routesView{Match: strings.TrimSpace(p.Query("q")), File: p.Query("file")}
	v.BuiltIn = p.Query("show") == "built-in"
	v.Filtered = v.Match != "" || v.File != ""
	v.Check = "waybill routes check"
	p.CLI("routes check")
	if p.Has("/console/deployments/{deploymentName}") {
		v.Deployment = console.Path("console", "deployments", "local")
	}
	if o.RouteState == nil {
		return p.Show("routes.html", "Routes", v)
	}
	v.Known, v.State = true, o.RouteState()
	if v.State.Dir != "" {
		v.Check += " " + v.State.Dir
	}
	v.Files = []console.Option{{Label: "All files"}}
	hidden := v.State.Dir == "" && !v.BuiltIn && !v.Filtered
	m := gather(o.Metrics)
	for _, r := range v.State.Routes {
		if option := (console.Option{Value: r.File, Label: r.File}); !slices.Contains(v.Files, option) {
			v.Files = append(v.Files, option)
		}
		if hidden || v.File != "" && r.File != v.File || !strings.Contains(strings.ToLower(r.Method+" "+r.Path+" "+r.Operation), strings.ToLower(v.Match)) {
			continue
		}
		v.Lines = append(v.Lines, measured(r, m))
	}
	return p.Show("routes.html", "Routes", v)
}

// measured returns a route with the numbers that the process has counted for it.
func measured(r RouteLine, m metrics) routeLine {
	line := routeLine{RouteLine: r}
	line.Calls, _ = m.value("waybill_gateway_calls_total", "method", r.Method, "route", r.Path)
	line.Failed, _ = m.value("waybill_gateway_calls_total", "method", r.Method, "route", r.Path, "class", "5xx")
	if seconds, ok := m.quantile(0.95, "waybill_gateway_call_seconds", "method", r.Method, "route", r.Path); ok {
		line.P95 = "over 4 s"
		if !math.IsInf(seconds, 1) {
			line.P95 = "≤ " + time.Duration(seconds*float64(time.Second)).Round(100*time.Microsecond).String()
		}
	}
	return line
}
