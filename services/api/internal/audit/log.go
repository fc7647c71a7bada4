package audit

import (
	"context"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/web"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
)

const (
	maxPage     = 100
	defaultPage = 20
	maxRange    = 30 * 24 * time.Hour
)

// Log is what was written, by the store itself and by Refusals.
type Log interface {
	ListAudit(ctx context.Context, filter auditlog.AuditFilter) ([]domain.AuditEntry, int, error)
}

// Routes returns the operation.
func Routes(log Log) []web.Route {
	h := &handlers{log}
	return []web.Route{{
		Method: http.MethodGet, Path: web.AccountPath + "/audit-logs", Operation: "listAuditLogs",
		Scope: domain.ScopeAdmin, Handle: h.list,
	}}
}

type handlers struct{ log Log }

// Members that Waybill never fills are there, and null, so that readers find the form that
// they know.
type auditView struct {
	Action    string          `json:"action"`
	Metadata  any             `json:"metadata"`
	Actor     auditActor      `json:"actor"`
	Resources []auditResource `json:"resources"`
	Context   auditContext    `json:"context"`
	Route     auditRoute      `json:"route"`
	Timestamp *string         `json:"timestamp"`
	RequestID string          `json:"requestId"`
	Success   bool            `json:"success"`
	Error     *string         `json:"error"`
	Count     int             `json:"count"` // an extension
}

type auditActor struct {
	Sub        string  `json:"sub"`
	Email      *string `json:"email"`
	Type       string  `json:"type"`
	Connection *string `json:"connection"`
	ActingAs   *string `json:"actingAs"`
	Metadata   any     `json:"metadata"`
}

type auditResource struct {
	Type     string `json:"type"`
	ID       string `json:"id"`
	Metadata any    `json:"metadata"`
}

type auditContext struct {
	IPAddress  *string `json:"ipAddress"`
	UserAgent  *string `json:"userAgent"`
	Country    *string `json:"country"`
	Region     *string `json:"region"`
	City       *string `json:"city"`
	PostalCode *string `json:"postalCode"`
	MetroCode  *string `json:"metroCode"`
	ASOrg      *string `json:"asOrg"`
}

type auditRoute struct {
	Source *string `json:"source"`
	URL    *string `json:"url"`
	Method *string `json:"method"`
}

type auditPagination struct {
	Limit   int  `json:"limit"`
	Offset  int  `json:"offset"`
	Total   int  `json:"total"`
	HasMore bool `json:"hasMore"`
}

func viewAudit(e domain.AuditEntry) auditView {
	v := auditView{
		Action: e.Action, Timestamp: web.Stamp(e.At), RequestID: e.Caller.RequestID, Success: e.Success, Error: web.Optional(e.Error), Count: e.Count,
		Actor:     auditActor{Sub: e.Caller.Sub, Type: e.Caller.Type, Metadata: actorFacts(e.Caller)},
		Context:   auditContext{IPAddress: web.Optional(e.Caller.Address), UserAgent: web.Optional(e.Caller.UserAgent)},
		Route:     auditRoute{URL: web.Optional(e.Caller.Route), Method: web.Optional(e.Caller.Method)},
		Resources: make([]auditResource, 0, len(e.Resources)),
	}
	for _, r := range e.Resources {
		v.Resources = append(v.Resources, auditResource{Type: r.Type, ID: r.ID, Metadata: fact("name", r.Name)})
	}
	return v
}

// actorFacts is by what the actor called: the key or the manager, and the console's session.
func actorFacts(c domain.Caller) any {
	facts := map[string]string{}
	switch {
	case c.Type == apikey.TypeManager:
		facts["managerId"] = c.KeyID
	case c.KeyID != "":
		facts["keyId"] = c.KeyID
	}
	if c.Session != "" {
		facts["session"] = c.Session
	}
	if len(facts) == 0 {
		return nil
	}
	return facts
}

// fact is metadata of one member; nil, which is written as null, when there is none.
func fact(name, value string) any {
	if value == "" {
		return nil
	}
	return map[string]string{name: value}
}

func (h *handlers) list(c *web.Call) error {
	account, q := c.Account(), c.Query()
	filter := auditlog.AuditFilter{
		Account: account, Since: q.Time("startDate"), Until: q.Time("endDate"),
		Page: store.Page{
			Limit:  q.Integer("limit", 1, maxPage, defaultPage),
			Offset: q.Integer("offset", 0, web.MaxOffset, 0),
		},
	}
	filter.Action, _ = q.Text("action")
	filter.Actor, _ = q.Text("actor")
	if success, ok := q.Bool("success"); ok {
		filter.Success = &success
	}
	if since, until := filter.Since, filter.Until; !since.IsZero() && !until.IsZero() {
		switch span := until.Sub(since); {
		case span <= 0:
			q.Fault("startDate", "must be before endDate")
		case span > maxRange:
			q.Fault("endDate", "must be at most 30 days after startDate")
		}
	}
	if err := c.Check(); err != nil {
		return err
	}
	entries, total, err := h.log.ListAudit(c.Context(), filter)
	if err != nil {
		return err
	}
	views, err := web.Fitting(entries, viewAudit)
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, struct {
		Data       []jsontext.Value `json:"data"`
		Pagination auditPagination  `json:"pagination"`
	}{views, auditPagination{filter.Limit, filter.Offset, total, filter.Offset+len(views) < total}})
}
