// Package judge evaluates a receiver's answers to tests: to a test that is signed like an event, and to tests that a
// good receiver refuses.
package judge

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/units"
)

// Level is the severity of a finding.
type Level string

// The levels. A check that does not apply is reported as that, and counts against no one.
const (
	OK      Level = "ok"
	Warning Level = "warning"
	Fault   Level = "fault"
	Absent  Level = "not applicable"
)

// Finding is one result of a check.
type Finding struct {
	Group string `json:"group"`
	Name  string `json:"check"`
	Level Level  `json:"level"`
	Found string `json:"found"`           // what was found
	Means string `json:"meaning"`         // in one sentence
	Do    string `json:"action,omitzero"` // the command to run, or the setting to change
}

// Good returns a finding without a fault. The check adds group and name, as to the other findings.
func Good(found, means string) Finding { return Finding{Level: OK, Found: found, Means: means} }

// Warn returns a finding that needs attention, but not at night.
func Warn(found, means, do string) Finding {
	return Finding{Level: Warning, Found: found, Means: means, Do: do}
}

// Bad returns a finding that needs attention now.
func Bad(found, means, do string) Finding {
	return Finding{Level: Fault, Found: found, Means: means, Do: do}
}

// Answer is the answer to a test.
type Answer struct {
	Status    int    // 0: there was no valid answer
	Error     string // why there was no answer
	Took      time.Duration
	FirstByte time.Duration
	Location  string // of a redirect
}

// OK reports whether the receiver accepted the test.
func (a Answer) OK() bool { return a.Status >= 200 && a.Status < 300 }

// Refused reports whether the answer says that the caller is not allowed.
func (a Answer) Refused() bool {
	return a.Status == http.StatusBadRequest || a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden
}

// NoTLS returns the finding for an http URL.
func NoTLS() Finding {
	return Finding{Name: "tls", Level: Warning, Found: "none: the URL is http", Means: "Whoever is between can read and change callbacks; the signature shows changes only.", Do: "use https"}
}

// Signed judges the answer to a test that is signed like an event and may take timeout. known: the receiver has the secret.
func Signed(a Answer, known bool, timeout time.Duration) []Finding {
	answered := signed(a, known)
	answered.Name = "test event"
	if a.Status == 0 {
		return []Finding{answered}
	}
	took := Good(fmt.Sprintf("%s to the first byte, %s in all", units.Duration(a.FirstByte), units.Duration(a.Took)), "It answers in good time.")
	if a.Took > timeout/2 {
		took = Warn(units.Duration(a.Took)+" of "+units.Duration(timeout), "A little more load, and attempts run into the timeout.", "answer first and work afterwards")
	}
	took.Name = "time"
	return []Finding{answered, took}
}

func signed(a Answer, known bool) Finding {
	text := fmt.Sprintf("answered %d in %s", a.Status, units.Duration(a.Took))
	switch {
	case a.Status == 0:
		return none(a, "Each attempt ends so, and is tried again.")
	case a.OK() && !known:
		return Warn(text+" to a signature that it can't know", "It does not verify signatures: anybody can send it events.", "verify each callback, see docs/receivers.md")
	case a.OK():
		return Good(text, "The event counts as delivered.")
	case a.Status >= 300 && a.Status < 400:
		return Bad(text+", a redirect"+location(a.Location), "Redirects are not followed: the delivery fails.", "register the URL that it leads to")
	case a.Status == http.StatusGone:
		return Bad(text, "410 makes a webhook inactive at once.", "correct the URL, or what the receiver answers")
	case a.Refused() && !known:
		return Good(text+": refused, as it can't know this secret", "It checks who calls. Give the webhook's secret with --secret to see it accept.")
	case a.Refused():
		return Bad(text, "It refuses callbacks that are signed with this secret.", "give it the webhook's secret, and compare: waybill signature verify")
	}
	return Bad(text, "The delivery fails and is tried again by the schedule.", "look at the receiver's log: it must answer 2xx")
}

func none(a Answer, means string) Finding {
	return Bad(a.Error+" after "+units.Duration(a.Took), means, "look at the receiver's log; it must answer within the webhook's timeoutSeconds")
}

// Forged judges the answer to a forged test.
func Forged(how domain.Forgery, a Answer) Finding {
	switch {
	case a.Status == 0:
		f := none(a, "Without an answer nothing is shown.")
		f.Name = "forged test"
		return f
	case how == domain.ForgeOldTime:
		return OldTime(a)
	}
	return WrongSecret(a)
}

// location returns the target of a redirect, without parts that may be secret.
func location(at string) string {
	at, _, _ = strings.Cut(at, "?")
	if at == "" {
		return ""
	}
	return " to " + at
}

// WrongSecret judges the answer to a test that is signed with a secret that the receiver can't know.
func WrongSecret(a Answer) Finding {
	text := fmt.Sprintf("answered %d", a.Status)
	f := Good(text, "It does not accept it; 401 would say why.")
	switch {
	case a.OK():
		f = Warn(text, "It does not verify signatures: anybody can send it events.", "verify each callback, see docs/receivers.md")
	case a.Refused():
		f = Good(text, "It refuses what is not signed with its secret.")
	case a.Status >= 500:
		f = Warn(text, "It fails on a wrong signature; it should answer 401.", "answer 401 to a signature that does not verify")
	}
	f.Name = "wrong signature"
	return f
}

// Telling reports whether the answer to a test of an hour ago can show anything, given the
// answers to the two tests before it.
func Telling(right, wrong Answer) bool { return right.OK() && wrong.Status > 0 && !wrong.OK() }

// OldTime judges the answer to a test of an hour ago.
func OldTime(a Answer) Finding {
	text := fmt.Sprintf("answered %d to a callback of an hour ago", a.Status)
	f := Good(text, "It refuses callbacks that are sent again later.")
	if a.OK() {
		f = Warn(text, "It does not check webhook-timestamp: whoever has seen a callback can send it again.", "refuse what is more than five minutes old")
	}
	f.Name = "old time"
	return f
}
