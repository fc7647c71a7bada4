package metering

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/consumers"
	"waybill.dev/services/api/internal/families/metering"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

// line is a feature of a consumer.
type line struct {
	metering.Entitlement

	Key string
}

// Metered reports whether there are numbers.
func (l line) Metered() bool { return l.Usage != nil }

// Used returns the usage in the current period.
func (l line) Used() int64 { return web.Value(l.Usage) }

// Over returns the usage above the limit.
func (l line) Over() int64 { return web.Value(l.Overage) }

// Limit returns how much the period allows.
func (l line) Limit() int64 { return l.Used() + web.Value(l.Balance) - l.Over() }

// Max, Low and High return the values of the bar: from Low on it warns, above High nothing is left.
func (l line) Max() int64  { return max(l.Limit(), 1) }
func (l line) Low() int64  { return l.Limit() * 8 / 10 }
func (l line) High() int64 { return max(l.Limit()-1, 0) }

// share returns the used part of the limit.
func (l line) share() float64 { return float64(l.Used()) / float64(l.Max()) }

// lines returns the features by their keys.
func lines(of map[string]metering.Entitlement) []line {
	var found []line
	for _, key := range slices.Sorted(maps.Keys(of)) {
		found = append(found, line{of[key], key})
	}
	return found
}

// member is a consumer of the list.
type member struct {
	Name    string
	Plan    *metering.Subscription
	Fullest *line // the metered feature with the highest usage
	Others  int   // further metered features
}

// share returns the used part of its fullest quota.
func (m *member) share() float64 {
	if m.Fullest == nil {
		return -1
	}
	return m.Fullest.share()
}

type membersView struct {
	Place   place
	Tabs    []console.Tab
	Members []member
	Total   int
	Paging  console.Paging
}

// maxMembers is how many consumers a page has: the API is called for each.
const maxMembers = 50

func showConsumers(p *console.Page) error {
	l := at(p)
	var answer web.Listing[consumers.Consumer]
	if err := p.API.Get(l.api(p, "consumers"), part(p, maxMembers), &answer); err != nil {
		return err
	}
	p.CLI("consumers list " + console.Shell(l.Bucket))
	v := membersView{Place: l, Tabs: l.tabs(l.Path("consumers")), Total: answer.Total, Paging: p.Offsets(answer.Offset, len(answer.Data), answer.Total)}
	for _, c := range answer.Data {
		v.Members = append(v.Members, memberOf(p, l, c.Name))
	}
	slices.SortStableFunc(v.Members, func(a, b member) int { return cmp.Compare(b.share(), a.share()) })
	return p.Show("consumers.html", "Use of "+l.Bucket, v)
}

// memberOf returns the overview of a consumer.
func memberOf(p *console.Page, l place, name string) member {
	m := member{Name: name}
	var of metering.Subscription
	if p.API.Try(l.api(p, "consumers", name, "subscription"), nil, &of) != nil {
		return m
	}
	m.Plan = &of
	var answer metering.Access
	_ = p.API.Try(l.api(p, "consumers", name, "access"), nil, &answer)
	for _, one := range lines(answer.Entitlements) {
		switch {
		case !one.Metered():
		case m.Fullest == nil:
			m.Fullest = &one
		default:
			m.Others++
			if one.share() > m.Fullest.share() {
				m.Fullest = &one
			}
		}
	}
	return m
}

type memberView struct {
	Place    place
	Name     string
	Plan     *metering.Subscription // nil: the consumer has none
	Features []line
	Plans    []console.Option
	NoPlans  *console.Problem // the reason why there are no plans to choose
	Form     *console.Form
	Consumer string // path of the consumer's page; empty: not available
	Command  string // that gives a plan
	May      bool
}

// Path returns the path of the consumer's page, or of a page below it.
func (v memberView) Path(more ...string) string {
	return v.Place.Path(append([]string{"consumers", v.Name}, more...)...)
}

func showConsumer(p *console.Page) error { return consumer(p, nil) }

func consumer(p *console.Page, form *console.Form) error {
	l, name := at(p), p.Param("consumerName")
	v := memberView{Place: l, Name: name, Form: form, May: may(p)}
	var answer metering.Access
	if err := p.API.Get(l.api(p, "consumers", name, "access"), nil, &answer); err != nil {
		return err
	}
	words := console.Shell(l.Bucket) + " " + console.Shell(name)
	p.CLI("subscriptions access " + words)
	v.Command = "waybill subscriptions set " + words + " PLAN"
	v.Features = lines(answer.Entitlements)
	var of metering.Subscription
	if p.API.Try(l.api(p, "consumers", name, "subscription"), nil, &of) == nil {
		v.Plan = &of
	}
	if v.May {
		v.Plans, v.NoPlans = choices(p, l)
	}
	if p.Has(consumerPath) {
		v.Consumer = console.Path("console", "access", "buckets", l.Bucket, "consumers", name)
	}
	if form != nil {
		return p.ShowInvalid("consumer.html", "Plan of "+name, v, form)
	}
	v.Form = console.NewForm(url.Values{"planKey": {of.PlanKey}})
	return p.Show("consumer.html", "Plan of "+name, v)
}

// choices returns the plans that consumers can have.
func choices(p *console.Page, l place) ([]console.Option, *console.Problem) {
	var answer web.Listing[plan]
	none := p.API.Try(l.api(p, "plans"), url.Values{"status": {string(domain.PlanActive)}, "limit": {"200"}}, &answer)
	var options []console.Option
	for _, n := range answer.Data {
		one := console.Option{Value: n.Key, Label: console.Visible(n.Name) + " (" + n.Key + ")"}
		if !slices.ContainsFunc(options, func(o console.Option) bool { return o.Value == one.Value }) {
			options = append(options, one)
		}
	}
	return options, none
}

func setPlan(p *console.Page) error {
	values, err := p.Form()
	if err != nil {
		return err
	}
	l, name, form := at(p), p.Param("consumerName"), console.NewForm(values)
	if err := p.API.Send(http.MethodPut, l.api(p, "consumers", name, "subscription"), map[string]string{"planKey": values.Get("planKey")}, nil); form.Failed(err) {
		return console.Again(consumer(p, form), err)
	} else if err != nil {
		return err
	}
	return p.Done("The consumer has the plan. It holds within a second.", l.Path("consumers", name))
}

func confirmEnd(p *console.Page) error {
	l, name := at(p), p.Param("consumerName")
	var of metering.Subscription
	if err := p.API.Get(l.api(p, "consumers", name, "subscription"), nil, &of); err != nil {
		return err
	}
	p.CLI("subscriptions delete " + console.Shell(l.Bucket) + " " + console.Shell(name))
	return p.ShowConfirm(console.Confirm{
		Title: "Take the plan of " + name + " away?", Effect: "Metered routes refuse the consumer from now on. Its webhooks go on, and no quota holds for them.",
		Facts: []console.Fact{{Name: "Plan", Value: of.PlanKey}}, Verb: "Take the plan away", Danger: true,
		Action: l.Path("consumers", name, "delete"), Back: l.Path("consumers", name),
	})
}

func endPlan(p *console.Page) error {
	l, name := at(p), p.Param("consumerName")
	if err := p.API.Send(http.MethodDelete, l.api(p, "consumers", name, "subscription"), nil, nil); err != nil {
		return err
	}
	return p.Done("The consumer has no plan.", l.Path("consumers", name))
}
