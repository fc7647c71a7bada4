package deliverylog

import (
	"strconv"
	"strings"
	"time"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/words"
	"waybill.dev/services/api/internal/families/jobs"
	"waybill.dev/shared/domain"
)

// Describe describes the selection of a filter in words, without the status.
func Describe(value func(name string) string, hooks Webhooks) []console.Fact {
	var facts []console.Fact
	for _, f := range []struct{ name, label string }{
		{"webhookId", "To webhook"}, {"eventType", "Of type"}, {"shipmentId", "Of shipment"}, {"eventId", "Of event"}, {"reason", "With reason"},
		{"class", "Last attempt"}, {"statusCode", "Last status"}, {"test", "Tests"}, {"since", "Accepted since"}, {"until", "Accepted before"},
	} {
		text := value(f.name)
		switch {
		case text == "":
			continue
		case f.name == "webhookId":
			text = hooks.Of(domain.WebhookID(text)).Name()
		case f.name == "reason":
			text = words.Reason(text)
		}
		facts = append(facts, console.Fact{Name: f.label, Value: text})
	}
	return facts
}

// Plan is the preview of sending many deliveries again.
type Plan struct{ jobs.Plan }

// Takes returns about how long the job takes.
func (p Plan) Takes() string {
	if p.EstimatedSeconds < 1 {
		return "under a second"
	}
	return "about " + Took(time.Duration(p.EstimatedSeconds)*time.Second)
}

// AtLeast returns the words before the numbers when there may be more.
func (p Plan) AtLeast() string {
	if p.More {
		return "at least "
	}
	return ""
}

// Took writes a duration: 1.2 s, 5 min 3 s, 2 h 1 min.
func Took(d time.Duration) string {
	d = max(d, 0)
	two := func(a time.Duration, first string, b time.Duration, second string) string {
		text := strconv.Itoa(int(d/a)) + " " + first
		if rest := int(d % a / b); rest > 0 {
			text += " " + strconv.Itoa(rest) + " " + second
		}
		return text
	}
	switch {
	case d >= 24*time.Hour:
		return two(24*time.Hour, "d", time.Hour, "h")
	case d >= time.Hour:
		return two(time.Hour, "h", time.Minute, "min")
	case d >= time.Minute:
		return two(time.Minute, "min", time.Second, "s")
	case d >= 10*time.Second:
		return strconv.Itoa(int(d/time.Second)) + " s"
	}
	return strings.TrimSuffix(strconv.FormatFloat(d.Seconds(), 'f', 1, 64), ".0") + " s"
}
