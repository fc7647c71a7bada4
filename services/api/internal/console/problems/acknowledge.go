package problems

import (
	"net/http"
	"time"

	"waybill.dev/services/api/internal/console"
)

// muteSpans returns the choices for how long a problem is quiet. The first one lasts until the problem
// changes.
func muteSpans() []console.Option {
	return []console.Option{
		{Label: "until it changes"}, {Value: "1h", Label: "for 1 hour"}, {Value: "8h", Label: "for 8 hours"},
		{Value: "24h", Label: "for a day"}, {Value: "168h", Label: "for 7 days"},
	}
}

// acknowledge says that the reader knows of the problem.
func acknowledge(p *console.Page) error {
	form, err := p.Form()
	if err != nil {
		return err
	}
	var body struct {
		MutedUntil *time.Time `json:"mutedUntil,omitzero"`
	}
	said := "The problem is acknowledged."
	if span, err := time.ParseDuration(form.Get("mutedUntil")); err == nil {
		until := p.Now().UTC().Add(span).Truncate(time.Second)
		body.MutedUntil, said = &until, "The problem is muted."
	}
	if err := p.API.Send(http.MethodPut, acknowledgement(p), body, nil); err != nil {
		return err
	}
	return p.Done(said, path)
}

// reopen takes an acknowledgement back.
func reopen(p *console.Page) error {
	if err := p.API.Send(http.MethodDelete, acknowledgement(p), nil, nil); err != nil {
		return err
	}
	return p.Done("The problem is shown again.", path)
}

func acknowledgement(p *console.Page) string {
	return console.Path("v1", "webhooks", p.Param("webhookId"), "acknowledgement")
}
