// Package words puts the codes of the API into words.
package words

import (
	"cmp"
	"strconv"
	"strings"
	"unicode"

	"waybill.dev/services/api/internal/families/receivers"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/auditlog"
)

// Scope says what a scope is for.
func Scope(s domain.Scope) string {
	return map[domain.Scope]string{
		domain.ScopeWebhooksRead:  "See webhooks and their health",
		domain.ScopeWebhooksWrite: "Make, change and delete webhooks",
		domain.ScopeEventsRead:    "See events, deliveries and statistics",
		domain.ScopeEventsWrite:   "Publish, test, send again and replay",
		domain.ScopeBucketsRead:   "See buckets, consumers, masked keys and managers",
		domain.ScopeBucketsWrite:  "Make and revoke keys with scopes of its own",
		domain.ScopeMCP:           "Use MCP servers",
		domain.ScopeGatewayRead:   "See deployments, environments, domains, tunnels and requests",
		domain.ScopeGatewayWrite:  "Deploy, and change variables, domains, certificates and tunnels",
		domain.ScopeMeteringRead:  "See meters, features, plans, subscriptions and usage",
		domain.ScopeMeteringWrite: "Make and change meters, features, plans and subscriptions",
		domain.ScopeAdmin:         "Everything of the account, and its audit log",
	}[s]
}

// Reason says what a delivery waits for, or why it ended.
func Reason(reason string) string { return cmp.Or(reasonText(reason), reason) }

func reasonText(reason string) string {
	return map[string]string{
		domain.ReasonWebhookDeleted: "webhook deleted",
		domain.ReasonExhausted:      "schedule exhausted",
		domain.ReasonRetention:      "retention over",
		domain.ReasonCircuitOpen:    "circuit open",
		domain.ReasonInactive:       "webhook inactive",
		domain.ReasonUnreadable:     "webhook unreadable",
		domain.ReasonOverCap:        "over capacity",
		domain.ReasonBehindShipment: "behind an earlier event",
		domain.ReasonPull:           "fetched, not sent",
		domain.ReasonCancelled:      "job cancelled",
		domain.ReasonWrongSecret:    "signed with a wrong secret",
		domain.ReasonOldTime:        "signed with an old time",
	}[reason]
}

// Answer returns a short text for a receiver's answer to a failed attempt.
func Answer(a receivers.Answer) string {
	if a.StatusCode != 0 {
		return "answers " + strconv.Itoa(a.StatusCode)
	}
	return Class(a.Class)
}

// Class says how an attempt ended.
func Class(class domain.Class) string { return cmp.Or(classText(class), string(class)) }

func classText(class domain.Class) string {
	return map[domain.Class]string{
		domain.ClassOK:       "answered 2xx",
		domain.Class3xx:      "redirect",
		domain.Class4xx:      "answered 4xx",
		domain.Class5xx:      "answered 5xx",
		domain.ClassTimeout:  "no answer in time",
		domain.ClassDNS:      "name not found",
		domain.ClassConnect:  "no connection",
		domain.ClassTLS:      "TLS failed",
		domain.ClassRefused:  "address not allowed",
		domain.ClassProtocol: "no valid HTTP",
		domain.ClassAuth:     "no token for the receiver",
		domain.ClassGone:     "answered 410",
	}[class]
}

// State says how a webhook is doing.
func State(state receivers.State) string { return cmp.Or(stateText(state), string(state)) }

func stateText(state receivers.State) string {
	switch state {
	case receivers.Healthy, receivers.Degraded, receivers.Failing, receivers.Inactive:
		return string(state)
	case receivers.CircuitOpen:
		return "circuit open"
	case receivers.Idle:
		return "no traffic"
	}
	return ""
}

// Disabled says why a webhook is inactive; nil: its owner made it inactive, as for a webhook that
// was never active.
func Disabled(reason *domain.DisabledReason) string {
	if reason == nil {
		return disabledText(domain.DisabledManual)
	}
	return cmp.Or(disabledText(*reason), string(*reason))
}

func disabledText(reason domain.DisabledReason) string {
	return map[domain.DisabledReason]string{
		domain.DisabledGone:    "answered 410",
		domain.DisabledFailing: "failed for days",
		domain.DisabledQuota:   "quota used up",
		domain.DisabledManual:  "paused",
	}[reason]
}

// Period returns the text for the length of a period of a plan.
func Period(c domain.Cadence) string { return cmp.Or(periodText(c), string(c)) }

func periodText(c domain.Cadence) string {
	switch c {
	case domain.Hourly:
		return "an hour"
	case domain.Daily:
		return "a day"
	case domain.Weekly:
		return "a week"
	case domain.TwoWeekly:
		return "two weeks"
	case domain.FourWeekly:
		return "four weeks"
	case domain.Monthly:
		return "a month"
	case domain.Quarterly:
		return "three months"
	case domain.HalfYearly:
		return "six months"
	case domain.TwelveMonths:
		return "twelve months"
	case domain.Yearly:
		return "a year"
	}
	return ""
}

// Action returns the text for an action of the audit log: "create bucket".
func Action(action string) string {
	return strings.ReplaceAll(strings.ReplaceAll(action, "client-mtls-ca-certificate", "CA certificate"), "-", " ")
}

// Resource returns the text for the type of a resource of the audit log: "signing key".
func Resource(kind string) string {
	if kind == auditlog.ResourceClientCA {
		return "CA certificate"
	}
	var text strings.Builder
	for _, r := range kind {
		switch {
		case r == '-':
			r = ' '
		case unicode.IsUpper(r):
			text.WriteByte(' ')
		}
		text.WriteRune(unicode.ToLower(r))
	}
	return text.String()
}
