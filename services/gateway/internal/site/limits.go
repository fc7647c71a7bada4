package site

import (
	"cmp"

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

// Limits are the limits on a site's files at the place where the site is served.
type Limits struct {
	// Account is the account that the routes belong to, with the keys that they accept; empty: domain.DefaultAccount.
	Account string
	// Egress says where redirects may lead, and which addresses back ends may have in addition to private ones; nil:
	// public ones by HTTPS.
	Egress *egress.Policy
	// Reserved are the templates of the paths that are served before any route is asked.
	Reserved []string
	// Modules are the handlers that files may name in addition to the gateway's own: by NAME of
	// $import(./modules/NAME), then by export.
	Modules map[string]map[string]route.Handler
	// Uploaded applies the rules for tenants to the files: no modules, back ends by the rules of Egress only, and keys
	// of Account only.
	Uploaded bool
	// Built says that the files have passed a build already, perhaps by an earlier version. Then headers that are
	// removed from answers anyway are no fault, and neither is a back end that is no longer allowed: each request to
	// it is refused.
	Built bool
	// Bucket is the key bucket for routes that name no bucket. When empty, these routes accept keys of any bucket of
	// the account.
	Bucket string
	// Services checks back ends that are behind tunnels. If it is nil, there may be none.
	Services *upstream.Access
	// Own are the variables beginning with WAYBILL_ that $env(NAME) may name. Variables never
	// has such ones.
	Own Variables
	// Schemas is the budget for the schemas of the files; nil: unlimited.
	Schemas *jsonschema.Budget
	// Weight is how much memory the route files take, and MaxWeight how much the site may take including them, in
	// bytes; 0: there is no bound.
	Weight, MaxWeight int64
	// Policies are the policies that files may define; nil: the gateway's own.
	Policies *policy.Registry
}

// lookupVariable returns the value of a variable: one of Own, or one of the deployment.
func (l Limits) lookupVariable(deployment Variables, name string) (value string, ok bool) {
	if routefile.IsOwn(name) {
		deployment = l.Own
	}
	value, ok = deployment[name]
	return value, ok
}

func (l Limits) complete() Limits {
	l.Account = cmp.Or(l.Account, domain.DefaultAccount)
	if l.Egress == nil {
		l.Egress = &egress.Policy{}
	}
	if l.Policies == nil {
		l.Policies, _ = policy.NewRegistry() // only added policies can make it fail
	}
	return l
}
