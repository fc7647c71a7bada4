package webhooks

import (
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/webhooks"
)

// lastEvents is the number of events on which a filter is tried.
const lastEvents = 100

// given returns the value of the form's text. Text that is not JSON is sent as a string, and the
// API reports the fault.
func given(text string) any {
	switch value := jsontext.Value(text); {
	case text == "":
		return nil
	case value.IsValid():
		return value
	}
	return text
}

// try shows the settings with the effect of the form's filter. Nothing is saved.
func try(p *console.Page, v settingsView, text string) error {
	body := map[string]any{"filter": given(text), "lastEvents": lastEvents}
	var done webhooks.Trial
	err := p.API.Send(http.MethodPost, console.Path("v1", "webhooks", p.Param("webhookId"), "filter", "test"), body, &done)
	if v.Form.Failed(err) {
		return p.ShowInvalid("settings.html", v.title("settings"), v, v.Form)
	} else if err != nil {
		return err
	}
	v.Trial = &done
	return p.Show("settings.html", v.title("settings"), v)
}
