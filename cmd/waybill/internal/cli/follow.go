package cli

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/units"
)

const (
	// followed is how long an event is followed, and lookEvery how
	// often its deliveries are read.
	followed  = 15 * time.Second
	lookEvery = 300 * time.Millisecond
)

// follower prints on stderr what happens to a published event. It leaves out what the key may not
// read: the event is accepted nevertheless.
type follower struct {
	*app

	client *client.Client
	kind   domain.EventType
	hosts  map[string]string // hosts of the webhooks that get the event, by id
}

// match prints how many webhooks get the event; false: none, or the number is not known.
func (f *follower) match(ctx context.Context) bool {
	list, err := f.client.Webhooks(ctx)
	if err != nil {
		return false
	}
	f.hosts = make(map[string]string)
	off := 0
	for _, w := range list {
		if !slices.Contains(w.Events, f.kind) {
			continue
		}
		if w.Active != nil && !*w.Active {
			off++
			continue
		}
		f.hosts[w.ID] = w.URL
		if u, err := url.Parse(w.URL); err == nil {
			f.hosts[w.ID] = u.Host
		}
	}
	inactive := ""
	if off > 0 {
		inactive = fmt.Sprintf("; held for %s", many(off, "inactive one"))
	}
	if len(f.hosts) == 0 && off == 0 {
		f.note("No webhook is registered for %s. Register one: %s webhooks create URL", f.kind, f.binary)
		return false
	}
	verb := "get"
	if len(f.hosts) == 1 {
		verb = "gets"
	}
	f.note("%s %s %s%s.", many(len(f.hosts), "webhook"), verb, f.kind, inactive)
	return len(f.hosts) > 0
}

func many(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

// follow prints the first outcome of each delivery of the event, until all have one.
func (f *follower) follow(ctx context.Context, event string) {
	ctx, cancel := context.WithTimeout(ctx, followed)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	told := make(map[string]bool)
	for len(told) < len(f.hosts) {
		select {
		case <-ctx.Done():
			f.note("Not answered yet: %s. See: %s deliveries list --event %s", many(len(f.hosts)-len(told), "webhook"), f.binary, event)
			return
		case <-tick.C:
		}
		list, _, err := f.client.Deliveries(ctx, url.Values{"eventId": {event}, "limit": {"1000"}})
		if err != nil {
			return // the key may not read deliveries, or the installation does not answer
		}
		for _, d := range list {
			if f.hosts[d.WebhookID] == "" || told[d.WebhookID] || d.Status == domain.StatusPending {
				continue
			}
			told[d.WebhookID] = true
			f.tell(ctx, d)
		}
	}
}

// tell prints the state of a delivery after its attempts.
func (f *follower) tell(ctx context.Context, d client.Delivery) {
	style := terminal.StyleFor(f.stderr)
	if whole, err := f.client.Delivery(ctx, d.ID); err == nil {
		d = whole
	}
	answer := ""
	if n := len(d.Attempts); n > 0 {
		last := d.Attempts[n-1]
		if answer = last.Error; last.Status > 0 {
			answer = fmt.Sprintf("answered %d in %s", last.Status, units.Duration(time.Duration(last.DurationMS)*time.Millisecond))
		}
		answer = ": " + terminal.Clean(answer)
	}
	mark, more := style.Good("✓"), ""
	if d.Status != domain.StatusDelivered {
		mark = style.Bad("✗")
		more = fmt.Sprintf("\n  Why: %s deliveries explain %s", f.binary, d.ID)
	}
	if !d.NextAttemptAt.IsZero() {
		more = "; the next attempt is " + units.Since(d.NextAttemptAt, time.Now()) + more
	}
	f.note("%s %s  %s%s%s", mark, terminal.Clean(f.hosts[d.WebhookID]), d.Status, answer, more)
}
