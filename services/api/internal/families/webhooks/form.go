package webhooks

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/input"
	"waybill.dev/shared/problem"
	"waybill.dev/shared/signature"
)

// Bounds of a webhook's fields; see also domain.
const (
	maxHeaders       = 20
	maxRetries       = 20
	minRetryWait     = 0.05
	maxRetryWait     = 604_800
	minTimeout       = 1
	maxTimeout       = float64(domain.MaxTimeout / time.Second)
	maxMaxInFlight   = 5000
	minRatePerSecond = 0.001
	maxRatePerSecond = 100_000
)

// webhookForm reads the fields of a webhook in a request. Valid fields go into a list of changes,
// which are applied only when all fields are valid.
type webhookForm struct {
	*input.Form
	web.Changes[domain.Webhook]
	egress    Egress
	retention time.Duration
	pull      bool // the receiver reads the feed
}

// read reads the fields that registration and PATCH have in common. Fields that only Waybill sets
// are ignored, so that callers can send back what they have read. pulls says that the webhook
// already has delivery pull.
func (h *handlers) read(f *input.Form, pulls bool) *webhookForm {
	w := &webhookForm{Form: f, egress: h.Egress, retention: h.Retention, pull: pulls}
	w.Ignore("id", "createdAt", "updatedAt", "headerNames", "disabledReason", "fault", "authType", "authCertificate",
		"receiverCertificateExpiresAt", "previousSecretExpiresAt")
	w.delivery()
	w.url()
	w.events()
	w.headers()
	w.schedule()
	w.signing()
	w.ordering()
	w.auth()
	w.filter()
	if active, ok := w.Bool("active"); ok {
		w.Add(func(hook *domain.Webhook) { hook.Active = active })
	}
	if text, ok := w.Text("description", 0, web.MaxDescription); ok {
		w.Add(func(hook *domain.Webhook) { hook.Description = text })
	}
	if seconds, ok := w.Number("timeoutSeconds", minTimeout, maxTimeout); ok {
		w.Add(func(hook *domain.Webhook) { hook.Timeout = duration(seconds) })
	}
	if n, ok := w.Integer("maxInFlight", 1, maxMaxInFlight); ok {
		w.Add(func(hook *domain.Webhook) { hook.MaxInFlight = n })
	}
	if w.Null("ratePerSecond") {
		w.Add(func(hook *domain.Webhook) { hook.RatePerSecond = nil })
	} else if rate, ok := w.Number("ratePerSecond", minRatePerSecond, maxRatePerSecond); ok {
		w.Add(func(hook *domain.Webhook) { hook.RatePerSecond = &rate })
	}
	return w
}

// change applies the form to an existing webhook. Headers and auth are secret, and are sent only to
// the server that they were given for: a change of the url's scheme, host or port must include them
// again.
func (w *webhookForm) change(h *domain.Webhook) error {
	before := *h
	w.Apply(h)
	if err := reachable(h); err != nil {
		return err
	}
	headers, auth := len(before.Headers) > 0 && !w.Has("headers"), before.Auth != "" && !w.Has(authField)
	var faults []problem.Fault
	if (headers || auth) && h.URL != "" && !w.sameOrigin(before.URL, h.URL) {
		const again = "must be given again with a url of another scheme, host or port, because stored values are sent only to the server that they were given for; "
		if headers {
			faults = append(faults, problem.Fault{Pointer: "/headers", Detail: again + "{} drops them"})
		}
		if auth {
			faults = append(faults, problem.Fault{Pointer: "/auth", Detail: again + "null removes it"})
		}
	}
	return invalid(append(faults, w.authFaults(h)...))
}

func invalid(faults []problem.Fault) error {
	if len(faults) == 0 {
		return nil
	}
	return problem.Invalid(faults...)
}

// sameOrigin reports whether both URLs lead to the same server. For a URL that is no longer
// allowed, that is not known.
func (w *webhookForm) sameOrigin(a, b string) bool {
	if a == b {
		return true
	}
	from, err := w.egress.Origin(a)
	if err != nil {
		return false
	}
	to, err := w.egress.Origin(b)
	return err == nil && from == to
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

func (w *webhookForm) url() {
	if w.pull && w.Null("url") {
		w.Add(func(hook *domain.Webhook) { hook.URL = "" })
		return
	}
	text, ok := w.Text("url", 1, domain.MaxURLLength)
	if !ok {
		return
	}
	text = egress.Escape(text)
	if err := w.egress.CheckURL(text); err != nil {
		w.Fault(err.Error(), "url")
		return
	}
	w.Add(func(hook *domain.Webhook) { hook.URL = text })
}

func (w *webhookForm) events() {
	known := domain.WebhookTypes()
	texts, ok := w.Texts("events", 1, len(known))
	if !ok {
		return
	}
	var types []domain.EventType
	for i, text := range texts {
		t := domain.EventType(text)
		switch {
		case !slices.Contains(known, t):
			w.Fault(web.MustBeOneOf(known), "events", strconv.Itoa(i))
		case slices.Contains(types, t):
			w.Fault("is given twice", "events", strconv.Itoa(i))
		default:
			types = append(types, t)
		}
	}
	w.Add(func(hook *domain.Webhook) { hook.Events = types })
}

func (w *webhookForm) headers() {
	pairs, _ := w.Pairs("headers", maxHeaders)
	if !w.Has("headers") {
		return
	}
	headers := make([]domain.Header, 0, len(pairs))
	seen := make(map[string]bool, len(pairs))
	for _, pair := range pairs {
		name := strings.ToLower(pair.Name)
		if err := w.egress.ValidHeader(pair.Name, pair.Value); err != nil {
			w.Fault(err.Error(), "headers", pair.Name)
		} else if seen[name] {
			w.Fault("is given twice: upper and lower case make no difference in header names", "headers", pair.Name)
		}
		seen[name] = true
		headers = append(headers, domain.Header{Name: pair.Name, Value: domain.Secret(pair.Value)})
	}
	w.Add(func(hook *domain.Webhook) { hook.Headers = headers })
}

func (w *webhookForm) schedule() {
	seconds, ok := w.Numbers("retryScheduleSeconds", 0, maxRetries, minRetryWait, maxRetryWait)
	if !ok {
		return
	}
	waits, sum := make([]time.Duration, len(seconds)), time.Duration(0)
	for i, n := range seconds {
		waits[i] = duration(n)
		sum += waits[i]
	}
	if sum >= w.retention {
		w.Fault(fmt.Sprintf("must add up to less than the retention of %g s", w.retention.Seconds()), "retryScheduleSeconds")
		return
	}
	w.Add(func(hook *domain.Webhook) { hook.RetrySchedule = waits })
}

// secret reads a secret that the owner brings along at registration.
func (w *webhookForm) secret() {
	if !w.Has("secret") {
		return
	}
	text, ok := w.Text("secret", 1, 256)
	if !ok {
		return
	}
	if _, err := signature.ParseSecret(text); err != nil {
		w.Fault("must be whsec_ and the base64 of 24 to 64 bytes", "secret")
		return
	}
	w.Add(func(hook *domain.Webhook) { hook.Secret = domain.Secret(text) })
}
