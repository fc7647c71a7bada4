// Package catalogue has the console's pages of event types: the data of each, how many events there
// are, and which webhooks get them.
package catalogue

import (
	"embed"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/families/insight"
	"waybill.dev/services/api/internal/families/sample"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/problem"
)

//go:embed templates/*.html
var files embed.FS

const root = "/console/catalogue"

// Module returns the pages.
func Module() console.Module {
	return console.Module{
		Name: "catalogue", Templates: files,
		Routes: []console.Route{
			{Method: http.MethodGet, Path: root, Handle: list},
			{Method: http.MethodGet, Path: root + "/{eventType}", Handle: show},
			{Method: http.MethodPost, Path: root + "/{eventType}/publish", Handle: publish},
		},
		Nav: []console.NavEntry{{Label: "Catalogue", Path: root, Icon: "catalogue", Order: console.OrderCatalogue, Key: "c"}},
	}
}

// volume is the number of events of a type in the last 24 hours.
type volume struct {
	Events, Attempts, Failed int64
	Line                     console.Line
}

// volumes asks for the volumes of all types.
func volumes(p *console.Page) (map[string]*volume, *console.Problem) {
	var answer insight.Statistics
	if none := p.API.Try("/v1/statistics", url.Values{"step": {"hour"}, "by": {"type"}}, &answer); none != nil {
		return nil, none
	}
	found := map[string]*volume{}
	for _, t := range domain.EventTypes() {
		found[string(t)] = &volume{Line: console.Line{Label: "Events an hour, the last 24 hours", Values: make([]float64, deliverylog.Hours)}}
	}
	for i := range answer.Data {
		s := &answer.Data[i]
		v := found[string(s.Type)]
		if v == nil {
			continue
		}
		events := web.Value(s.Events)
		v.Events += events
		v.Attempts += s.Attempts
		v.Failed += s.Failed
		if hour, ok := deliverylog.Hour(s, p.Now()); ok {
			v.Line.Values[hour] += float64(events)
		}
	}
	return found, nil
}

// registered are the webhooks that have a type.
type registered struct {
	Webhooks deliverylog.Webhooks
	More     bool // the account has more webhooks than were read
}

func registrations(p *console.Page) (map[string]*registered, *console.Problem) {
	webhooks, none := deliverylog.ReadWebhooks(p)
	if none != nil {
		return nil, none
	}
	found := map[string]*registered{}
	for _, t := range domain.EventTypes() {
		found[string(t)] = &registered{More: len(webhooks) >= deliverylog.MaxWebhooks}
	}
	for _, w := range webhooks {
		for _, t := range w.Events {
			if r := found[string(t)]; r != nil {
				r.Webhooks = append(r.Webhooks, w)
			}
		}
	}
	return found, nil
}

type line struct {
	Name, Description string
	Volume            *volume
	Registered        *registered
}

type listView struct {
	Lines      []line
	NoVolume   *console.Problem
	NoWebhooks *console.Problem
}

func list(p *console.Page) error {
	d, err := readDocument(p)
	if err != nil {
		return err
	}
	var v listView
	var volumeOf map[string]*volume
	var webhooksOf map[string]*registered
	volumeOf, v.NoVolume = volumes(p)
	webhooksOf, v.NoWebhooks = registrations(p)
	for _, t := range domain.EventTypes() {
		name := string(t)
		data, _ := d.dataSchema(name)
		v.Lines = append(v.Lines, line{name, data.Description, volumeOf[name], webhooksOf[name]})
	}
	return p.Show("list.html", "Catalogue", v)
}

type typeView struct {
	line

	Fields     []field
	Schema     string
	Sample     string
	Code       []code
	Form       *console.Form
	MaySend    bool
	NoVolume   *console.Problem
	NoWebhooks *console.Problem
	Links      bool // the pages of webhooks are available
}

func show(p *console.Page) error {
	v, err := newType(p)
	if err != nil {
		return err
	}
	v.Form = console.NewForm(url.Values{"event": {v.Sample}})
	return p.Show("type.html", v.Name, v)
}

func newType(p *console.Page) (*typeView, error) {
	name := p.Param("eventType")
	kind := domain.EventType(name)
	if !kind.Valid() {
		return nil, problem.New(problem.NotFound, "There is no such type of events.")
	}
	d, err := readDocument(p)
	if err != nil {
		return nil, err
	}
	p.CLI("trigger " + name)
	data, resolved := d.dataSchema(name)
	v := &typeView{line: line{Name: name, Description: data.Description}, MaySend: p.May(domain.ScopeEventsWrite), Links: p.Has("/console/webhooks/{webhookId}")}
	v.Fields, v.Code = data.fields(), codes(name, &data)
	v.Schema = resolved
	if v.Sample, err = sampleOf(kind, p.Now()); err != nil {
		return nil, err
	}
	var volumeOf map[string]*volume
	var webhooksOf map[string]*registered
	volumeOf, v.NoVolume = volumes(p)
	webhooksOf, v.NoWebhooks = registrations(p)
	v.Volume, v.Registered = volumeOf[name], webhooksOf[name]
	return v, nil
}

// sampleOf returns a complete sample event as it is published.
func sampleOf(kind domain.EventType, now time.Time) (string, error) {
	text, err := json.Marshal(struct {
		Type      domain.EventType `json:"type"`
		Timestamp string           `json:"timestamp"`
		Data      jsontext.Value   `json:"data"`
	}{kind, now.UTC().Format("2006-01-02T15:04:05.000Z07:00"), sample.Data(kind, now)}, jsontext.WithIndent("  "))
	if err != nil {
		return "", fmt.Errorf("write sample: %w", err)
	}
	return string(text), nil
}

// publish publishes the event in the form, which began as a sample.
func publish(p *console.Page) error {
	given, err := p.Form()
	if err != nil {
		return err
	}
	form := console.NewForm(given)
	text, ok := form.JSON("event")
	if ok {
		err = p.API.Send(http.MethodPost, "/v1/events", text, nil)
	}
	if !ok || form.Failed(err) {
		v, err := newType(p)
		if err != nil {
			return err
		}
		v.Form = form
		return p.ShowInvalid("type.html", v.Name, v, form)
	} else if err != nil {
		return err
	}
	return p.Done("The event is accepted.", console.Path("console", "catalogue", p.Param("eventType")))
}

// typeOf returns the types of values that a schema allows.
func typeOf(raw jsontext.Value) []string {
	var single string
	if json.Unmarshal(raw, &single) == nil {
		return []string{single}
	}
	var several []string
	_ = json.Unmarshal(raw, &several) // no type means any
	return several
}
