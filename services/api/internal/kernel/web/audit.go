package web

import (
	"cmp"
	"net/url"
	"regexp"
	"strings"

	"waybill.dev/services/api/internal/kernel/auth"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
	"waybill.dev/shared/problem"
)

const maxUserAgent = 256

// caller returns the caller in the form of the audit log.
func (c *Call) caller() domain.Caller {
	return domain.Caller{
		Account: c.Principal.Account, Sub: c.Principal.ID, Type: c.Principal.Type, KeyID: c.Principal.KeyID,
		Session: auth.SessionOf(c.Request.Context()), RequestID: c.id,
		Address:   c.view().Address,
		UserAgent: domain.CutText(c.Request.UserAgent(), maxUserAgent),
		Method:    c.route.Method, Route: c.route.Path,
	}
}

// noteRefusal writes to the audit log that a known caller was refused a change. Refusals that are to spare the store
// are not written.
func (c *Call) noteRefusal(err error) {
	if c.route.Action == "" || c.Principal.Account == "" {
		return
	}
	p := toProblem(err)
	if p.Code == problem.Unavailable || p.Code == problem.RateLimited {
		return
	}
	c.kernel.Refusals.Note(c.Context(), domain.AuditEntry{
		Account: c.Principal.Account, Action: c.route.Action, Caller: c.caller(),
		Resources: c.refusedResources(p.Code), Error: string(p.Code),
	})
}

// plainName matches the names and ids that Waybill gives or takes. Its keys have another form.
var plainName = regexp.MustCompile(`^([a-z0-9-]{1,128}|(key|eusr)_[0-9A-Za-z]{24}|[0-9A-Za-z]{22})$`)

// refusedResources returns the things that the path names, except the account, whose log it is. The name of a thing
// that does not exist is left out: it may be any text, even a secret.
func (c *Call) refusedResources(code problem.Code) []domain.Resource {
	if code == problem.NotFound {
		return nil
	}
	presented, _ := apikey.FromHeader(c.Request.Header)
	var list []domain.Resource
	for _, named := range c.route.names {
		value := c.Param(named.parameter)
		if named.kind == "account" || !plainName.MatchString(value) || value == presented {
			continue
		}
		resource := domain.Resource{Type: named.kind}
		if strings.HasSuffix(named.parameter, "Name") {
			resource.Name = value
		} else {
			resource.ID = value
		}
		list = append(list, resource)
	}
	if name := c.tried(); name != "" && name != presented {
		list = append(list, domain.Resource{Type: strings.TrimPrefix(c.route.Action, creating), Name: name})
	}
	return list
}

// creating is the beginning of the actions that make one thing.
const creating = "create-"

// triedName matches the names of things that are yet to be made, and hostnames.
var triedName = regexp.MustCompile(`^([a-z0-9.-]{1,253}|[A-Z][A-Z0-9_]{0,63})$`)

// tried returns the name of the thing that a refused request was to make: the name in the body, and for a webhook its
// host. The name is empty if the body has not been read, or has no such name.
func (c *Call) tried() string {
	kind, creates := strings.CutPrefix(c.route.Action, creating)
	if !creates || c.body == nil {
		return ""
	}
	member := map[string]string{"feature": "key", "plan": "key", "meter": "slug", "custom-domain": "hostname", "webhook": "url"}[kind]
	member = cmp.Or(member, "name")
	form, err := input.ParseForm(c.body)
	if err != nil {
		return ""
	}
	name, _ := form.Text(member, 0, MaxBody)
	if kind == "webhook" {
		u, err := url.Parse(name)
		if err != nil {
			return ""
		}
		name = u.Hostname()
	}
	if !triedName.MatchString(name) {
		return ""
	}
	return name
}

// InvalidateKeys makes the authenticator forget its cached keys, and returns err. A handler that changes accounts,
// buckets, consumers or keys calls InvalidateKeys with the change's error before the answer. Only if err shows that
// nothing was changed, the keys stay.
func (c *Call) InvalidateKeys(err error) error {
	if err == nil || !refusal(err) {
		c.kernel.Keys.InvalidateKeys(c.Context())
	}
	return err
}

// MayGive refuses scopes that the caller lacks: the caller may neither give them to a consumer, nor touch the keys of
// a consumer that has them.
func (c *Call) MayGive(scopes []domain.Scope) error {
	if !auth.Exceeds(scopes, c.Principal) {
		return nil
	}
	return &problem.Problem{
		Code: problem.Forbidden, Detail: "The consumer's scopes exceed those of the key. It takes " + problem.Listed(scopes, " and ") + ".",
		Scopes: &problem.Scopes{Required: scopes, Granted: c.Principal.Scopes},
	}
}
