// Package rejected has the console's pages of messages on the bus that were not valid events: their
// faults, and a form to publish them corrected.
package rejected

import (
	"embed"
	"net/http"
	"net/url"
	"strconv"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/families/rejected"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

//go:embed templates/*.html
var files embed.FS

const root = "/console/rejected"

// Module returns the pages.
func Module() console.Module {
	return console.Module{
		Name: "rejected", Templates: files,
		Routes: []console.Route{
			{Method: http.MethodGet, Path: root, Handle: list},
			{Method: http.MethodGet, Path: root + "/message", Handle: show},
			{Method: http.MethodPost, Path: root + "/message", Handle: publish},
		},
		Nav: []console.NavEntry{{Label: "Rejected", Path: root, Icon: "rejected", Order: order, Key: "x", Scopes: []domain.Scope{domain.ScopeEventsRead}}},
	}
}

// order puts the page behind the catalogue.
const order = console.OrderCatalogue + 5

type page = web.CursorPage[rejected.Message]

const (
	perPage = 25
	// shortBody is how much of a body the list shows.
	shortBody = 240
)

type row struct {
	rejected.Message

	Short string
	Path  string
}

type listView struct {
	Rows   []row
	Paging console.Paging
	Later  bool // not the first page
}

func list(p *console.Page) error {
	var found page
	query := p.Pick("cursor")
	query.Set("limit", strconv.Itoa(perPage))
	if err := p.API.Get("/v1/rejected", query, &found); err != nil {
		return err
	}
	v := listView{Paging: p.Paging(found.NextCursor), Later: p.Query("cursor") != ""}
	for _, m := range found.Data {
		at := url.Values{"time": {web.Value(m.Time)}}
		if cursor := p.Query("cursor"); cursor != "" {
			at.Set("cursor", cursor)
		}
		v.Rows = append(v.Rows, row{m, domain.CutText(m.Body, shortBody), root + "/message?" + at.Encode()})
	}
	return p.Show("list.html", "Rejected messages", v)
}

type messageView struct {
	Message *rejected.Message // nil: the message has been deleted
	Form    *console.Form
	MaySend bool
	Action  string
}

// maxPages bounds the search for a message that newer messages have moved to a later page since the
// list was read.
const maxPages = 8

// find returns the message that the address identifies by its time. It starts at a page of the list.
// Messages have no id.
func find(p *console.Page) (*rejected.Message, error) {
	query := p.Pick("cursor")
	query.Set("limit", strconv.Itoa(perPage))
	for range maxPages {
		var found page
		if err := p.API.Get("/v1/rejected", query, &found); err != nil {
			return nil, err
		}
		for i := range found.Data {
			if web.Value(found.Data[i].Time) == p.Query("time") {
				return &found.Data[i], nil
			}
		}
		if found.NextCursor == nil {
			break
		}
		query.Set("cursor", *found.NextCursor)
	}
	return nil, nil //nolint:nilnil // it is not there, which is no fault
}

func show(p *console.Page) error {
	v, err := newMessage(p)
	if err != nil {
		return err
	}
	v.Form = console.NewForm(url.Values{})
	if m := v.Message; m != nil && m.BodyEncoding == "text" {
		v.Form.Values.Set("event", console.Editable(m.Body))
	}
	return p.Show("message.html", "A rejected message", v)
}

func newMessage(p *console.Page) (*messageView, error) {
	m, err := find(p)
	return &messageView{Message: m, MaySend: p.May(domain.ScopeEventsWrite), Action: p.Request.URL.RequestURI()}, err
}

func publish(p *console.Page) error {
	given, err := p.Form()
	if err != nil {
		return err
	}
	form := console.NewForm(given)
	var accepted deliverylog.Accepted
	text, ok := form.JSON("event")
	if ok {
		err = p.API.Send(http.MethodPost, "/v1/events", text, &accepted)
	}
	if !ok || form.Failed(err) {
		v, err := newMessage(p)
		if err != nil {
			return err
		}
		v.Form = form
		return p.ShowInvalid("message.html", "A rejected message", v, form)
	} else if err != nil {
		return err
	}
	if len(accepted.Events) == 1 && p.Has("/console/events/{eventId}") {
		return p.Done("The event is accepted.", console.Path("console", "events", accepted.Events[0].ID))
	}
	return p.Done("The event is accepted.", root)
}
