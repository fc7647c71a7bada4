package httpapi

import (
	"net/http"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"waybill.dev/services/api/internal/auth"
	"waybill.dev/services/api/internal/edge"
	"waybill.dev/services/api/internal/problem"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/auditlog"
)

const maxUserAgent = 256

// audited tells whether the route changes something that the audit log tells of. Events
// are in a log of their own.
func (r *Route) audited() bool {
	return r.Method != http.MethodGet && r.Operation != publishEvents
}

// action names the route in the audit log as the store names the change: createBucket is
// create-bucket.
func (r *Route) action() string {
	switch r.Operation {
	case "registerWebhook":
		return auditlog.ActionCreateWebhook
	case "rotateWebhookSecret":
		return auditlog.ActionRotateSecret
	}
	var b strings.Builder
	for _, c := range r.Operation {
		if unicode.IsUpper(c) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// caller is who calls, as the audit log has it.
func (c *call) caller() domain.Caller {
	return domain.Caller{
		Account: c.principal.Account, Sub: c.principal.ID, Type: c.principal.Type, KeyID: c.principal.KeyID,
		RequestID: c.GetString(keyRequestID),
		Address:   edge.Of(c.Request).Address,
		UserAgent: cut(c.Request.UserAgent(), maxUserAgent),
		Method:    c.route.Method, Route: c.route.Path,
	}
}

// cut returns at most limit bytes of text, in whole characters that every database takes.
func cut(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// noteRefusal writes to the audit log that a known caller was refused a change. It is not
// done for what was refused to spare the store.
func (s *server) noteRefusal(c *call, err error) {
	if !c.route.audited() || c.principal.Account == "" {
		return
	}
	p := toProblem(err)
	if p.Code == problem.Unavailable || p.Code == problem.RateLimited {
		return
	}
	s.Refusals.Note(c.ctx(), domain.AuditEntry{
		Account: c.principal.Account, Action: c.route.action(), Caller: c.caller(),
		Resources: c.refusedResources(p.Code), Error: string(p.Code),
	})
}

// plainName is what names and ids of ours look like. A key of ours has another form.
var plainName = regexp.MustCompile(`^([a-z0-9-]{1,128}|(key|eusr)_[0-9A-Za-z]{24}|[0-9A-Za-z]{22})$`)

// refusedResources returns what the path names. What does not exist has no name to be
// kept: it may be anything, a secret even.
func (c *call) refusedResources(code problem.Code) []domain.Resource {
	if code == problem.NotFound {
		return nil
	}
	presented, _ := auth.Key(c.Request.Header)
	var list []domain.Resource
	add := func(param string, resource domain.Resource) {
		if value := c.Param(param); plainName.MatchString(value) && value != presented {
			if strings.HasSuffix(param, "Name") {
				resource.Name = value
			} else {
				resource.ID = value
			}
			list = append(list, resource)
		}
	}
	add("bucketName", domain.Resource{Type: auditlog.ResourceBucket})
	add("consumerName", domain.Resource{Type: auditlog.ResourceConsumer})
	add("keyId", domain.Resource{Type: auditlog.ResourceKey})
	add("managerId", domain.Resource{Type: auditlog.ResourceManager})
	if strings.HasPrefix(c.route.Path, "/v1/deliveries/") {
		add("id", domain.Resource{Type: auditlog.ResourceDelivery})
	} else {
		add("id", domain.Resource{Type: auditlog.ResourceWebhook})
	}
	return list
}
