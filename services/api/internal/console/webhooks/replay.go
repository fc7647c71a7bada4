package webhooks

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/families/jobs"
)

type replayView struct {
	head

	Form     *console.Form
	Ranges   []console.Option
	Statuses []console.Option
	Chosen   *span // the selection of the preview; nil: nothing was chosen yet
	Plan     *deliverylog.Plan
	None     *console.Problem // the reason why there is no preview
	Command  string
}

// span is the selection of a replay: a time range and a status.
type span struct{ Since, Until, Status string }

func ranges() []console.Option {
	return []console.Option{
		{Value: "1h", Label: "the last hour"}, {Value: "6h", Label: "the last 6 hours"}, {Value: "24h", Label: "the last 24 hours"},
		{Value: "72h", Label: "the last 3 days"}, {Value: "168h", Label: "the last 7 days"}, {Value: "", Label: "from … to"},
	}
}

func replayStatuses() []console.Option {
	return []console.Option{
		{Value: "undelivered", Label: "what is not delivered"}, {Value: "failed", Label: "what failed for good"},
		{Value: "all", Label: "everything, also what was delivered"},
	}
}

func newReplayView(h head, values url.Values) replayView {
	return replayView{head: h, Form: console.NewForm(values), Ranges: ranges(), Statuses: replayStatuses()}
}

// showReplay shows a preview of a replay.
func showReplay(p *console.Page) error {
	h, err := read(p, "deliveries")
	if err != nil {
		return err
	}
	given := p.Pick("range", "since", "until", "status")
	v := newReplayView(h, given)
	if len(given) == 0 {
		given.Set("range", "24h")
		given.Set("status", "undelivered")
		return p.Show("replay.html", h.title("send again"), v)
	}
	v.Chosen = chosen(given, p.Now())
	v.Command = fmt.Sprintf("webhooks replay %s --since %s --until %s --status %s", h.Webhook.ID, v.Chosen.Since, v.Chosen.Until, v.Chosen.Status)
	p.CLI(v.Command)
	var found deliverylog.Plan
	body := v.Chosen.body()
	body["dryRun"] = true
	switch err := p.API.Send(http.MethodPost, console.Path("v1", "webhooks", h.Webhook.ID, "replay"), body, &found); {
	case err == nil:
		v.Plan = &found
	case v.Form.Failed(err):
		return p.ShowInvalid("replay.html", h.title("send again"), v, v.Form)
	default:
		return err
	}
	return p.Show("replay.html", h.title("send again"), v)
}

// chosen returns the selection of a form, in the form of the API.
func chosen(form url.Values, now time.Time) *span {
	s := span{Since: console.FieldToRFC3339(form.Get("since")), Until: console.FieldToRFC3339(form.Get("until")), Status: form.Get("status")}
	stamp := func(t time.Time) string { return t.UTC().Truncate(time.Second).Format(time.RFC3339) }
	if d, err := time.ParseDuration(form.Get("range")); err == nil {
		s.Since, s.Until = stamp(now.Add(-d)), ""
	}
	if s.Until == "" {
		s.Until = stamp(now.Add(time.Second))
	}
	s.Status = cmp.Or(s.Status, "undelivered")
	return &s
}

func (s *span) body() map[string]any {
	body := map[string]any{"status": s.Status}
	if s.Since != "" {
		body["since"] = s.Since
	}
	if s.Until != "" {
		body["until"] = s.Until
	}
	return body
}

func replay(p *console.Page) error {
	form, err := p.Form()
	if err != nil {
		return err
	}
	id := p.Param("webhookId")
	var made jobs.Made
	s := span{Since: form.Get("since"), Until: form.Get("until"), Status: form.Get("status")}
	if err := p.API.Send(http.MethodPost, console.Path("v1", "webhooks", id, "replay"), s.body(), &made); err != nil {
		return err
	}
	done := cmp.Or(made.Reason, fmt.Sprintf("%d deliveries are being sent again.", made.Matched))
	if p.Has("/console/jobs/{jobId}") {
		return p.Done(done, console.Path("console", "jobs", made.ID))
	}
	return p.Done(done, at(id, "deliveries"))
}
