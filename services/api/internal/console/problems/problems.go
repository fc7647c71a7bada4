// Package problems has the console's page of current problems: the webhooks that are not healthy and those with
// deliveries that failed for good, each with the receiver's last answer and a way to send again.
package problems

import (
	"cmp"
	"embed"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/console/words"
	"waybill.dev/services/api/internal/families/deliveries"
	"waybill.dev/services/api/internal/families/insight"
	"waybill.dev/services/api/internal/families/receivers"
	"waybill.dev/services/api/internal/families/webhooks"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

//go:embed templates/*.html
var files embed.FS

const (
	path      = "/console/problems"
	listPath  = "/console/deliveries"
	againPath = listPath + "/send-again"
)

// Module returns the page.
func Module() console.Module {
	return console.Module{
		Name: "problems", Templates: files,
		Routes: []console.Route{
			{Method: http.MethodGet, Path: path, Handle: show},
			{Method: http.MethodPost, Path: path + "/{webhookId}/acknowledge", Handle: acknowledge},
			{Method: http.MethodPost, Path: path + "/{webhookId}/reopen", Handle: reopen},
		},
		Nav: []console.NavEntry{{Label: "Problems", Path: path, Icon: "problems", Order: console.OrderProblems, Key: "p", Scopes: []domain.Scope{domain.ScopeEventsRead}}},
	}
}

type view struct {
	Entries  []entry
	Quiet    []entry // acknowledged or muted
	Spans    []console.Option
	Endings  endings
	NoEnds   *console.Problem // the reason why endings are not known
	Checked  time.Time
	Cut      bool // more deliveries failed for good than were read
	More     bool // there are more webhooks than the page shows
	MayRetry bool
	Webhooks bool // the pages of webhooks are available
	MayWrite bool
}

// entry is the problem of one webhook.
type entry struct {
	Webhook deliverylog.Webhook
	State   receivers.State // state of its health; empty: healthy, or not known
	Problem *receivers.Problem
	Cause   string
	Open    *string // when the circuit opened; nil: it is closed
	Hour    receivers.Window
	Line    *console.Line // attempts that failed, by the hour
	Classes []part        // classes of the failed attempts in the last hour
	Waiting int
	Held    int
	Coming  int  // scheduled for another attempt
	Failed  int  // deliveries failed for good; 0: none, or their number is not known
	Over    bool // there are more than Failed
	Sample  domain.DeliveryID
	Code    int
	Answer  string // the receiver's last answer
	At      *string
	Log     string
	Again   string
}

// part is the number of attempts with one class.
type part struct {
	Class domain.Class
	N     int64
}

const (
	// maxRead is how many deliveries that failed for good are read: one page of the API's.
	maxRead = "1000"
	// maxEntries is how many webhooks are shown. maxAnswers is the number of shown webhooks whose last answer is read.
	maxEntries = 50
	maxAnswers = 15
	// maxAnswerBytes bounds how much of an answer is shown, in bytes.
	maxAnswerBytes = 300
)

func show(p *console.Page) error {
	v := view{Checked: p.Now(), MayRetry: p.May(domain.ScopeEventsWrite), MayWrite: p.May(domain.ScopeWebhooksWrite), Webhooks: p.Has("/console/webhooks/{webhookId}"), Spans: muteSpans()}
	var failed deliverylog.Page
	if err := p.API.Get("/v1/deliveries", url.Values{"status": {string(domain.StatusFailed)}, "limit": {maxRead}}, &failed); err != nil {
		return err
	}
	v.Cut = failed.NextCursor != nil
	var troubled []webhooks.Webhook
	// A key that may not read webhooks still sees the failed deliveries.
	if p.API.Try("/v1/webhooks", url.Values{"include": {"health"}, "troubled": {"true"}, "limit": {strconv.Itoa(maxEntries)}}, &troubled) == nil {
		v.More = p.API.Last().Header.Get("Link") != ""
	}
	if v.Endings, v.NoEnds = readEndings(p); unseen(v.NoEnds) {
		v.NoEnds = nil
	}
	p.CLI("webhooks list --troubled")
	hooks, _ := deliverylog.ReadWebhooks(p)
	for _, e := range entries(troubled, failed.Data, v.Cut, hooks) {
		if e.Problem != nil && e.Problem.Quiet {
			v.Quiet = append(v.Quiet, e)
		} else {
			v.Entries = append(v.Entries, e)
		}
	}
	if len(v.Entries) > maxEntries {
		v.Entries, v.More = v.Entries[:maxEntries], true
	}
	for i := range v.Entries[:min(len(v.Entries), maxAnswers)] {
		v.Entries[i].answer(p)
		v.Entries[i].line(p)
		if v.Cut {
			v.Entries[i].count(p)
		}
	}
	return p.Show("problems.html", "Problems", v)
}

// entries returns an entry for each webhook: those that are not healthy, the worst first, and then those with
// deliveries that failed for good. Cut says that more deliveries failed than were read.
func entries(troubled []webhooks.Webhook, failed []deliveries.Delivery, cut bool, hooks deliverylog.Webhooks) []entry {
	at := map[domain.WebhookID]int{}
	var list []entry
	slices.SortStableFunc(troubled, func(a, b webhooks.Webhook) int {
		return slices.Index(receivers.States(), a.Health.State) - slices.Index(receivers.States(), b.Health.State)
	})
	for i := range troubled {
		at[troubled[i].ID] = len(list)
		list = append(list, entryOf(troubled[i]))
	}
	for _, d := range failed {
		if domain.Forged(web.Value(d.Reason)) { // a receiver that refuses forged tests is good
			continue
		}
		i, ok := at[d.WebhookID]
		if !ok {
			i = len(list)
			at[d.WebhookID] = i
			list = append(list, entry{Webhook: hooks.Of(d.WebhookID)})
		}
		if list[i].Sample == "" {
			list[i].Sample, list[i].Code = d.ID, cmp.Or(list[i].Code, d.StatusCode)
		}
		if !cut {
			list[i].Failed++
		}
	}
	for i := range list {
		query := url.Values{"webhookId": {string(list[i].Webhook.ID)}}
		if list[i].State == "" {
			query.Set("status", string(domain.StatusFailed))
		}
		list[i].Log, list[i].Again = listPath+"?"+query.Encode(), againPath+"?"+query.Encode()
	}
	return list
}

func entryOf(w webhooks.Webhook) entry {
	h := w.Health
	e := entry{Webhook: deliverylog.Webhook{Webhook: w}, State: h.State, Problem: h.Problem, Open: h.Circuit.Since, Hour: h.Windows["1h"], Waiting: h.Waiting, Held: h.Held, Coming: h.Scheduled}
	for _, class := range domain.Classes() {
		if n := e.Hour.Classes[class]; n > 0 && class != domain.ClassOK {
			e.Classes = append(e.Classes, part{class, n})
		}
	}
	for _, a := range h.Answers {
		if a.Class != domain.ClassOK {
			e.Code, e.Answer, e.At, e.Cause = a.StatusCode, cmp.Or(cut(a.Body), string(a.Class)), a.At, words.Answer(a)
			break
		}
	}
	if h.State == receivers.Inactive {
		e.Cause = words.Disabled(w.DisabledReason)
	}
	return e
}

// Inactive reports whether the webhook is inactive, so that sending again would not help.
func (e *entry) Inactive() bool { return e.State == receivers.Inactive }

// Word returns the state in words.
func (e *entry) Word() string { return cmp.Or(words.State(e.State), "failed for good") }

func cut(text string) string {
	if len(text) <= maxAnswerBytes {
		return text
	}
	runes := []rune(text)
	return string(runes[:min(len(runes), maxAnswerBytes)]) + "…"
}

// line draws the attempts that failed in the last 24 hours.
func (e *entry) line(p *console.Page) {
	var hours insight.Statistics
	if p.API.Try("/v1/statistics", url.Values{"step": {"hour"}, "webhookId": {string(e.Webhook.ID)}}, &hours) != nil {
		return
	}
	e.Line = &console.Line{Label: "Failed attempts an hour, the last 24 hours", Values: make([]float64, deliverylog.Hours)}
	for i := range hours.Data {
		if hour, ok := deliverylog.Hour(&hours.Data[i], p.Now()); ok {
			e.Line.Values[hour] += float64(hours.Data[i].Failed)
		}
	}
}

// count counts the deliveries that failed for good, up to maxRead, if not all of them were read.
func (e *entry) count(p *console.Page) {
	var failed deliverylog.Page
	if e.Sample == "" || p.API.Try("/v1/deliveries", url.Values{"status": {string(domain.StatusFailed)}, "webhookId": {string(e.Webhook.ID)}, "limit": {maxRead}}, &failed) != nil {
		return
	}
	for _, d := range failed.Data {
		if !domain.Forged(web.Value(d.Reason)) {
			e.Failed++
		}
	}
	e.Over = failed.NextCursor != nil
}

// answer reads the receiver's last answer to the sample delivery, if the health does not have it.
func (e *entry) answer(p *console.Page) {
	if e.Answer != "" || e.Sample == "" {
		return
	}
	var d deliveries.Detail
	if p.API.Try(console.Path("v1", "deliveries", e.Sample), nil, &d) != nil || len(d.Attempts) == 0 {
		return
	}
	last := d.Attempts[len(d.Attempts)-1]
	e.Answer = cut(cmp.Or(last.Error, last.ResponseBody))
}
