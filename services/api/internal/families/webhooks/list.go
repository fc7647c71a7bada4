package webhooks

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
)

// withHealth is the value of include that adds health to webhooks.
const withHealth = "health"

// includesHealth reads whether health is asked for.
func includesHealth(q *input.Query) bool {
	return input.OneOf(q, "include", []string{withHealth}) == withHealth
}

// views returns webhooks as callers see them, with their health if asked for.
func (h *handlers) views(c *web.Call, webhooks []domain.Webhook, known []domain.Health, health bool) ([]Webhook, error) {
	views := make([]Webhook, 0, len(webhooks))
	for i, w := range webhooks {
		views = append(views, h.view(w, known[i]))
	}
	if !health {
		return views, nil
	}
	list, err := h.Receivers.List(c.Context(), c.Principal.Account, webhooks, known)
	if err != nil {
		return nil, err
	}
	for i := range list {
		views[i].Health = &list[i]
	}
	return views, nil
}

func (h *handlers) list(c *web.Call) error {
	q := c.Query()
	_, limited := q.Text("limit")
	_, moved := q.Text("offset")
	limit := q.Integer("limit", 1, web.MaxPage, web.MaxPage)
	offset := q.Integer("offset", 0, maxOffset, 0)
	health := includesHealth(q)
	troubled, asked := q.Bool("troubled")
	if asked && (!health || !troubled) {
		q.Fault("troubled", "must be true, with include=health")
	}
	if err := c.Check(); err != nil {
		return err
	}
	if troubled {
		return h.listTroubled(c, limit, offset)
	}
	// A list with health is always bounded; a list without is complete unless the caller asks for
	// pages.
	paged := limited || moved
	if !paged && !health {
		limit = 0
	}
	webhooks, healths, total, err := h.Store.ListWebhooks(c.Context(), c.Principal.Account, limit, offset)
	if err != nil {
		return err
	}
	views, err := h.views(c, webhooks, healths, health)
	if err != nil {
		return err
	}
	shown, err := web.Fitting(views, func(v Webhook) Webhook { return v })
	if err != nil {
		return err
	}
	if !paged && len(shown) < total {
		paged, limit = true, web.MaxPage // too long for one answer
	}
	if paged {
		header := c.Writer.Header()
		header.Set("X-Total-Count", strconv.Itoa(total))
		header.Set("Link", pageLinks(c.Link(Path), health, limit, offset, len(shown), total))
	}
	return c.Answer(http.StatusOK, shown)
}

// pageLinks returns a Link header (RFC 8288) with the pages around this one. shown is the number of
// entries on this page.
func pageLinks(list string, health bool, limit, offset, shown, total int) string {
	more := ""
	if health {
		more = "&include=" + withHealth
	}
	link := func(at int, rel string) string {
		return fmt.Sprintf(`<%s?limit=%d&offset=%d%s>; rel=%q`, list, limit, at, more, rel)
	}
	links := link(0, "first")
	if offset > 0 {
		links += ", " + link(max(offset-limit, 0), "prev")
	}
	if shown > 0 && offset+shown < total {
		links += ", " + link(offset+shown, "next")
	}
	return links
}

// listTroubled lists the webhooks with problems. Their total is not known before all are read, so the
// header only says whether there may be more.
func (h *handlers) listTroubled(c *web.Call, limit, offset int) error {
	webhooks, known, err := h.Store.ListTroubled(c.Context(), c.Principal.Account, time.Now().Add(-time.Hour), limit, offset)
	if err != nil {
		return err
	}
	views, err := h.views(c, webhooks, known, true)
	if err != nil {
		return err
	}
	views = slices.DeleteFunc(views, func(v Webhook) bool { return !v.Health.State.Troubled() })
	shown, err := web.Fitting(views, func(v Webhook) Webhook { return v })
	if err != nil {
		return err
	}
	if len(webhooks) == limit {
		c.Writer.Header().Set("Link", fmt.Sprintf(`<%s?include=%s&troubled=true&limit=%d&offset=%d>; rel="next"`, c.Link(Path), withHealth, limit, offset+limit))
	}
	return c.Answer(http.StatusOK, shown)
}
