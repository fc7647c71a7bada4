package webhooks

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/families/deliveries"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/judge"
)

type testView struct {
	head

	Form      *console.Form
	Types     []console.Option
	Forges    []console.Option
	Tests     []sentTest // that are watched
	None      *console.Problem
	Checks    []judge.Finding // results about the receiver, by its answers
	Recent    []deliveries.Delivery
	NoRecent  *console.Problem
	OneDelive bool
}

// sentTest is a test that was sent.
type sentTest struct {
	deliveries.Detail

	Forge domain.Forgery // empty: signed like an event; known once the attempt has ended
	Waits bool           // the delivery is pending
}

// Good reports whether the receiver treated an attempt as it should.
func (t sentTest) Good(a deliveries.Attempt) bool {
	return (a.Class == domain.ClassOK) == (t.Forge == "")
}

// checks is the choice of one test of each kind, which together show the same as `waybill check`.
const checks = "checks"

func maySend(p *console.Page) bool { return p.May(domain.ScopeEventsWrite) }

func showTest(p *console.Page) error {
	v, err := readTest(p, nil)
	if err != nil {
		return err
	}
	h := v.head
	ids := p.Request.URL.Query()["delivery"]
	for _, id := range ids[:min(len(ids), 1+len(domain.Forgeries()))] {
		var d deliveries.Detail
		if v.None = p.API.Try(console.Path("v1", "deliveries", id), nil, &d); v.None != nil {
			break
		}
		if d.Test && d.WebhookID == h.Webhook.ID {
			t := sentTest{Detail: d, Waits: d.Status == domain.StatusPending || d.Status == domain.StatusRetrying}
			if reason := web.Value(d.Reason); domain.Forged(reason) {
				t.Forge = domain.Forgery(reason)
			}
			v.Tests = append(v.Tests, t)
		}
	}
	v.Checks = judged(h.Webhook, v.Tests)
	return p.Show("test.html", h.title("test"), v)
}

// judged returns what the answers to tests show about a receiver.
func judged(w webhook, tests []sentTest) []judge.Finding {
	var list []judge.Finding
	answers := map[domain.Forgery]judge.Answer{}
	for _, t := range tests {
		if len(t.Attempts) > 0 {
			answers[t.Forge] = answerOf(t.Attempts[len(t.Attempts)-1])
		}
	}
	right, signed := answers[""]
	if signed {
		if strings.HasPrefix(web.Value(w.URL), "http:") {
			list = append(list, judge.NoTLS())
		}
		list = append(list, judge.Signed(right, true, time.Duration(w.TimeoutSeconds)*time.Second)...)
	}
	wrong, ok := answers[domain.ForgeWrongSecret]
	if ok && wrong.Status > 0 {
		list = append(list, judge.WrongSecret(wrong))
	}
	old := answers[domain.ForgeOldTime]
	if old.Status > 0 && (len(answers) == 1 || judge.Telling(right, wrong)) {
		list = append(list, judge.OldTime(old))
	}
	return list
}

func answerOf(a deliveries.Attempt) judge.Answer {
	answer := judge.Answer{Status: a.Status, Error: a.Error, Took: time.Duration(a.DurationMs) * time.Millisecond, FirstByte: time.Duration(a.Phases.FirstByte * float64(time.Millisecond))}
	for _, h := range a.ResponseHeaders {
		if strings.EqualFold(h.Name, "Location") {
			answer.Location = web.Value(h.Value)
		}
	}
	return answer
}

// readTest reads the other data of the page of tests, and adds the typed values.
func readTest(p *console.Page, typed url.Values) (testView, error) {
	h, err := read(p, "test")
	if err != nil {
		return testView{}, err
	}
	v := testView{head: h, Form: console.NewForm(typed), OneDelive: p.Has("/console/deliveries/{deliveryId}")}
	// Any type can be sent; those that the webhook is registered for come first.
	v.Types = typeOptions(h.Webhook.Events)
	if chosen := slices.IndexFunc(v.Types, func(o console.Option) bool { return o.Value == typed.Get("type") }); chosen > 0 {
		v.Types[0], v.Types[chosen] = v.Types[chosen], v.Types[0]
	}
	v.Recent, v.NoRecent = recentTests(p, h.Webhook.ID)
	v.Forges = []console.Option{
		{Value: "", Label: "the webhook's secret"}, {Value: string(domain.ForgeWrongSecret), Label: "a wrong secret"},
		{Value: string(domain.ForgeOldTime), Label: "the webhook's secret, an hour ago"}, {Value: checks, Label: "each of these: three tests, as waybill check"},
	}
	chosen := typed.Get("forge")
	if typed == nil && len(v.Recent) == 0 {
		chosen = checks // the first test checks the receiver
	}
	if i := slices.IndexFunc(v.Forges, func(o console.Option) bool { return o.Value == chosen }); i > 0 {
		v.Forges[0], v.Forges[i] = v.Forges[i], v.Forges[0]
	}
	p.CLI("webhooks test " + string(h.Webhook.ID))
	return v, nil
}

func typeOptions(first []domain.EventType) []console.Option {
	var list, rest []console.Option
	for _, c := range choices(first) {
		if c.On {
			list = append(list, console.Option{Value: string(c.Name), Label: string(c.Name)})
		} else {
			rest = append(rest, console.Option{Value: string(c.Name), Label: string(c.Name) + " (not registered for)"})
		}
	}
	return append(list, rest...)
}

// recentTests returns the latest tests of a webhook.
func recentTests(p *console.Page, id domain.WebhookID) ([]deliveries.Delivery, *console.Problem) {
	var answer deliverylog.Page
	query := url.Values{"webhookId": {string(id)}, "test": {"true"}, "limit": {"5"}}
	if problem := p.API.Try("/v1/deliveries", query, &answer); problem != nil {
		return nil, problem
	}
	return answer.Data, nil
}

func sendTest(p *console.Page) error {
	form, err := p.Form()
	if err != nil {
		return err
	}
	id := p.Param("webhookId")
	body := map[string]any{}
	if t := form.Get("type"); t != "" {
		body["type"] = t
	}
	if data := strings.TrimSpace(form.Get("data")); data != "" {
		body["data"] = given(data)
	}
	forges := []string{form.Get("forge")}
	if forges[0] == checks {
		forges = append([]string{""}, names[domain.Forgery, string](domain.Forgeries())...)
	}
	sent := url.Values{}
	for _, forge := range forges {
		if forge != "" {
			body["forge"] = forge
		}
		var made deliveries.Tested
		if err = p.API.Send(http.MethodPost, console.Path("v1", "webhooks", id, "test"), body, &made); err != nil {
			break
		}
		sent.Add("delivery", string(made.DeliveryID))
	}
	if faulty := console.NewForm(form); body["data"] != nil && faulty.Failed(err) {
		v, err := readTest(p, form)
		if err != nil {
			return err
		}
		v.Form = faulty
		return p.ShowInvalid("test.html", v.title("test"), v, v.Form)
	}
	if err != nil {
		return err
	}
	return p.Redirect(at(id, "test") + "?" + sent.Encode())
}
