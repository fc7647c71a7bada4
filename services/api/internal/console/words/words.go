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
	switch s {
	case domain.ScopeWebhooksRead:
		return "See webhooks and their health"
	case domain.ScopeWebhooksWrite:
		return "Make, change and delete webhooks"
	case domain.ScopeEventsRead:
		return "See events, deliveries and statistics"
	case domain.ScopeEventsWrite:
		return "Publish, test, send again and replay"
	case domain.ScopeBucketsRead:
		return "See buckets, consumers, masked keys and managers"
	case domain.ScopeBucketsWrite:
		return "Make and revoke keys with scopes of its own"
	case domain.ScopeMCP:
		return "Use MCP servers"
	case domain.ScopeGatewayRead:
		return "See deployments, environments, domains, tunnels and requests"
	case domain.ScopeGatewayWrite:
		return "Deploy, and change variables, domains, certificates and tunnels"
	case domain.ScopeMeteringRead:
		return "See meters, features, plans, subscriptions and usage"
	case domain.ScopeMeteringWrite:
		return "Make and change meters, features, plans and subscriptions"
	case domain.ScopeAdmin:
		return "Everything of the account, and its audit log"
	}
	return ""
}

// Reason says what a delivery waits for, or why it ended.
func Reason(reason string) string { return cmp.Or(reasonText(reason), reason) }

func reasonText(reason string) string {
	switch reason {
	case domain.ReasonWebhookDeleted:
		return "webhook deleted"
	case domain.ReasonExhausted:
		return "schedule exhausted"
	case domain.ReasonRetention:
		return "retention over"
	case domain.ReasonCircuitOpen:
		return "circuit open"
	case domain.ReasonInactive:
		return "webhook inactive"
	case domain.ReasonUnreadable:
		return "webhook unreadable"
	case domain.ReasonOverCap:
		return "over capacity"
	case domain.ReasonBehindShipment:
		return "behind an earlier event"
	case domain.ReasonPull:
		return "fetched, not sent"
	case domain.ReasonCancelled:
		return "job cancelled"
	case domain.ReasonWrongSecret:
		return "signed with a wrong secret"
	case domain.ReasonOldTime:
		return "signed with an old time"
	}
	return ""
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
	switch class {
	case domain.ClassOK:
		return "answered 2xx"
	case domain.Class3xx:
		return "redirect"
	case domain.Class4xx:
		return "answered 4xx"
	case domain.Class5xx:
		return "answered 5xx"
	case domain.ClassTimeout:
		return "no answer in time"
	case domain.ClassDNS:
		return "name not found"
	case domain.ClassConnect:
		return "no connection"
	case domain.ClassTLS:
		return "TLS failed"
	case domain.ClassRefused:
		return "address not allowed"
	case domain.ClassProtocol:
		return "no valid HTTP"
	case domain.ClassAuth:
		return "no token for the receiver"
	case domain.ClassGone:
		return "answered 410"
	}
	return ""
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
	switch reason {
	case domain.DisabledGone:
		return "answered 410"
	case domain.DisabledFailing:
		return "failed for days"
	case domain.DisabledQuota:
		return "quota used up"
	case domain.DisabledManual:
		return "paused"
	}
	return ""
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
