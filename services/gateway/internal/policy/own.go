package policy

import (
	"regexp"

	"waybill.dev/services/gateway/internal/jsonschema"
	"waybill.dev/services/gateway/internal/route"
)

// ownPolicies are the gateway's own policies, in the order of their names.
func ownPolicies() []Policy {
	return []Policy{
		apiKeyPolicy(),
		addressesPolicy(),
		jwtAuthPolicy(),
		meteringPolicy(),
		mtlsAuthPolicy(),
		rateLimitPolicy(),
		removeHeadersInbound(),
		removeHeadersOutbound(),
		removeQueryPolicy(),
		sizeLimitPolicy(),
		validationPolicy(),
		setHeadersInbound(),
		setHeadersOutbound(),
		setQueryPolicy(),
		setStatusPolicy(),
	}
}

var accountName = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)

// formats are the formats that schemas of options may name in addition to those of JSON Schema.
func formats() []jsonschema.Format {
	return []jsonschema.Format{
		{Name: "account", Check: func(text string) string {
			if text == anyAccount || accountName.MatchString(text) {
				return ""
			}
			return "must be * or the name of an account"
		}},
		{Name: "header-name", Check: func(text string) string { return causeText(route.CheckHeader(text, "")) }},
		{Name: "request-header-name", Check: func(text string) string {
			if route.SaysCaller(text) {
				return "is the gateway's own: it says who calls"
			}
			return causeText(route.CheckHeader(text, ""))
		}},
		{Name: "header-value", Check: func(text string) string { return causeText(route.CheckHeader("A", text)) }},
		{Name: "network", Check: func(text string) string {
			if _, ok := parseNetwork(text); ok {
				return ""
			}
			return "must be an address, or a network such as 10.0.0.0/8"
		}},
	}
}

func causeText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
