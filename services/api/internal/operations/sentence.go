package operations

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// attempts adds the attempts as a check, which may be yet to come.
func (e *explanation) attempts(d *deliveryFacts, r result) {
	if len(d.Attempts) == 0 {
		e.step(checkAttempts, r, "none has ended yet")
		return
	}
	for _, a := range d.Attempts[:len(d.Attempts)-1] {
		e.step(checkAttempts, passed, "%s", sentence(a))
	}
	e.step(checkAttempts, r, "%s", last(d))
}

// attemptsSoFar adds the attempts that led to what comes next.
func (e *explanation) attemptsSoFar(d *deliveryFacts) {
	if len(d.Attempts) > 0 {
		e.attempts(d, passed)
	}
}

// sentence tells of an attempt. What the receiver wrote is not in it: that is data of
// somebody else, and must not be mixed with what Waybill says.
func sentence(a attemptFacts) string {
	if a.Status > 0 {
		return fmt.Sprintf("attempt %d, at %s, was answered with %s after %d ms", a.Number, a.StartedAt, status(a.Status), a.DurationMs)
	}
	return fmt.Sprintf("attempt %d, at %s, got no answer within %d ms: %s", a.Number, a.StartedAt, a.DurationMs, strings.TrimSuffix(a.Error, "."))
}

// last tells of the last attempt.
func last(d *deliveryFacts) string {
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

// hint says what the last answer speaks for.
func hint(d *deliveryFacts) string {
	if len(d.Attempts) == 0 {
		return "search the other deliveries of its webhook."
	}
	switch code := d.Attempts[len(d.Attempts)-1].Status; {
	case code == 0:
		return "the receiver could not be reached or did not answer in time; check its address, its certificate, and how long it works before it answers."
	case code >= 300 && code <= 399:
		return "the receiver redirects, which is never followed; set the webhook's url to where it leads."
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return "the receiver refuses the callback; compare the secret that it verifies with, its clock, and the webhook's headers."
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed:
		return "the receiver has nothing at that url for POST; check the webhook's url."
	case code == http.StatusTooManyRequests:
		return "the receiver asks for fewer callbacks; update the webhook with a lower ratePerSecond or maxInFlight."
	case code >= 400 && code <= 499:
		return "the receiver finds fault with the callback; responseBody may say with what."
	}
	return "the receiver fails; responseBody and the receiver's own log may say why."
}

// capacity tells what the webhook takes at a time.
func capacity(w *webhookFacts) string {
	text := fmt.Sprintf("at most %d callbacks are under way", w.MaxInFlight)
	if w.RatePerSecond != nil {
		text += fmt.Sprintf(", and %v are sent in a second", *w.RatePerSecond)
	}
	return text
}

func list(types []string) string { return strings.Join(types, ", ") }

func text(optional *string) string {
	if optional == nil {
		return ""
	}
	return *optional
}

// instant reads a time as the API writes them.
func instant(text string) time.Time {
	at, _ := time.Parse(time.RFC3339, text) // the API's own answer
	return at
}
