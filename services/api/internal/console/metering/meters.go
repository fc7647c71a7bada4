package metering

import (
	"net/http"
	"net/url"
	"strconv"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/metering"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

type metersView struct {
	Place      place
	Tabs       []console.Tab
	Meters     []metering.Meter
	Features   []metering.Feature
	More       int              // features that are not shown
	NoFeatures *console.Problem // the reason why features are missing
	Form       *console.Form    // form for a new meter
	New        *console.Form    // form for a new feature
	Sums       []console.Option // the aggregations of a meter
	Slugs      []console.Option
	May        bool
}

func showMeters(p *console.Page) error { return meters(p, nil, nil) }

// meters shows meters and features, with the form of a new one of each.
func meters(p *console.Page, form, added *console.Form) error {
	l := at(p)
	v := metersView{Place: l, Tabs: l.tabs(l.Path()), Form: form, New: added, May: may(p), Sums: []console.Option{{Value: "COUNT", Label: "COUNT: how many"}, {Value: "SUM", Label: "SUM: their totals"}}}
	var answer web.Listing[metering.Meter]
	if err := p.API.Get(l.api(p, "meters"), url.Values{"limit": {strconv.Itoa(domain.MaxMeters)}}, &answer); err != nil {
		return err
	}
	p.CLI("meters list " + console.Shell(l.Bucket))
	v.Meters, v.Slugs = answer.Data, []console.Option{{Value: "", Label: "none: it is not metered"}}
	for _, m := range v.Meters {
		v.Slugs = append(v.Slugs, console.Option{Value: m.Slug, Label: m.Slug})
	}
	var features web.Listing[metering.Feature]
	v.NoFeatures = p.API.Try(l.api(p, "features"), url.Values{"limit": {strconv.Itoa(maxFeatures)}}, &features)
	v.Features, v.More = features.Data, features.Total-len(features.Data)
	failed := form
	if added != nil {
		failed = added
	}
	if v.Form == nil {
		v.Form = console.NewForm(url.Values{"aggregation": {"SUM"}})
	}
	if v.New == nil {
		v.New = console.NewForm(url.Values{})
	}
	if failed != nil {
		return p.ShowInvalid("meters.html", "Meters of "+l.Bucket, v, failed)
	}
	return p.Show("meters.html", "Meters of "+l.Bucket, v)
}

// maxFeatures is how many features a page has.
const maxFeatures = 200

func createMeter(p *console.Page) error {
	values, err := p.Form()
	if err != nil {
		return err
	}
	l, form := at(p), console.NewForm(values)
	body := map[string]any{"slug": values.Get("slug"), "aggregation": values.Get("aggregation"), "eventType": values.Get("eventType")}
	if values.Get("aggregation") == "SUM" {
		body["valueProperty"] = domain.MeterTotal
	}
	if values.Get("groups") == "true" {
		body["groupBy"] = map[string]string{"deployment": "$.deployment", "route": "$.route", "method": "$.method", "status": "$.status"}
	}
	if err := p.API.Send(http.MethodPost, l.api(p, "meters"), body, nil); form.Failed(err) {
		return console.Again(meters(p, form, nil), err)
	} else if err != nil {
		return err
	}
	return p.Done("The meter is there. It counts from now on.", l.Path())
}

func createFeature(p *console.Page) error {
	values, err := p.Form()
	if err != nil {
		return err
	}
	l, form := at(p), console.NewForm(values)
	body := map[string]any{"key": values.Get("key"), "name": values.Get("name")}
	if slug := values.Get("meterSlug"); slug != "" {
		body["meterSlug"] = slug
	}
	if err := p.API.Send(http.MethodPost, l.api(p, "features"), body, nil); form.Failed(err) {
		return console.Again(meters(p, nil, form), err)
	} else if err != nil {
		return err
	}
	return p.Done("The feature is there. Plans may include it.", l.Path())
}

type meterView struct {
	Place place
	Meter metering.Meter
	Used  []metering.Value
	Total int64
	None  *console.Problem // the reason why there are no numbers
	May   bool
}

func findMeter(p *console.Page) (m metering.Meter, err error) {
	err = p.API.Get(at(p).api(p, "meters", p.Param("meterIdOrSlug")), nil, &m)
	return m, err
}

// showMeter shows the usage of consumers on a meter in the time that is kept.
func showMeter(p *console.Page) error {
	m, err := findMeter(p)
	if err != nil {
		return err
	}
	l := at(p)
	p.CLI("meters query " + console.Shell(l.Bucket) + " " + console.Shell(m.Slug) + " --group subject")
	var answer metering.Query
	v := meterView{Place: l, Meter: m, May: may(p)}
	v.None = p.API.Try(l.api(p, "meters", m.Slug, "query"), url.Values{"groupBy": {"subject"}}, &answer)
	v.Used = answer.Data
	for _, u := range v.Used {
		v.Total += u.Value
	}
	return p.Show("meter.html", "Meter "+m.Slug, v)
}

func confirmMeter(p *console.Page) error {
	m, err := findMeter(p)
	if err != nil {
		return err
	}
	l := at(p)
	p.CLI("meters delete " + console.Shell(l.Bucket) + " " + console.Shell(m.Slug))
	return p.ShowConfirm(console.Confirm{
		Title: "Delete meter " + m.Slug + "?", Effect: "It counts nothing from now on. Routes whose policy names it refuse consumers.",
		Facts: []console.Fact{{Name: "Event type", Value: m.EventType}}, Verb: "Delete the meter", Danger: true,
		Action: l.Path("meters", m.Slug, "delete"), Back: l.Path("meters", m.Slug),
	})
}

func deleteMeter(p *console.Page) error {
	l := at(p)
	if err := p.API.Send(http.MethodDelete, l.api(p, "meters", p.Param("meterIdOrSlug")), nil, nil); err != nil {
		return err
	}
	return p.Done("The meter is deleted.", l.Path())
}

func confirmFeature(p *console.Page) error {
	l := at(p)
	var f metering.Feature
	if err := p.API.Get(l.api(p, "features", p.Param("featureId")), nil, &f); err != nil {
		return err
	}
	p.CLI("features delete " + console.Shell(l.Bucket) + " " + console.Shell(f.ID))
	return p.ShowConfirm(console.Confirm{
		Title: "Archive feature " + f.Key + "?", Effect: "New plans can't include it. Plans that have it keep it.",
		Facts: []console.Fact{{Name: "Name", Value: f.Name}}, Verb: "Archive the feature", Danger: true,
		Action: l.Path("features", f.ID, "archive"), Back: l.Path(),
	})
}

func archiveFeature(p *console.Page) error {
	l := at(p)
	if err := p.API.Send(http.MethodDelete, l.api(p, "features", p.Param("featureId")), nil, nil); err != nil {
		return err
	}
	return p.Done("The feature is archived.", l.Path())
}
