package deliveries

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/console/words"
	"waybill.dev/services/api/internal/families/deliveries"
	"waybill.dev/services/api/internal/families/explanations"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

// step is one step of the way from the publisher to the receiver.
type step struct {
	Tone  string // good, bad, warn, busy or next
	Title string
	At    *string // nil: the time is not known
	Soon  bool    // At is in the future
	After string  // time since the first step; empty: this is the first, or the time is not known
	Text  string
	// Answer is the receiver's last answer, to another delivery.
	Answer string
	// Wait says how long the delivery waited before this step, and why.
	Wait    string
	Attempt *attemptStep
}

// attemptStep is an attempt of the timeline.
type attemptStep struct {
	attempt

	Bars   []bar
	Hints  []string
	Opened *open // nil: its request and answer are not shown now
}

// bar is a phase of an attempt. Its length is its duration, on the scale of the longest attempt.
type bar struct {
	Name     string
	Class    string
	X, Width string
	Ms       float64
}

// scale is the length of a bar for the longest attempt.
const scale = 1000.0

// timeline returns the steps in the order of the way. Opened is the attempt that is shown whole.
func (v *deliveryView) timeline(e *explanations.Explanation, opened *open) []step {
	var steps []step
	shown := false
	for _, c := range e.Chain {
		switch c.Check {
		case "event":
			steps = append(steps, v.accepted(c))
		case "attempts":
			if !shown && v.D != nil && len(v.D.Attempts) > 0 {
				steps = append(steps, v.attempts(opened)...)
			} else if !shown {
				steps = append(steps, step{Tone: stepTone(c.Result), Title: "Attempts", Text: sentence(c.Detail)})
			}
			shown = true
		default:
			steps = append(steps, step{Tone: stepTone(c.Result), Title: stepTitle(c), Text: sentence(c.Detail), Answer: c.Answer})
		}
	}
	if v.D == nil {
		return after(steps)
	}
	if len(steps) == 0 {
		steps = append(steps, v.accepted(explanations.Check{Result: "passed"}))
	}
	if !shown {
		steps = append(steps, v.attempts(opened)...)
	}
	return after(append(steps, v.end()))
}

// after sets the time since the first step on the other steps.
func after(steps []step) []step {
	var first time.Time
	for i := range steps {
		at := web.Time(steps[i].At)
		switch {
		case at.IsZero() || steps[i].Soon:
		case first.IsZero():
			first = at
		default:
			steps[i].After = console.Offset(at.Sub(first))
		}
	}
	return steps
}

func (v *deliveryView) accepted(c explanations.Check) step {
	s := step{Tone: stepTone(c.Result), Title: "Accepted", Text: sentence(c.Detail)}
	if v.Event == nil {
		if v.D != nil {
			s.At, s.Text = v.D.CreatedAt, ""
		}
		return s
	}
	s.At = &v.Event.ReceivedAt
	parts := []string{string(v.Event.Type)}
	switch v.Event.Source {
	case "rest":
		parts = append(parts, "over HTTP")
	case "nats":
		parts = append(parts, "from the bus")
	}
	if v.Event.Size > 0 {
		parts = append(parts, console.FormatBytes(v.Event.Size))
	}
	s.Text = strings.Join(parts, ", ") + "."
	return s
}

func stepTone[R ~string](result R) string {
	switch result {
	case "passed":
		return "good"
	case "waiting":
		return "busy"
	}
	return "bad"
}

func stepTitle(c explanations.Check) string {
	switch c.Check {
	case "subscription":
		return "Fan-out"
	case "filter":
		return "Filter"
	case "active":
		return "Webhook"
	case "capacity":
		return "Capacity"
	case "circuit":
		return "Circuit"
	}
	return c.Check
}

// sentence makes a sentence from the text of a check.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}

// attempts returns the steps of the attempts, each with the wait before it.
func (v *deliveryView) attempts(opened *open) []step {
	list := v.D.Attempts[v.Earlier:]
	longest := 1.0
	for _, a := range list {
		longest = max(longest, float64(a.DurationMs), sum(a.Phases))
	}
	steps := make([]step, len(list))
	for i, a := range list {
		one := &attemptStep{attempt: attempt{a}, Bars: bars(a, longest)}
		if opened != nil && opened.Number == a.Number {
			// The verdict already describes the last attempt.
			said := v.Unexplained == nil && i == len(list)-1
			one.Opened, one.Hints = opened, hints(one.attempt, v.Webhook.TimeoutSeconds, said)
		}
		steps[i] = step{Tone: one.Tone(), Title: "Attempt " + strconv.Itoa(a.Number), At: a.StartedAt, Attempt: one}
		if i > 0 {
			steps[i].Wait = v.waited(list[i-1], a)
		}
	}
	return steps
}

// shortest is the wait in seconds from which on the jitter is shown: for shorter waits, the time
// until the dispatcher sends is too large a part.
const shortest = 30

// waited says how long nothing was done between two attempts, and why.
func (v *deliveryView) waited(before, now deliveries.Attempt) string {
	from, to := web.Time(before.StartedAt), web.Time(now.StartedAt)
	if from.IsZero() || to.IsZero() {
		return ""
	}
	wait := to.Sub(from.Add(time.Duration(before.DurationMs) * time.Millisecond))
	text := "Waited " + deliverylog.Took(wait)
	if after := value(before.ResponseHeaders, "retry-after"); after != "" {
		return text + ": the receiver asked for Retry-After " + after
	}
	if n := before.Number; n >= 1 && n <= len(v.Webhook.RetryScheduleSeconds) {
		planned := v.Webhook.RetryScheduleSeconds[n-1]
		// Up to 20 % of jitter, and a moment until the attempt is sent.
		if off := wait.Seconds() - planned; planned > 0 && math.Abs(off) <= planned*0.2+1 {
			text = fmt.Sprintf("%s: step %d of the schedule, %s", text, n, deliverylog.Took(time.Duration(planned*float64(time.Second))))
			if planned >= shortest {
				text += fmt.Sprintf(" and %+.0f %% by chance", off/planned*100)
			}
			return text
		}
	}
	return text
}

// bars returns the phases of an attempt, or one bar for the whole attempt if the phases are not
// known.
func bars(a deliveries.Attempt, longest float64) []bar {
	parts := []bar{
		{Name: "DNS", Class: "p-dns", Ms: a.Phases.DNS}, {Name: "connect", Class: "p-connect", Ms: a.Phases.Connect}, {Name: "TLS", Class: "p-tls", Ms: a.Phases.TLS},
		{Name: "first byte", Class: "p-first", Ms: a.Phases.FirstByte}, {Name: "body", Class: "p-body", Ms: a.Phases.Body},
	}
	whole := float64(a.DurationMs)
	if rest := whole - sum(a.Phases); rest == whole {
		parts = []bar{{Name: "in all", Class: "p-first", Ms: whole}}
	} else if rest >= 1 {
		parts = append(parts, bar{Name: "other", Class: "p-other", Ms: rest})
	}
	var list []bar
	x := 0.0
	for _, b := range parts {
		if b.Ms <= 0 {
			continue
		}
		width := max(b.Ms/longest*scale, 2)
		b.X, b.Width = number(x), number(width)
		x += width
		list = append(list, b)
	}
	return list
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// end returns the last step: what comes next, or how the delivery ended.
func (v *deliveryView) end() step {
	d, reason := v.D, web.Value(v.D.Reason)
	switch {
	case d.Status == domain.StatusDelivered:
		return step{Tone: "good", Title: "Delivered", At: d.UpdatedAt, Text: "The receiver took it. Nothing more is sent."}
	case d.Status == domain.StatusFailed:
		return step{Tone: "bad", Title: "The end: " + words.Reason(reason), At: d.UpdatedAt, Text: "Nothing more is sent by itself. It stays in the log and can be sent again."}
	case v.Verdict.NextAt != nil:
		return step{Tone: "next", Title: v.Verdict.Next, At: v.Verdict.NextAt, Soon: true, Text: v.stage()}
	case d.Status == domain.StatusHeld:
		return step{Tone: "next", Title: "Held", Text: "It goes out by itself when the webhook is active again."}
	case reason == domain.ReasonCircuitOpen:
		return step{Tone: "next", Title: "Waits for the circuit", Text: "It goes out when a probe of the receiver succeeds."}
	case reason != "":
		return step{Tone: "next", Title: "Waits: " + words.Reason(reason), Text: "It goes out by itself."}
	}
	return step{Tone: "next", Title: "Attempt " + strconv.Itoa(d.AttemptCount+1), Text: "In flight, or about to start."}
}

// stage says how much of the schedule is left.
func (v *deliveryView) stage() string {
	if n := len(v.Webhook.RetryScheduleSeconds); n > 0 && v.D.AttemptCount <= n {
		return fmt.Sprintf("The schedule has %d attempts in all.", n+1)
	}
	return ""
}
