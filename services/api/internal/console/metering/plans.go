package metering

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/metering"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

// plan is a version of a plan as the API shows it.
type plan struct{ metering.Plan }

// Title returns the key and the version of the plan.
func (n plan) Title() string { return n.Key + " " + strconv.Itoa(n.Version) }

// Draft and Active decide which actions are possible.
func (n plan) Draft() bool  { return n.Status == domain.PlanDraft }
func (n plan) Active() bool { return n.Status == domain.PlanActive }

type plansView struct {
	Place   place
	Tabs    []console.Tab
	Plans   []plan
	Paging  console.Paging
	Form    *console.Form
	Command string // the command that makes a plan
	May     bool
}

// example is a plan to begin with.
const example = `{
  "key": "basic",
  "name": "Basic",
  "currency": "USD",
  "billingCadence": "P1M",
  "phases": [
    {
      "key": "only",
      "name": "Only",
      "rateCards": [
        {
          "type": "flat_fee",
          "key": "api_requests",
          "name": "Requests",
          "featureKey": "api_requests",
          "entitlementTemplate": { "type": "metered", "issueAfterReset": 1000 }
        }
      ]
    }
  ]
}`

func showPlans(p *console.Page) error { return plans(p, nil) }

func plans(p *console.Page, form *console.Form) error {
	l := at(p)
	var answer web.Listing[plan]
	if err := p.API.Get(l.api(p, "plans"), part(p, maxShown), &answer); err != nil {
		return err
	}
	p.CLI("plans list " + console.Shell(l.Bucket))
	v := plansView{l, l.tabs(l.Path("plans")), answer.Data, p.Offsets(answer.Offset, len(answer.Data), answer.Total), form, "waybill plans create " + console.Shell(l.Bucket) + " plan.json", may(p)}
	if form != nil {
		return p.ShowInvalid("plans.html", "Plans of "+l.Bucket, v, form)
	}
	v.Form = console.NewForm(url.Values{"document": {example}})
	return p.Show("plans.html", "Plans of "+l.Bucket, v)
}

func createPlan(p *console.Page) error {
	values, err := p.Form()
	if err != nil {
		return err
	}
	l, form := at(p), console.NewForm(values)
	text, ok := form.JSON("document")
	if !ok {
		return plans(p, form)
	}
	var made plan
	if err := p.API.Send(http.MethodPost, l.api(p, "plans"), text, &made); form.Failed(err) {
		return console.Again(plans(p, form), err)
	} else if err != nil {
		return err
	}
	return p.Done("The plan is a draft. Publish it, then consumers can have it.", l.Path("plans", made.ID))
}

type planView struct {
	Place  place
	Plan   plan
	Phases []domain.Phase
	Form   *console.Form
	May    bool
}

// Path returns the path of the plan's page, or of a page below it.
func (v planView) Path(more ...string) string {
	return v.Place.Path(append([]string{"plans", v.Plan.ID}, more...)...)
}

// findPlan returns the plan that the page's path names, and the document of a draft.
func findPlan(p *console.Page) (v planView, document string, err error) {
	v = planView{Place: at(p), May: may(p)}
	var raw json.RawMessage
	if err := p.API.Get(v.Place.api(p, "plans", p.Param("planId")), nil, &raw); err != nil {
		return v, "", err
	}
	var changeable struct {
		Name        json.RawMessage `json:"name"`
		Description json.RawMessage `json:"description,omitempty"`
		Metadata    json.RawMessage `json:"metadata,omitempty"`
		Currency    json.RawMessage `json:"currency"`
		Cadence     json.RawMessage `json:"billingCadence"`
		Alignment   json.RawMessage `json:"alignment,omitempty"`
		ProRating   json.RawMessage `json:"proRatingConfig,omitempty"`
		Phases      json.RawMessage `json:"phases"`
	}
	err = errors.Join(json.Unmarshal(raw, &v.Plan), json.Unmarshal(raw, &changeable))
	if err == nil {
		err = json.Unmarshal(changeable.Phases, &v.Phases)
	}
	if err != nil {
		return v, "", err
	}
	text, err := json.MarshalIndent(changeable, "", "  ")
	return v, string(text), err
}

func showPlan(p *console.Page) error { return onePlan(p, nil) }

func onePlan(p *console.Page, form *console.Form) error {
	v, text, err := findPlan(p)
	if err != nil {
		return err
	}
	p.CLI("plans get " + console.Shell(v.Place.Bucket) + " " + v.Plan.ID)
	if v.Form = form; form != nil {
		return p.ShowInvalid("plan.html", "Plan "+v.Plan.Title(), v, form)
	}
	v.Form = console.NewForm(url.Values{"document": {text}})
	return p.Show("plan.html", "Plan "+v.Plan.Title(), v)
}

func updatePlan(p *console.Page) error {
	values, err := p.Form()
	if err != nil {
		return err
	}
	l, id, form := at(p), p.Param("planId"), console.NewForm(values)
	text, ok := form.JSON("document")
	if !ok {
		return onePlan(p, form)
	}
	if err := p.API.Send(http.MethodPut, l.api(p, "plans", id), text, nil); form.Failed(err) {
		return console.Again(onePlan(p, form), err)
	} else if err != nil {
		return err
	}
	return p.Done("The draft is saved.", l.Path("plans", id))
}

// ask asks before a step of a plan.
func ask(p *console.Page, step, title, effect, verb string, danger bool) error {
	v, _, err := findPlan(p)
	if err != nil {
		return err
	}
	p.CLI("plans " + step + " " + console.Shell(v.Place.Bucket) + " " + v.Plan.ID)
	return p.ShowConfirm(console.Confirm{
		Title: title + " " + v.Plan.Title() + "?", Effect: effect, Facts: []console.Fact{{Name: "Name", Value: v.Plan.Name}, {Name: "Status", Value: string(v.Plan.Status)}},
		Verb: verb, Danger: danger, Action: v.Path(step), Back: v.Path(),
	})
}

func confirmPublishing(p *console.Page) error {
	return ask(p, "publish", "Publish", "Consumers can have it from now on, and it can't be changed any more. Those who have another version keep theirs.", "Publish the plan", false)
}

func confirmArchiving(p *console.Page) error {
	return ask(p, "archive", "Archive", "No consumer can get it any more. Those who have it keep it.", "Archive the plan", true)
}

func confirmDeletion(p *console.Page) error {
	return ask(p, "delete", "Delete", "The draft is gone.", "Delete the draft", true)
}

// send does a step of a plan.
func send(p *console.Page, method, said, next string, more ...string) error {
	path := append([]string{"plans", p.Param("planId")}, more...)
	if err := p.API.Send(method, at(p).api(p, path...), nil, nil); err != nil {
		return err
	}
	return p.Done(said, next)
}

func publishPlan(p *console.Page) error {
	return send(p, http.MethodPost, "The plan is active.", at(p).Path("plans", p.Param("planId")), "publish")
}

func archivePlan(p *console.Page) error {
	return send(p, http.MethodPost, "The plan is archived.", at(p).Path("plans", p.Param("planId")), "archive")
}

func deletePlan(p *console.Page) error {
	return send(p, http.MethodDelete, "The draft is deleted.", at(p).Path("plans"))
}
