package explanations

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"waybill.dev/services/api/internal/families/deliveries"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/units"
)

// attempts adds the check of the attempts, which may be still to come.
func (e *Explanation) attempts(d *deliveries.Detail, r result) {
	if len(d.Attempts) == 0 {
		e.step(checkAttempts, r, "none has ended yet")
		return
	}
	for i, a := range d.Attempts {
		came := r
		if i < len(d.Attempts)-1 {
			came = resultOf(a)
		}
		e.Chain = append(e.Chain, Check{Check: checkAttempts, Result: came, Detail: sentence(a), Answer: beginning(a.ResponseBody)})
	}
}

// attemptsSoFar adds the attempts that were made until now.
func (e *Explanation) attemptsSoFar(d *deliveries.Detail) {
	if n := len(d.Attempts); n > 0 {
		e.attempts(d, resultOf(d.Attempts[n-1]))
	}
}

// resultOf reports whether the receiver took the event at an attempt.
func resultOf(a deliveries.Attempt) result {
	if a.Status >= http.StatusOK && a.Status < http.StatusMultipleChoices {
		return passed
	}
	return failed
}

// sentence describes an attempt. The receiver's text is left out: it is foreign data, and must not be mixed with
// Waybill's own words.
func sentence(a deliveries.Attempt) string {
	begun := fmt.Sprintf("attempt %d, at %s, ", a.Number, web.Value(a.StartedAt))
	took := units.Duration(time.Duration(a.DurationMs) * time.Millisecond)
	switch {
	case a.Status > 0:
		return begun + fmt.Sprintf("was answered with %s after %s", status(a.Status), took)
	case a.DurationMs < 1:
		return begun + "failed at once: " + strings.TrimSuffix(a.Error, ".")
	}
	return begun + fmt.Sprintf("failed after %s: %s", took, strings.TrimSuffix(a.Error, "."))
}

// maxQuoted bounds the quoted part of an answer, in characters; responseBody has more.
const maxQuoted = 200

// beginning returns the beginning of an answer, on one line.
func beginning(answer string) string {
	answer = strings.Join(strings.Fields(answer), " ")
	if runes := []rune(answer); len(runes) > maxQuoted {
		return string(runes[:maxQuoted]) + "…"
	}
	return answer
}

// answered describes the receiver's last failed answer, to any delivery.
func answered(a *domain.Answer) string {
	at := *web.Stamp(a.At)
	if a.Status > 0 {
		return fmt.Sprintf("at %s the receiver last answered with %s", at, status(a.Status))
	}
	return fmt.Sprintf("at %s the last attempt ended without an answer (%s)", at, a.Class)
}

// spent says how many attempts of the schedule were made before the delivery ended. It uses the webhook's present
// schedule: earlier ones are not kept.
func spent(f facts) string {
	made := f.delivery.Attempts
	whole := slices.IndexFunc(made, func(a deliveries.Attempt) bool { return resultOf(a) == passed }) < 0
	if whole && f.open && f.webhook != nil && f.webhook.UpdatedAt <= web.Value(f.delivery.CreatedAt) {
		switch all := len(f.webhook.RetryScheduleSeconds) + 1; {
		case len(made) == all:
			return fmt.Sprintf("%d of %d attempts of its schedule failed", all, all)
		case len(made) < all:
			return fmt.Sprintf("%d of %d attempts of its schedule were made and failed; the rest of the schedule ended while the delivery waited in the hold queue", len(made), all)
		}
	}
	return fmt.Sprintf("Its schedule has ended, after %d attempts in all", len(made))
}

// last describes the last attempt.
func last(d *deliveries.Detail) string {
	if len(d.Attempts) == 0 {
		return "no attempt is in the log"
	}
	return sentence(d.Attempts[len(d.Attempts)-1])
}

func status(code int) string {
	if text := http.StatusText(code); text != "" {
		return fmt.Sprintf("%d (%s)", code, text)
	}
	return strconv.Itoa(code)
}

// hint says what the last answer suggests: the answer to this delivery, or if there is none, the last answer to
// another delivery.
func hint(f facts) string {
	var attempt deliveries.Attempt
	if n := len(f.delivery.Attempts); n > 0 {
		attempt = f.delivery.Attempts[n-1]
	} else if last := f.circuit.Last; last != nil {
		attempt = deliveries.Attempt{Status: last.Status, Class: last.Class}
	} else {
		return "search the other deliveries of its webhook."
	}
	switch code := attempt.Status; {
	case code == 0 && (strings.HasPrefix(attempt.Error, egress.ErrAddress.Error()) || attempt.Error == "" && attempt.Class == domain.ClassRefused):
		return "its url leads to an address that is not public; set another url, or ask whoever runs Waybill to allow the network with WAYBILL_EGRESS_ALLOW."
	case code == 0 && attempt.Class == domain.ClassAuth:
		return "Waybill could not authenticate itself, so the receiver got nothing that it could take; check the webhook's auth: the token server's address, the client's id and secret, the scope, and whether that server works."
	case code == 0:
		return "the receiver could not be reached or did not answer in time; check its address, its certificate, and how long it takes to answer."
	case code >= 300 && code <= 399:
		return "the receiver redirects, and redirects are never followed; set the webhook's url to the address that it redirects to."
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return "the receiver refuses the callback; check the secret that it verifies with, its clock, and the webhook's headers and auth."
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed:
		return "the receiver does not accept POST at this url; check the webhook's url."
	case code == http.StatusTooManyRequests:
		return "the receiver asks for fewer callbacks; update the webhook with a lower ratePerSecond or maxInFlight."
	case code >= 400 && code <= 499:
		return "the receiver rejects the callback; responseBody may say why."
	}
	return "the receiver fails; responseBody and the receiver's own log may say why."
}

// capacity describes the webhook's limits.
func capacity(f facts) string {
	w := f.webhook
	limits := fmt.Sprintf("at most %d callbacks are in flight at once", w.MaxInFlight)
	if w.RatePerSecond != nil {
		limits += fmt.Sprintf(", and at most %v are sent a second", *w.RatePerSecond)
	}
	return f.orElse("the webhook has limits", "%s", limits)
}

// told returns a part of a sentence with a setting of the webhook; empty for a caller that may not see webhooks.
func (f *facts) told(format string, settings ...any) string { return f.orElse("", format, settings...) }

// orElse returns the same as told, or other if that is empty.
func (f *facts) orElse(other, format string, settings ...any) string {
	if !f.open {
		return other
	}
	return fmt.Sprintf(format, settings...)
}

func list(types []domain.EventType) string {
	var b strings.Builder
	for i, t := range types {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(t))
	}
	return b.String()
}
