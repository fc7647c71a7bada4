package httpapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"waybill.dev/services/api/internal/problem"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
)

const (
	maxPage         = 1000
	defaultOverlap  = 86_400
	maxOverlap      = 604_800
	webhooksPath    = "/v1/webhooks"
	eventsPath      = "/v1/events"
	maxStoredOffset = 1 << 30
)

// webhookView is a webhook as callers see it.
type webhookView struct {
	ID                   domain.WebhookID       `json:"id"`
	URL                  string                 `json:"url"`
	Events               []domain.EventType     `json:"events"`
	Active               bool                   `json:"active"`
	DisabledReason       *domain.DisabledReason `json:"disabledReason"`
	Fault                string                 `json:"fault,omitzero"`
	Description          string                 `json:"description"`
	HeaderNames          []string               `json:"headerNames"`
	RetryScheduleSeconds []float64              `json:"retryScheduleSeconds"`
	TimeoutSeconds       float64                `json:"timeoutSeconds"`
	MaxInFlight          int                    `json:"maxInFlight"`
	RatePerSecond        *float64               `json:"ratePerSecond"`
	CreatedAt            *string                `json:"createdAt"`
	UpdatedAt            *string                `json:"updatedAt"`
	Secret               string                 `json:"secret,omitzero"`
}

func (s *server) view(w domain.Webhook, h domain.Health) webhookView {
	v := webhookView{
		ID: w.ID, URL: w.URL, Events: w.Events, Active: true, Fault: w.Fault, Description: w.Description,
		HeaderNames: make([]string, 0, len(w.Headers)), TimeoutSeconds: w.Timeout.Seconds(),
		MaxInFlight: w.MaxInFlight, RatePerSecond: w.RatePerSecond,
		CreatedAt: stamp(w.CreatedAt), UpdatedAt: stamp(w.UpdatedAt),
	}
	if reason, inactive := w.Inactive(h); inactive {
		v.Active, v.DisabledReason = false, &reason
	}
	for _, header := range w.Headers {
		v.HeaderNames = append(v.HeaderNames, header.Name)
	}
	waits := w.Schedule(s.RetrySchedule)
	v.RetryScheduleSeconds = make([]float64, 0, len(waits))
	for _, wait := range waits {
		v.RetryScheduleSeconds = append(v.RetryScheduleSeconds, wait.Seconds())
	}
	return v
}

func (s *server) listWebhooks(c *call) error {
	q := c.query()
	_, limited := q.Text("limit")
	_, moved := q.Text("offset")
	limit := q.Integer("limit", 1, maxPage, maxPage)
	offset := q.Integer("offset", 0, maxStoredOffset, 0)
	if err := q.Err(); err != nil {
		return err
	}
	paged := limited || moved
	if !paged {
		limit = 0
	}
	webhooks, healths, total, err := s.Store.ListWebhooks(c.ctx(), c.principal.Account, limit, offset)
	if err != nil {
		return err
	}
	views := make([]webhookView, 0, len(webhooks))
	for i, w := range webhooks {
		views = append(views, s.view(w, healths[i]))
	}
	shown, err := fitting(views, func(v webhookView) webhookView { return v })
	if err != nil {
		return err
	}
	if !paged && len(shown) < total {
		paged, limit = true, maxPage // the list is too long for one answer
	}
	if paged {
		c.Header("X-Total-Count", strconv.Itoa(total))
		c.Header("Link", pageLinks(c.link(webhooksPath), limit, offset, len(shown), total))
	}
	return c.answer(http.StatusOK, shown)
}

// pageLinks returns a Link header (RFC 8288) to the pages around this one, which shows so
// many.
func pageLinks(list string, limit, offset, shown, total int) string {
	link := func(at int, rel string) string {
		return fmt.Sprintf(`<%s?limit=%d&offset=%d>; rel=%q`, list, limit, at, rel)
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

func (s *server) registerWebhook(c *call) error {
	key, err := c.idempotencyKey()
	if err != nil {
		return err
	}
	f, body, err := c.form(false)
	if err != nil {
		return err
	}
	form := s.readWebhook(f)
	form.secret()
	form.Require("url", "events")
	if err := form.Err(); err != nil {
		return err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make webhook id: %w", err)
	}
	w := domain.Webhook{
		ID: domain.WebhookID(id.String()), Account: c.principal.Account, Active: true,
		Timeout: domain.DefaultTimeout, MaxInFlight: domain.DefaultMaxInFlight, Secret: domain.NewSecret(),
	}
	form.apply(&w)

	var once *pipeline.WebhookOnce
	if key != "" {
		land, err := s.running.take(c.ctx(), flight{c.principal.Account, webhooksPath, key})
		if err != nil {
			return err
		}
		defer land()
		once = &pipeline.WebhookOnce{Path: webhooksPath, Key: key, BodyHash: sha256.Sum256(body), Respond: s.registered}
	}
	made, repeated, err := s.Store.CreateWebhook(c.ctx(), w, once)
	if err != nil {
		return refused(err)
	}
	if repeated != nil {
		var stored struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(repeated.Body, &stored); err != nil {
			return fmt.Errorf("read stored answer: %w", err)
		}
		c.Header("Location", c.link(webhooksPath+"/"+stored.ID))
		return c.repeat(repeated)
	}
	s.announceConfig(made.Version)
	status, answer := s.registered(made)
	c.Header("Location", c.link(webhooksPath+"/"+string(made.ID)))
	c.send(status, answer)
	return nil
}

// registered is the one answer that shows a webhook's secret.
func (s *server) registered(w domain.Webhook) (status int, body []byte) {
	v := s.view(w, domain.Health{})
	v.Secret = w.Secret.Reveal()
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // text and finite numbers only
	}
	return http.StatusCreated, body
}

// announceConfig nudges the dispatchers; they would find the change by polling, too.
func (s *server) announceConfig(version int64) {
	s.Bus.Announce(bus.SubjectConfig, strconv.AppendInt(nil, version, 10))
}

// webhookID returns the webhook that the path names; text that can't name one names none.
func (c *call) webhookID() (domain.WebhookID, error) {
	id, err := domain.ParseWebhookID(c.Param("id"))
	if err != nil {
		return "", domain.ErrNotFound
	}
	return id, nil
}

func (s *server) getWebhook(c *call) error {
	id, err := c.webhookID()
	if err != nil {
		return err
	}
	w, h, err := s.Store.GetWebhook(c.ctx(), c.principal.Account, id)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, s.view(w, h))
}

func (s *server) updateWebhook(c *call) error {
	id, err := c.webhookID()
	if err != nil {
		return err
	}
	f, _, err := c.form(false)
	if err != nil {
		return err
	}
	form := s.readWebhook(f)
	if form.Has("secret") {
		form.Ignore("secret")
		form.Fault("can't be set here: use rotate-secret", "secret")
	}
	if err := form.Err(); err != nil {
		return err
	}
	w, h, err := s.Store.UpdateWebhook(c.ctx(), c.principal.Account, id, form.change)
	if err != nil {
		return err
	}
	s.announceConfig(w.Version)
	return c.answer(http.StatusOK, s.view(w, h))
}

func (s *server) deleteWebhook(c *call) error {
	id, err := c.webhookID()
	if err != nil {
		return err
	}
	if err := s.Store.DeleteWebhook(c.ctx(), c.principal.Account, id); err != nil {
		return err
	}
	s.settleChange(c.ctx())
	return c.noContent()
}

// A deletion is answered when the dispatchers have it: no attempt starts after the
// answer. changeQuiet after the last of them has spoken no other is expected; a
// dispatcher that can't be reached is waited for no longer than changeLimit.
const (
	changeQuiet = 50 * time.Millisecond
	changeLimit = time.Second
)

func (s *server) settleChange(ctx context.Context) {
	version, err := s.Store.ConfigVersion(ctx)
	if err != nil {
		s.Bus.Announce(bus.SubjectConfig, nil) // they find it themselves
		return
	}
	s.Bus.AnnounceAnswered(ctx, bus.SubjectConfig, strconv.AppendInt(nil, version, 10), changeQuiet, changeLimit)
}

func (s *server) rotateSecret(c *call) error {
	id, err := c.webhookID()
	if err != nil {
		return err
	}
	f, _, err := c.form(true)
	if err != nil {
		return err
	}
	overlap := float64(defaultOverlap)
	if seconds, ok := f.Number("overlapSeconds", 0, maxOverlap); ok {
		overlap = seconds
	}
	if err := f.Err(); err != nil {
		return err
	}
	secret := domain.NewSecret()
	expires := time.Now().UTC().Truncate(time.Millisecond).Add(duration(overlap))
	w, _, err := s.Store.UpdateWebhook(c.ctx(), c.principal.Account, id, func(w *domain.Webhook) error {
		// Two signatures at most: a secret that is still in its overlap ends here.
		w.PreviousSecret, w.PreviousSecretExpiresAt = w.Secret, expires
		if overlap == 0 {
			w.PreviousSecret = ""
		}
		w.Secret = secret
		return nil
	})
	if err != nil {
		return err
	}
	s.announceConfig(w.Version)
	return c.answer(http.StatusOK, struct {
		Secret                  string  `json:"secret"`
		PreviousSecretExpiresAt *string `json:"previousSecretExpiresAt"`
	}{secret.Reveal(), stamp(expires)})
}

// refused tells why an account's own request is refused, more exactly than the kind of
// the error does.
func refused(err error) error {
	switch {
	case errors.Is(err, domain.ErrLimit):
		return problem.New(problem.Conflict, fmt.Sprintf("The account has %d webhooks, which is the limit.", domain.MaxWebhooks))
	case errors.Is(err, domain.ErrConflict):
		return problem.New(problem.Conflict, "The idempotency key was used with another body.")
	}
	return err
}
