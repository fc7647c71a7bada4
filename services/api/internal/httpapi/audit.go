package httpapi

import (
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
)

const (
	maxAuditPage     = 100
	defaultAuditPage = 20
	maxAuditRange    = 30 * 24 * time.Hour
)

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
		Action: e.Action, Timestamp: stamp(e.At), RequestID: e.Caller.RequestID, Success: e.Success, Error: optional(e.Error), Count: e.Count,
		Actor:     auditActor{Sub: e.Caller.Sub, Type: e.Caller.Type, Metadata: fact("keyId", e.Caller.KeyID)},
		Context:   auditContext{IPAddress: optional(e.Caller.Address), UserAgent: optional(e.Caller.UserAgent)},
		Route:     auditRoute{URL: optional(e.Caller.Route), Method: optional(e.Caller.Method)},
		Resources: make([]auditResource, 0, len(e.Resources)),
	}
	for _, r := range e.Resources {
		v.Resources = append(v.Resources, auditResource{Type: r.Type, ID: r.ID, Metadata: fact("name", r.Name)})
	}
	return v
}

// fact is metadata of one member; nil, which is written as null, when there is none.
func fact(name, value string) any {
	if value == "" {
		return nil
	}
	return map[string]string{name: value}
}

func (s *server) listAudit(c *call) error {
	account, err := s.account(c)
	if err != nil {
		return err
	}
	q := c.query()
	filter := auditlog.AuditFilter{
		Account: account, Since: q.Time("startDate"), Until: q.Time("endDate"),
		Page: store.Page{
			Limit:  q.Integer("limit", 1, maxAuditPage, defaultAuditPage),
			Offset: q.Integer("offset", 0, maxOffset, 0),
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
		case span > maxAuditRange:
			q.Fault("endDate", "must be at most 30 days after startDate")
		}
	}
	if err := q.Err(); err != nil {
		return err
	}
	entries, total, err := s.Store.ListAudit(c.ctx(), filter)
	if err != nil {
		return err
	}
	views, err := fitting(entries, viewAudit)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, struct {
		Data       []jsontext.Value `json:"data"`
		Pagination auditPagination  `json:"pagination"`
	}{views, auditPagination{filter.Limit, filter.Offset, total, filter.Offset+len(views) < total}})
}
