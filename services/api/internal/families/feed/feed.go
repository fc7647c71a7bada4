// Package feed has the feeds of webhooks. A feed has the events that a webhook is registered for,
// in the order of commits, for receivers that read events instead of waiting for callbacks, or want
// to prove that they have missed none.
package feed

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
	"waybill.dev/shared/filter"
	"waybill.dev/shared/problem"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/pipeline"
)

// Path is the path of a webhook's feed.
const Path = "/v1/webhooks/{id}/feed"

const cursorsPath = "/v1/webhooks/{id}/cursors"

// Bounds of requests.
const (
	defaultPage = 100
	maxWait     = 30 // seconds
)

// Store keeps events and named cursors.
type Store interface {
	GetWebhook(ctx context.Context, account string, id domain.WebhookID) (domain.Webhook, domain.Health, error)
	Feed(ctx context.Context, q pipeline.FeedQuery) (pipeline.FeedPage, error)
	SetFeedCursor(ctx context.Context, account string, webhook domain.WebhookID, name, cursor string) (pipeline.FeedCursor, error)
	GetFeedCursor(ctx context.Context, account string, webhook domain.WebhookID, name string) (pipeline.FeedCursor, error)
	DeleteFeedCursor(ctx context.Context, account string, webhook domain.WebhookID, name string) error
	FeedCursors(ctx context.Context, account string, webhook domain.WebhookID) ([]pipeline.FeedCursor, error)
}

// Routes returns the operations.
func Routes(tables Store, readers *Readers) []web.Route {
	h := &handlers{tables, readers}
	return []web.Route{
		{
			Method: http.MethodGet, Path: Path, Operation: "readFeed",
			Scope: domain.ScopeEventsRead, Wait: maxWait * time.Second, Handle: h.read,
		},
		{
			Method: http.MethodGet, Path: cursorsPath, Operation: "listCursors",
			Scope: domain.ScopeEventsRead, Handle: h.list,
		},
		{
			Method: http.MethodGet, Path: cursorsPath + "/{cursorName}", Operation: "getCursor",
			Scope: domain.ScopeEventsRead, Handle: h.get,
		},
		{
			Method: http.MethodPut, Path: cursorsPath + "/{cursorName}", Operation: "setCursor",
			Scope: domain.ScopeWebhooksWrite, Action: auditlog.ActionSetCursor, Handle: h.set,
		},
		{
			Method: http.MethodDelete, Path: cursorsPath + "/{cursorName}", Operation: "deleteCursor",
			Scope: domain.ScopeWebhooksWrite, Action: auditlog.ActionDeleteCursor, Handle: h.delete,
		},
	}
}

type handlers struct {
	store   Store
	readers *Readers
}

// matches returns a function that selects the events for a webhook from those of its types: those
// that match its filter, without alerts about the webhook itself. Nil: all of them.
func matches(w domain.Webhook) (func(domain.Event) bool, error) {
	if w.Filter == "" && !slices.ContainsFunc(w.Events, domain.EventType.Alert) {
		return nil, nil
	}
	if w.Filter == "" {
		return func(e domain.Event) bool { return notItself(w, e) }, nil
	}
	chosen, faults := filter.Parse([]byte(w.Filter))
	if len(faults) > 0 {
		return nil, web.Conflict("The webhook's filter can't be read. Set it anew.")
	}
	return func(e domain.Event) bool {
		return notItself(w, e) && chosen.Matches(filter.Read(e.Payload))
	}, nil
}

// notItself returns false for an alert about the webhook.
func notItself(w domain.Webhook, e domain.Event) bool {
	return !e.Type.Alert() || envelope.Webhook(e.Payload) != w.ID
}

func (h *handlers) read(c *web.Call) error {
	id, q := web.ID(c, domain.ParseWebhookID), c.Query()
	query := pipeline.FeedQuery{Account: c.Principal.Account, Webhook: id, Limit: q.Integer("limit", 1, web.MaxPage, defaultPage)}
	query.After, _ = q.Text("after")
	wait := time.Duration(q.Integer("wait", 0, maxWait, 0)) * time.Second
	if err := c.Check(); err != nil {
		return err
	}
	page, err := h.page(c.Context(), query)
	if err == nil && wait > 0 && page.empty() {
		query.After = page.Cursor
		page, err = h.wait(c, query, page, wait)
	}
	if err != nil {
		return fault(err, "after")
	}
	return c.Send(http.StatusOK, page.body())
}

// fault turns an error about a cursor into a fault of the parameter.
func fault(err error, parameter string) error {
	switch {
	case errors.Is(err, pipeline.ErrBeyondRetention):
		return problem.New(problem.Gone, "Events after this cursor are not kept any more. Without a cursor, the feed begins at the oldest that is kept.")
	case errors.Is(err, store.ErrCursor):
		return problem.Invalid(problem.Fault{Parameter: parameter, Detail: badCursor})
	}
	return err
}

const badCursor = "is not a cursor of this feed"

// maxPages is how many pages one request reads when none of their events match.
const maxPages = 10

// readLimit bounds one look at the database.
const readLimit = 1800 * time.Millisecond

// page is a part of a feed.
type page struct{ pipeline.FeedPage }

func (p page) empty() bool { return len(p.Events) == 0 && p.Done }

// page reads a page of the events that the webhook is registered for now. When the time ends before
// an event was found, the page is empty, and its cursor is after the last event that was read.
func (h *handlers) page(ctx context.Context, q pipeline.FeedQuery) (page, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	w, _, err := h.store.GetWebhook(ctx, q.Account, q.Webhook)
	if err != nil {
		return page{}, err
	}
	q.Types = w.Events
	if q.Match, err = matches(w); err != nil {
		return page{}, err
	}
	var last page
	for n := 1; ; n++ {
		p, err := h.store.Feed(ctx, q)
		if err != nil && n > 1 && ctx.Err() != nil {
			return last, nil // the reader continues from there instead of starting again
		}
		if err != nil || p.Done || len(p.Events) > 0 || n == maxPages {
			return page{p}, err
		}
		last, q.After = page{p}, p.Cursor
	}
}

// body returns the page with each event byte for byte as in a callback.
func (p page) body() []byte {
	body := []byte(`{"data":[`)
	for i, e := range p.Events {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, e.Payload...)
	}
	body = append(body, `],"cursor":`...)
	body, _ = jsontext.AppendQuote(body, p.Cursor) // can't fail: ASCII
	if p.Done {
		return append(body, `,"done":true}`...)
	}
	return append(body, `,"done":false}`...)
}

// Cursor is a named cursor as callers see it.
type Cursor struct {
	Name      string  `json:"name"`
	Cursor    string  `json:"cursor"`
	UpdatedAt *string `json:"updatedAt"`
}

// Cursors are the named cursors of a webhook.
type Cursors struct {
	Data []Cursor `json:"data"`
}

func view(c pipeline.FeedCursor) Cursor {
	return Cursor{c.Name, c.Cursor, web.Stamp(c.UpdatedAt)}
}

// cursorName matches valid names of cursors.
var cursorName = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)

func (h *handlers) list(c *web.Call) error {
	id := web.ID(c, domain.ParseWebhookID)
	if err := c.Check(); err != nil {
		return err
	}
	if _, _, err := h.store.GetWebhook(c.Context(), c.Principal.Account, id); err != nil {
		return err
	}
	cursors, err := h.store.FeedCursors(c.Context(), c.Principal.Account, id)
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, Cursors{web.Views(cursors, view)})
}

func (h *handlers) get(c *web.Call) error {
	id, name, err := h.named(c)
	if err != nil {
		return err
	}
	cursor, err := h.store.GetFeedCursor(c.Context(), c.Principal.Account, id, name)
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, view(cursor))
}

func (h *handlers) delete(c *web.Call) error {
	id, name, err := h.named(c)
	if err != nil {
		return err
	}
	if err := h.store.DeleteFeedCursor(c.Context(), c.Principal.Account, id, name); err != nil {
		return err
	}
	return c.NoContent()
}

// named returns the webhook and the name of the cursor that the path names.
func (h *handlers) named(c *web.Call) (domain.WebhookID, string, error) {
	id, name := web.ID(c, domain.ParseWebhookID), c.Param("cursorName")
	if err := c.Check(); err != nil {
		return "", "", err
	}
	if _, _, err := h.store.GetWebhook(c.Context(), c.Principal.Account, id); err != nil {
		return "", "", err
	}
	if !cursorName.MatchString(name) {
		return "", "", domain.ErrNotFound
	}
	return id, name, nil
}

// maxCursor bounds the text of a cursor.
const maxCursor = 1024

func (h *handlers) set(c *web.Call) error {
	id, f, name := web.ID(c, domain.ParseWebhookID), c.Form(), c.Param("cursorName")
	text, _ := f.Text("cursor", 1, maxCursor)
	f.Ignore("name", "updatedAt")
	f.Require("cursor")
	if err := c.Check(); err != nil {
		return err
	}
	if _, _, err := h.store.GetWebhook(c.Context(), c.Principal.Account, id); err != nil {
		return err
	}
	if !cursorName.MatchString(name) {
		return problem.Invalid(problem.Fault{Parameter: "cursorName", Detail: "must be 1 to 64 characters of a-z 0-9 -"})
	}
	cursor, err := h.store.SetFeedCursor(c.Context(), c.Principal.Account, id, name, text)
	switch {
	case errors.Is(err, store.ErrCursor):
		return problem.Invalid(problem.Fault{Pointer: "/cursor", Detail: badCursor})
	case errors.Is(err, domain.ErrLimit):
		return web.Conflict("The webhook has as many named cursors as it can have. Use one of their names.")
	case err != nil:
		return err
	}
	return c.Answer(http.StatusOK, view(cursor))
}
