// Package policy has the policies that routes name: what is done to a request before its
// handler, and to the answer after it.
package policy

import (
	"strings"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/input"
	"waybill.dev/shared/problem"
)

// APIKey is the type of the policy that asks for a key.
const APIKey = "api-key-inbound"

// Env is what policies are made from.
type Env struct {
	// Operation is the route that the policy is for; nil: the definition is only checked.
	Operation *routefile.Operation
	// Account is the one that the route belongs to.
	Account string
	// Bucket is the one whose keys open the route, unless the policy names another; empty: any.
	Bucket string
	// Uploaded tells that the files are a tenant's, who can't let in the keys of others.
	Uploaded bool
}

// built is a policy that was made of a definition; one of the two is nil.
type built struct {
	in  route.Inbound
	out route.Outbound
}

// builder makes a policy of its options and names what is wrong with them in the form.
type builder func(options *input.Form, def *routefile.PolicyDef, env *Env) built

// builderOf returns what makes policies of a type, and the export of the runtime that the
// type goes with; nil: there is no such type.
func builderOf(name string) (build builder, export string) {
	switch name {
	case APIKey:
		return newAPIKey, "ApiKeyInboundPolicy"
	case rateLimitType:
		return newRateLimit, "RateLimitInboundPolicy"
	case "ip-restriction-inbound":
		return newAddresses, "IpRestrictionInboundPolicy"
	case "request-validation-inbound":
		return newValidation, "RequestValidationInboundPolicy"
	case "request-size-limit-inbound":
		return newSizeLimit, "RequestSizeLimitInboundPolicy"
	case "set-headers-inbound":
		return setHeadersInbound, "SetHeadersInboundPolicy"
	case "set-headers-outbound":
		return setHeadersOutbound, "SetHeadersOutboundPolicy"
	case "remove-headers-inbound":
		return removeHeadersInbound, "RemoveHeadersInboundPolicy"
	case "remove-headers-outbound":
		return removeHeadersOutbound, "RemoveHeadersOutboundPolicy"
	case "set-query-params-inbound":
		return setQueryInbound, "SetQueryParamsInboundPolicy"
	case "remove-query-params-inbound":
		return removeQueryInbound, "RemoveQueryParamsInboundPolicy"
	case "set-status-outbound":
		return setStatusOutbound, "SetStatusOutboundPolicy"
	}
	return nil, ""
}

// New makes a policy of a definition, for the operation of env: one that goes before
// handlers or one that goes after them. faults are sentences about the definition; they
// never repeat the value of an option. Without an operation there are only faults.
func New(def routefile.PolicyDef, env Env) (inbound route.Inbound, outbound route.Outbound, faults []string) {
	build, export := builderOf(def.Type)
	if build == nil {
		return nil, nil, []string{"policyType is not one of the gateway's"}
	}
	if def.Module != routefile.Runtime {
		faults = append(faults, "handler/module must be $import("+routefile.Runtime+")")
	}
	if def.Export != export {
		faults = append(faults, "handler/export must be "+export+" for the policyType "+def.Type)
	}
	options := def.Options
	if len(options) == 0 {
		options = []byte("{}")
	}
	form, err := input.ParseForm(options)
	var made built
	if err == nil {
		made = build(form, &def, &env)
		err = form.Err()
	}
	faults = append(faults, optionFaults(err)...)
	if len(faults) > 0 || env.Operation == nil {
		return nil, nil, faults
	}
	return made.in, made.out, nil
}

// optionFaults puts what is wrong with options into sentences.
func optionFaults(err error) []string {
	p, ok := err.(*problem.Problem) //nolint:errorlint // forms return it bare
	if !ok {
		return nil
	}
	faults := make([]string, len(p.Faults))
	for i, f := range p.Faults {
		faults[i] = strings.TrimSpace("handler/options" + f.Pointer + " " + f.Detail)
	}
	return faults
}
