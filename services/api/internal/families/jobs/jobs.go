// Package jobs sends many deliveries again: a retry of those that a filter selects, a replay of
// those of a webhook, and the jobs that do this.
package jobs

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/families/webhooks"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/news"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/pipeline"
)

const (
	path        = "/v1/jobs"
	defaultPage = 100
)

// Maker makes jobs, and previews.
type Maker interface {
	PlanJob(ctx context.Context, job pipeline.NewJob) (pipeline.Plan, error)
	CreateJob(ctx context.Context, job pipeline.NewJob) (pipeline.CreatedJob, error)
}

// Store has jobs.
type Store interface {
	ListJobs(ctx context.Context, account string, limit int, cursor string) (jobs []domain.Job, next string, err error)
	GetJob(ctx context.Context, account, id string) (domain.Job, error)
	CancelJob(ctx context.Context, account, id string) (domain.Job, error)
}

// Options of the routes; all are required.
type Options struct {
	Maker Maker
	Store Store
	// Requested lets the leading relay look at once, instead of within its second.
	Requested func()
	// Cancelled notifies the dispatchers of a cancelled job.
	Cancelled func(id string)
}

// Routes returns the operations.
func Routes(options Options) []web.Route {
	h := &handlers{options}
	return []web.Route{
		{
			Method: http.MethodPost, Path: webhooks.Path + "/{id}/replay", Operation: "replayWebhook",
			Scope: domain.ScopeEventsWrite, Action: auditlog.ActionReplayWebhook, Long: true, Tells: []news.Kind{news.Job, news.Delivery}, Handle: h.replay,
		},
		{
			Method: http.MethodPost, Path: "/v1/deliveries/retry", Operation: "retryDeliveries",
			Scope: domain.ScopeEventsWrite, Action: auditlog.ActionRetryDeliveries, Long: true, Tells: []news.Kind{news.Job, news.Delivery}, Handle: h.retry,
		},
		{
			Method: http.MethodGet, Path: path, Operation: "listJobs",
			Scope: domain.ScopeEventsRead, Handle: h.list,
		},
		{
			Method: http.MethodGet, Path: path + "/{id}", Operation: "getJob",
			Scope: domain.ScopeEventsRead, Handle: h.get,
		},
		{
			Method: http.MethodDelete, Path: path + "/{id}", Operation: "cancelJob",
			Scope: domain.ScopeEventsWrite, Action: auditlog.ActionCancelJob, Tells: []news.Kind{news.Job}, Handle: h.cancel,
		},
	}
}

type handlers struct{ Options }

// Job is a job as callers see it.
type Job struct {
	ID        string           `json:"id"`
	Kind      domain.JobKind   `json:"kind"`
	Status    domain.JobStatus `json:"status"`
	Filter    jsontext.Value   `json:"filter"`
	Matched   int              `json:"matched"`
	Sent      int              `json:"sent"`
	Delivered int              `json:"delivered"`
	Failed    int              `json:"failed"`
	CreatedAt *string          `json:"createdAt"`
	CreatedBy string           `json:"createdBy"`
}

func view(j domain.Job) Job {
	return Job{
		ID: j.ID, Kind: j.Kind, Status: j.Status, Filter: j.Filter, Matched: j.Matched, Sent: j.Sent,
		Delivered: j.Delivered, Failed: j.Failed, CreatedAt: web.Stamp(j.CreatedAt), CreatedBy: j.CreatedBy,
	}
}

func (h *handlers) list(c *web.Call) error {
	q := c.Query()
	limit := q.Integer("limit", 1, web.MaxPage, defaultPage)
	cursor, _ := q.Text("cursor")
	if err := c.Check(); err != nil {
		return err
	}
	jobs, next, err := h.Store.ListJobs(c.Context(), c.Principal.Account, limit, cursor)
	if err != nil {
		return web.CursorFault(err)
	}
	return c.Answer(http.StatusOK, web.CursorPage[Job]{Data: web.Views(jobs, view), NextCursor: web.Optional(next)})
}

func (h *handlers) get(c *web.Call) error {
	id := web.ID(c, domain.ParseJobID)
	if err := c.Check(); err != nil {
		return err
	}
	job, err := h.Store.GetJob(c.Context(), c.Principal.Account, id)
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, view(job))
}

func (h *handlers) cancel(c *web.Call) error {
	id := web.ID(c, domain.ParseJobID)
	if err := c.Check(); err != nil {
		return err
	}
	job, err := h.Store.CancelJob(c.Context(), c.Principal.Account, id)
	if err != nil {
		return err
	}
	h.Cancelled(id)
	return c.Answer(http.StatusAccepted, view(job))
}
