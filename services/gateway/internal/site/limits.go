package site

import (
	"waybill.dev/services/gateway/internal/jsonschema"
	"waybill.dev/services/gateway/internal/policy"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/services/gateway/internal/upstream"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
)

// Variables have the values that $env(NAME) stands for.
type Variables map[string]string

// Faults are everything that is wrong with the files of a site.
type Faults = routefile.Faults

// Limits are what the files of a site may ask for, where it is to be served.
type Limits struct {
	// Account is the one that the routes belong to, whose keys open them; empty:
	// domain.DefaultAccount.
	Account string
	// Egress says where back ends may redirect to, and which addresses they may have besides
	// private ones; nil: public ones by HTTPS.
	Egress *egress.Policy
	// Reserved are the templates of the paths that are served before any route is asked.
	Reserved []string
	// Modules are the handlers that files may name besides the gateway's own: by NAME of
	// $import(./modules/NAME), then by export.
	Modules map[string]map[string]route.Handler
	// Uploaded holds the files to what a tenant may ask for: no modules, back ends by the rules
	// of Egress alone, and keys of Account alone.
	Uploaded bool
	// Built tells that the files have passed a build already, of an earlier version perhaps: what is left out of
	// answers in any case is no fault of theirs, nor is a back end that is not allowed any more: it is refused at each
	// request.
	Built bool
	// Bucket is the key bucket whose keys open routes that name no bucket. When empty, keys of any bucket of the
	// account do.
	Bucket string
	// Services checks back ends that are behind tunnels. If it is nil, none may be.
	Services *upstream.Access
	// Own are the variables beginning with WAYBILL_ that $env(NAME) may name. Variables never
	// has such ones.
	Own Variables
	// Schemas bounds what the schemas of the files take; nil: nothing does.
	Schemas *jsonschema.Budget
	// Weight is what the route files take in memory as they are, and MaxWeight what the site may take
	// with them, in bytes; 0: there is no bound.
	Weight, MaxWeight int64
	// Policies are those that files may define; nil: the gateway's own.
	Policies *policy.Registry
}

// variable returns what a name stands for.
func (l Limits) variable(variables Variables, name string) (value string, ok bool) {
	if routefile.IsOwn(name) {
		variables = l.Own
	}
	value, ok = variables[name]
	return value, ok
}

func (l Limits) complete() Limits {
	if l.Account == "" {
		l.Account = domain.DefaultAccount
	}
	if l.Egress == nil {
		l.Egress = &egress.Policy{}
	}
	if l.Policies == nil {
		l.Policies, _ = policy.NewRegistry() // which fails of added ones alone
	}
	return l
}
