package audit

import (
	"context"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/kernel/web"
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

// Log has the entries that the store itself and Refusals have written.
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

// Entry is an entry as callers see it. Members that Waybill never fills are null, for readers that expect them.
type Entry struct {
	Action    string     `json:"action"`
	Metadata  any        `json:"metadata"`
	Actor     Actor      `json:"actor"`
	Resources []Resource `json:"resources"`
	Context   Context    `json:"context"`
	Route     Route      `json:"route"`
	Timestamp *string    `json:"timestamp"`
	RequestID string     `json:"requestId"`
	Success   bool       `json:"success"`
	Error     *string    `json:"error"`
	Count     int        `json:"count"` // our own addition
}

// Actor is the caller who made the request.
type Actor struct {
	Sub        string  `json:"sub"`
	Email      *string `json:"email"`
	Type       string  `json:"type"`
	Connection *string `json:"connection"`
	ActingAs   *string `json:"actingAs"`
	Metadata   *Facts  `json:"metadata"`
}

// Facts are the data of an actor, and the name of a resource.
type Facts struct {
	ManagerID string `json:"managerId,omitzero"`
	KeyID     string `json:"keyId,omitzero"`
	Session   string `json:"session,omitzero"`
	Name      string `json:"name,omitzero"`
}

// Resource is a resource that was changed.
type Resource struct {
	Type     string `json:"type"`
	ID       string `json:"id"`
	Metadata *Facts `json:"metadata"`
}

// Context is the caller's network address and program.
type Context struct {
	IPAddress  *string `json:"ipAddress"`
	UserAgent  *string `json:"userAgent"`
	Country    *string `json:"country"`
	Region     *string `json:"region"`
	City       *string `json:"city"`
	PostalCode *string `json:"postalCode"`
	MetroCode  *string `json:"metroCode"`
	ASOrg      *string `json:"asOrg"`
}

// Route is the operation that was called.
type Route struct {
	Source *string `json:"source"`
	URL    *string `json:"url"`
	Method *string `json:"method"`
}

// Pagination is which part of the list a page is.
type Pagination struct {
	Limit   int  `json:"limit"`
	Offset  int  `json:"offset"`
	Total   int  `json:"total"`
	HasMore bool `json:"hasMore"`
}

// List is a page of the log.
type List[V any] struct {
	Data       []V        `json:"data"`
	Pagination Pagination `json:"pagination"`
}

func viewAudit(e domain.AuditEntry) Entry {
	v := Entry{
		Action: e.Action, Timestamp: web.Stamp(e.At), RequestID: e.Caller.RequestID, Success: e.Success, Error: web.Optional(e.Error), Count: e.Count,
		Actor:     Actor{Sub: e.Caller.Sub, Type: e.Caller.Type, Metadata: factsOf(e.Caller)},
		Context:   Context{IPAddress: web.Optional(e.Caller.Address), UserAgent: web.Optional(e.Caller.UserAgent)},
		Route:     Route{URL: web.Optional(e.Caller.Route), Method: web.Optional(e.Caller.Method)},
		Resources: make([]Resource, 0, len(e.Resources)),
	}
	for _, r := range e.Resources {
		v.Resources = append(v.Resources, Resource{Type: r.Type, ID: r.ID, Metadata: optional(Facts{Name: r.Name})})
	}
	return v
}

// factsOf returns the credential of an actor: the key or the manager, and the console's session.
func factsOf(c domain.Caller) *Facts {
	if c.Type == apikey.TypeManager {
		return optional(Facts{ManagerID: c.KeyID, Session: c.Session})
	}
	return optional(Facts{KeyID: c.KeyID, Session: c.Session})
}

func optional(f Facts) *Facts {
	if f == (Facts{}) {
		return nil
	}
	return &f
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
	return c.Answer(http.StatusOK, List[jsontext.Value]{views, Pagination{filter.Limit, filter.Offset, total, filter.Offset+len(views) < total}})
}
