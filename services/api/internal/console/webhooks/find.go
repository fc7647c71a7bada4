package webhooks

import (
	"cmp"
	"net/url"
	"strconv"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/shared/domain"
)

// find returns the webhooks, and the actions on each.
func find(p *console.Page) []console.Hit {
	var hits []console.Hit
	mayWrite, maySend := p.May(domain.ScopeWebhooksWrite), p.May(domain.ScopeEventsWrite)
	if mayWrite {
		hits = append(hits, console.Hit{Label: "New webhook", Path: root + "/new", Icon: "plus", Act: true})
	}
	var found []webhook
	if p.API.Try("/v1/webhooks", url.Values{"limit": {strconv.Itoa(mostSearched)}}, &found) != nil {
		return hits
	}
	for i := range found {
		w := &found[i]
		name, more := cmp.Or(w.Description, w.bare()), string(w.ID)
		if w.Description != "" {
			more = w.bare() + " · " + more
		}
		hits = append(hits, console.Hit{Label: name, More: more, Path: at(w.ID), Icon: "webhooks"})
		act := func(verb, icon string, to ...string) {
			hits = append(hits, console.Hit{Label: verb + " " + name, More: more, Path: at(string(w.ID), to...), Icon: icon, Act: true})
		}
		if maySend && w.Delivery != domain.DeliveryPull {
			act("Test", "play", "test")
			act("Send again to", "jobs", "replay")
		}
		if mayWrite {
			act("Rotate the secret of", "lock", "secret")
			act("Change the settings of", "settings", "settings")
			if w.Active {
				act("Pause", "pause", "pause")
			}
			act("Delete", "cross", "delete")
		}
	}
	return hits
}
