package verb

import (
	"net/http"
	"slices"
)

const (
	tunnelsPath = accountPath + "/tunnels"
	tunnelPath  = tunnelsPath + "/{tunnelId}"
	// Tunnels is the noun with the verb run, which is not a call of the API.
	Tunnels = "tunnels"
)

func tunnels() Noun {
	view := View{None: "There are no tunnels.", Columns: append([]Column{
		{Title: "TUNNEL", Member: "tunnelId", Spare: true}, {Title: "ID", Member: "id", Form: Ident, Spare: true}, {Title: "NAME", Member: "name"}, {Title: "STATUS", Member: "status"},
		{Title: "TOKEN", Member: "token", Spare: true},
	}, made()...)}
	operation := operationOfTunnel()
	one := []Arg{{Word: "TUNNEL", To: "tunnelId", List: tunnelsPath, ID: "id"}}
	of := slices.Concat(one, []Arg{{Word: "OPERATION", To: "operationId"}})
	const onceToken = "This is the only time that the token is shown. Start an agent with it:\n  WAYBILL_TUNNEL_TOKEN=… waybill tunnel run --allow http://HOST:PORT"
	return Noun{
		Name: Tunnels, Short: "Reach services in a network that gateways can't reach",
		Long: "An agent in that network connects to a gateway: `waybill tunnel run`. Routes of\ndeployments then reach its services as service://NAME.",
		Verbs: slices.Concat([]Verb{
			{Name: "list", Short: "List tunnels", Example: "  waybill tunnels list", Method: http.MethodGet, Path: tunnelsPath, Flags: paging(), Show: view},
			{
				Name: "create", Short: "Make a tunnel", Example: "  waybill tunnels create warehouse",
				Long:   "Makes a tunnel and prints its token, this one time. A name has 3 to 24 letters,\ndigits and hyphens.",
				Method: http.MethodPost, Path: tunnelsPath, Args: []Arg{newName("NAME")}, Body: AnObject, Show: view, Once: onceToken,
			},
			{
				Name: "get", Short: "Show a tunnel", Example: "  waybill tunnels get tun_… -o json",
				Long:   "Shows a tunnel. With -o json, its connections too.",
				Method: http.MethodGet, Path: tunnelPath, Args: one, Show: view,
			},
			{
				Name: "rotate", Short: "Give a tunnel another token",
				Long: "Makes another token and prints it, this one time. The one before ends after the\noverlap, or at once without it. Start agents with the new token in that time:\n" +
					"then no request fails.",
				Example: "  waybill tunnels rotate tun_… --overlap 1h", Method: http.MethodPost, Path: tunnelPath + "/$rotate-token", Args: one, Body: AnObject,
				Flags: []Flag{{Name: "overlap", Usage: "how long the token before goes on, at most 24h; default: not at all", Kind: Seconds, To: "overlapSeconds"}},
				Show:  view, Once: onceToken, Confirm: "Give tunnel {tunnelId} another token? The one before ends after the overlap.",
			},
			{
				Name: "delete", Short: "Remove a tunnel", Example: "  waybill tunnels delete tun_…",
				Long:   "Ends the connections of the tunnel's agents, and removes it when they are gone.\nRequests that run have up to 30 seconds to end.",
				Method: http.MethodDelete, Path: tunnelPath, Args: one, Show: operation,
				Confirm: "Remove tunnel {tunnelId}? Its services can't be used from now on.",
			},
			{
				Name: "teardown", Short: "Show how far the removal of a tunnel has come", Example: "  waybill tunnels teardown tun_… tst_…",
				Method: http.MethodGet, Path: tunnelPath + "/teardown-operations/{operationId}", Args: of, Show: operation,
			},
		}, servicesOfTunnel(one, of)),
	}
}

func operationOfTunnel() View {
	return View{Columns: []Column{
		{Title: "OPERATION", Member: "id"}, {Title: "STATUS", Member: "status"}, {Title: "MESSAGE", Member: "message"}, {Title: "DETAILS", Member: "details", Spare: true},
	}}
}

// servicesOfTunnel returns the verbs for a tunnel's services configuration.
func servicesOfTunnel(one, of []Arg) []Verb {
	operation := operationOfTunnel()
	services := View{Rows: "services", None: "The tunnel has no services.", Columns: []Column{
		{Title: "SERVICE", Member: "name"}, {Title: "ENDPOINT", Member: "endpoint"},
	}}
	return []Verb{
		{
			Name: "services", Short: "Show the services of a tunnel", Example: "  waybill tunnels services tun_… -o json > services.json",
			Method: http.MethodGet, Path: tunnelPath + "/services-configuration", Args: one, Show: services,
		},
		{
			Name: "configure", Short: "Give a tunnel its services, from a file",
			Long:    "Sends a services configuration, as `tunnels services -o json` prints it, to all\nagents of the tunnel. It holds when all have taken it. -: standard input.",
			Example: "  waybill tunnels configure tun_… services.json", Method: http.MethodPut, Path: tunnelPath + "/services-configuration",
			Args: slices.Concat(one, []Arg{{Word: "FILE", To: "file", File: true}}), Show: operation,
			Adjust: func(r *Request, in *Input) error {
				text, err := in.Read(in.Args[1])
				r.Body = text
				return err
			},
		},
		{
			Name: "provisioning", Short: "Show how far a services configuration has come", Example: "  waybill tunnels provisioning tun_… pst_…",
			Method: http.MethodGet, Path: tunnelPath + "/provisioning-operations/{operationId}", Args: of, Show: operation,
		},
	}
}
