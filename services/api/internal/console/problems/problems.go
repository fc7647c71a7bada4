// Package problems has the console's page of what goes wrong now: undelivered deliveries by
// webhook and by what happened, each group with a sample answer and the way to send it again.
package problems

import (
	"cmp"
	"embed"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"time"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/deliverylog"
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
	templates, _ := fs.Sub(files, "templates") // the name is a constant
	return console.Module{
		Name: "problems", Templates: templates,
		Routes:  []console.Route{{Method: http.MethodGet, Path: path, Handle: show}},
		Nav:     []console.NavEntry{{Label: "Problems", Path: path, Icon: "problems", Order: console.OrderProblems, Key: "p"}},
		Samples: samples(),
	}
}

type view struct {
	Groups   []group
	Endings  endings
	NoEnds   *console.Problem // why it is not known what ends
	Checked  time.Time
	Cut      bool // there is more than was read
	More     int  // groups that are not shown
	MayRetry bool
}

// group is what goes wrong in one way at one webhook.
type group struct {
	Webhook deliverylog.Webhook
	Class   string // of the last attempts; empty: there were none
	Reason  string // the most common one
	N       int
	Status  []part
	First   string // the oldest event's acceptance
	Last    string // the newest change
	Sample  string // id of the newest delivery
	Answer  string // what the receiver last said to it
	Code    int
	Log     string
	Again   string
}

// part is how many of a group have a status.
type part struct {
	Status domain.Status
	N      int
}

const (
	// maxRead is how many deliveries of each status are read: one page of the API's.
	maxRead = "1000"
	// maxGroups bounds how many groups are shown, and maxAnswers of how many the answer is.
	maxGroups  = 50
	maxAnswers = 15
	// maxAnswer bounds how much of an answer is shown, in bytes.
	maxAnswer = 300
)

// troubled are the statuses of what has a problem.
func troubled() []domain.Status {
	return []domain.Status{domain.StatusFailed, domain.StatusRetrying, domain.StatusHeld}
}

func show(p *console.Page) error {
	v := view{Checked: p.Now(), MayRetry: p.May(domain.ScopeEventsWrite)}
	var all []deliverylog.Delivery
	for _, status := range troubled() {
		var page deliverylog.Page
		if err := p.API.Get("/v1/deliveries", url.Values{"status": {string(status)}, "limit": {maxRead}}, &page); err != nil {
			return err
		}
		v.Cut = v.Cut || page.NextCursor != nil
		all = append(all, page.Data...)
	}
	if v.Endings, v.NoEnds = readEndings(p); unseen(v.NoEnds) {
		v.NoEnds = nil
	}
	p.CLI("deliveries list --status failed")
	hooks, _ := deliverylog.ReadWebhooks(p)
	v.Groups = groups(all, hooks)
	if len(v.Groups) > maxGroups {
		v.More = len(v.Groups) - maxGroups
		v.Groups = v.Groups[:maxGroups]
	}
	for i := range v.Groups[:min(len(v.Groups), maxAnswers)] {
		v.Groups[i].answer(p)
	}
	return p.Show("problems.html", "Problems", v)
}

// groups sorts deliveries by webhook and class: the largest group first.
func groups(all []deliverylog.Delivery, hooks deliverylog.Webhooks) []group {
	type key struct{ webhook, class string }
	at := map[key]int{}
	var list []group
	for _, d := range all {
		k := key{d.WebhookID, d.Class}
		i, ok := at[k]
		if !ok {
			i = len(list)
			at[k] = i
			list = append(list, group{Webhook: hooks.Of(d.WebhookID), Class: d.Class, Reason: d.Why(), First: d.CreatedAt, Last: d.UpdatedAt, Sample: d.ID, Code: d.StatusCode})
		}
		list[i].add(d)
	}
	for i := range list {
		query := url.Values{"webhookId": {list[i].Webhook.ID}}
		if list[i].Class != "" {
			query.Set("class", list[i].Class)
		}
		if len(list[i].Status) == 1 {
			query.Set("status", string(list[i].Status[0].Status))
		}
		list[i].Log, list[i].Again = listPath+"?"+query.Encode(), againPath+"?"+query.Encode()
	}
	slices.SortStableFunc(list, func(a, b group) int { return cmp.Compare(b.N, a.N) })
	return list
}

func (g *group) add(d deliverylog.Delivery) {
	g.N++
	i := slices.IndexFunc(g.Status, func(p part) bool { return p.Status == d.Status })
	if i < 0 {
		i = len(g.Status)
		g.Status = append(g.Status, part{Status: d.Status})
	}
	g.Status[i].N++
	g.First = min(g.First, d.CreatedAt)
	if d.UpdatedAt > g.Last {
		g.Last, g.Sample, g.Code = d.UpdatedAt, d.ID, d.StatusCode
	}
}

// Held tells that all of it is held: sending it again would not help.
func (g *group) Held() bool { return len(g.Status) == 1 && g.Status[0].Status == domain.StatusHeld }

// answer reads what the receiver last said.
func (g *group) answer(p *console.Page) {
	var d struct {
		Attempts []struct {
			Error        string `json:"error"`
			ResponseBody string `json:"responseBody"`
		} `json:"attempts"`
	}
	if p.API.Try(console.Path("v1", "deliveries", g.Sample), nil, &d) != nil || len(d.Attempts) == 0 {
		return
	}
	last := d.Attempts[len(d.Attempts)-1]
	text := cmp.Or(last.Error, last.ResponseBody)
	if len(text) > maxAnswer {
		runes := []rune(text)
		text = string(runes[:min(len(runes), maxAnswer)]) + "…"
	}
	g.Answer = text
}

// samples are data to try the template with.
func samples() map[string][]any {
	const hostile = "<script>\u202e\x07"
	sent := []deliverylog.Delivery{
		{ID: "d1", WebhookID: "w1", Status: "failed", Class: "http_5xx", StatusCode: 500, Reason: "scheduleExhausted", CreatedAt: "2026-11-18T15:02:11.000Z", UpdatedAt: "2026-11-18T15:02:12.000Z"},
		{ID: "d2", WebhookID: "w1", Status: "retrying", Class: "http_5xx", StatusCode: 502, CreatedAt: "2026-11-18T15:01:11.000Z", UpdatedAt: "2026-11-18T15:03:12.000Z"},
		{ID: "d3", WebhookID: hostile, Status: "held", Reason: "webhookInactive"},
	}
	list := groups(sent, deliverylog.Webhooks{{ID: "w1", URL: "https://x.example/" + hostile}})
	list[0].Answer = hostile
	at := time.Date(2026, time.November, 18, 15, 2, 11, 0, time.UTC)
	ends := endings{More: true, Data: []ending{
		{Kind: domain.ExpiryReceiverCertificate, ExpiresAt: at.Add(5 * 24 * time.Hour), WebhookID: "w1", URL: "https://x.example/" + hostile, Advice: hostile},
		{Kind: domain.ExpiryClientCertificate, ExpiresAt: at.Add(-25 * time.Hour), WebhookID: hostile},
		{Kind: domain.ExpiryWebhookSecret, ExpiresAt: at.Add(time.Minute), WebhookID: "w1"},
		{Kind: domain.ExpirySigningKey, ExpiresAt: at.Add(time.Hour), SigningKeyID: "k1"},
		{Kind: domain.ExpiryAPIKey, ExpiresAt: at, BucketName: hostile, ConsumerName: hostile, KeyID: "key_1"},
	}}
	for i := range ends.Data {
		ends.Data[i].reckon(at)
	}
	away := &console.Problem{Status: http.StatusServiceUnavailable, Title: "Unavailable"}
	return map[string][]any{"problems.html": {view{Checked: at}, view{Checked: at, NoEnds: away}, view{Checked: at, Endings: ends}, view{Endings: ends, Groups: list, Checked: at, Cut: true, More: 3, MayRetry: true}}}
}
