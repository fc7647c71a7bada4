package site

import (
	"waybill.dev/services/gateway/internal/policy"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
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
	// Policies are those that files may define; nil: the gateway's own.
	Policies *policy.Registry
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
