package webhooks

import (
	"net/http"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/feed"
)

type feedView struct {
	head

	Cursors   []feed.Cursor
	NoCursors *console.Problem

	Curl, Read, Keep, Reconcile string
}

// showFeed shows how far the feed was read, and how to read it. It shows no events: the page of
// events has the same ones, and reading them here would move no reader's cursor.
func showFeed(p *console.Page) error {
	h, err := read(p, "feed")
	if err != nil {
		return err
	}
	id := string(h.Webhook.ID)
	v := feedView{
		head: h,
		Curl: "curl -H \"Authorization: Bearer $WAYBILL_KEY\" \\\n  " + quoted(p.Base()+console.Path("v1", "webhooks", id, "feed")+"?limit=100&wait=30"),
		Read: "waybill webhooks feed " + id, Keep: "waybill webhooks cursor set " + id + " NAME CURSOR",
		Reconcile: "waybill webhooks reconcile " + id + " --against FILE",
	}
	var answer feed.Cursors
	if v.NoCursors = p.API.Try(console.Path("v1", "webhooks", id, "cursors"), nil, &answer); v.NoCursors == nil {
		v.Cursors = answer.Data
	}
	p.CLI("webhooks cursor list " + id)
	return p.Show("feed.html", h.title("feed"), v)
}

func askDeleteCursor(p *console.Page) error {
	h, err := read(p, "feed")
	if err != nil {
		return err
	}
	id, name := p.Param("webhookId"), p.Param("cursorName")
	var cursor feed.Cursor
	if err := p.API.Get(console.Path("v1", "webhooks", id, "cursors", name), nil, &cursor); err != nil {
		return err
	}
	return p.ShowConfirm(console.Confirm{
		Title:  "Delete this cursor?",
		Effect: "Who reads by it loses its place. The feed itself stays as it is.",
		Facts:  []console.Fact{{Name: "Cursor", Value: cursor.Name}, {Name: "Webhook", Value: h.Name}},
		Verb:   "Delete the cursor", Danger: true, Action: at(id, "cursors", name, "delete"), Back: at(id, "feed"),
	})
}

func deleteCursor(p *console.Page) error {
	id := p.Param("webhookId")
	if err := p.API.Send(http.MethodDelete, console.Path("v1", "webhooks", id, "cursors", p.Param("cursorName")), nil, nil); err != nil {
		return err
	}
	return p.Done("The cursor is deleted.", at(id, "feed"))
}
