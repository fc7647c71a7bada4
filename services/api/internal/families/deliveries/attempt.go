package deliveries

import (
	"time"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/transcript"
)

// Attempt is an attempt as a delivery shows it.
type Attempt struct {
	Number          int          `json:"number"`
	StartedAt       *string      `json:"startedAt"`
	DurationMs      int64        `json:"durationMs"`
	Status          int          `json:"status,omitzero"`
	Class           domain.Class `json:"class,omitzero"`
	Error           string       `json:"error,omitzero"`
	ResponseBody    string       `json:"responseBody,omitzero"`
	Truncated       bool         `json:"responseBodyTruncated,omitzero"`
	URL             string       `json:"url,omitzero"`
	RemoteAddress   string       `json:"remoteAddress,omitzero"`
	RequestHeaders  []Header     `json:"requestHeaders,omitzero"`
	ResponseHeaders []Header     `json:"responseHeaders,omitzero"`
	Phases          Phases       `json:"phases,omitzero"`
}

// Header is one line of a header; without a value, the value is hidden.
type Header struct {
	Name  string  `json:"name"`
	Value *string `json:"value"`
}

// Phases has milliseconds; phases that did not happen are left out.
type Phases struct {
	DNS       float64 `json:"dnsMs,omitzero"`
	Connect   float64 `json:"connectMs,omitzero"`
	TLS       float64 `json:"tlsMs,omitzero"`
	FirstByte float64 `json:"firstByteMs,omitzero"`
	Body      float64 `json:"bodyMs,omitzero"`
}

// viewAttempt returns an attempt as callers see it. Parts that a later version has stored in
// another form are left out.
func viewAttempt(d domain.Delivery, a domain.Attempt) Attempt {
	view := Attempt{
		Number: a.Number, StartedAt: web.Stamp(a.StartedAt), DurationMs: a.Duration.Milliseconds(),
		Status: a.Status, Class: a.Class, Error: a.Error, ResponseBody: a.ResponseBody,
	}
	signed := a.StartedAt
	if d.Reason == domain.ReasonOldTime {
		signed = signed.Add(-domain.ForgedAge)
	}
	kept, err := transcript.Decode(a.Transcript, transcript.Of{EventID: d.EventID, Delivery: d.ID, Number: a.Number, StartedAt: signed})
	if err != nil {
		return view
	}
	view.URL, view.Truncated = kept.URL, kept.Truncated
	if kept.Remote.IsValid() {
		view.RemoteAddress = kept.Remote.String()
		view.RequestHeaders, view.ResponseHeaders = viewHeaders(kept.Request), viewHeaders(kept.Response)
	}
	view.Phases = Phases{
		milliseconds(kept.Phases.DNS), milliseconds(kept.Phases.Connect), milliseconds(kept.Phases.TLS),
		milliseconds(kept.Phases.FirstByte), milliseconds(kept.Phases.Body),
	}
	return view
}

func viewHeaders(fields []transcript.Field) []Header {
	if len(fields) == 0 {
		return nil
	}
	return web.Views(fields, func(f transcript.Field) Header {
		if f.Hidden {
			return Header{Name: f.Name}
		}
		return Header{Name: f.Name, Value: &f.Value}
	})
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
