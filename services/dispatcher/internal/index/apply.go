package index

import (
	"cmp"
	"log/slog"
	"strings"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/filter"
	"waybill.dev/shared/jsonscan"
)

// apply puts webhooks that were read from the database into the index. If version is not 0, they
// are all webhooks that changed up to that version. If it is 0, they are single webhooks.
func (x *Index) apply(webhooks []domain.Webhook, healths []domain.Health, version int64) {
	changed := make(map[*Hook]struct{})
	lists := &edits{added: make(map[subscription][]*Hook)}
	configs := make([]*Config, len(webhooks)) // made without the lock, because that takes long for 100,000
	for i := range webhooks {
		configs[i] = x.prepare(&webhooks[i])
	}
	faults := 0
	x.mu.Lock()
	for i := range webhooks {
		hook := x.put(configs[i], lists)
		if hook == nil {
			continue
		}
		changed[hook] = struct{}{}
		if fault := webhooks[i].Fault; fault != "" {
			faults++
			x.tellFault(faults, &webhooks[i])
		}
	}
	for _, health := range healths {
		if hook, ok := x.hooks[health.Webhook]; ok && hook.setHealth(health) {
			changed[hook] = struct{}{}
		}
	}
	x.mu.Unlock()
	made := lists.makeLists(x.byEvent) // without the lock: only this goroutine changes byEvent
	x.mu.Lock()
	for key, list := range made {
		x.replace(key, list)
	}
	x.mu.Unlock()
	for hook := range changed {
		for _, handle := range x.changes {
			handle(hook)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if version > x.version || !x.loaded { // a caller that awaits the version finds that all handlers were called
		x.version, x.loaded = max(version, x.version), true
		close(x.advanced)
		x.advanced = make(chan struct{})
	}
}

// replace puts a list in the place of the old one for its key; nil: it removes the old list. x.mu is held.
func (x *Index) replace(key subscription, list *subscribers) {
	if old := x.byEvent[key]; old != nil && old.costly {
		x.costly.Add(-1)
	}
	if list == nil {
		delete(x.byEvent, key)
		return
	}
	x.byEvent[key] = list
	if list.costly {
		x.costly.Add(1)
	}
}

// put adds, replaces or forgets a webhook; x.mu is held. It returns nil if nothing changed.
//
// A deleted webhook is forgotten at once. Code that still has its hook sees there that the webhook
// is deleted. For later deliveries to the webhook the database is asked; see Find.
func (x *Index) put(config *Config, lists *edits) *Hook {
	w := config.Webhook
	hook, known := x.hooks[w.ID]
	if known {
		old := hook.config.Load()
		if old.Version > w.Version || old.Version == w.Version && old.Fault == w.Fault {
			return nil
		}
		lists.drop(hook, old.Webhook)
	}
	switch {
	case w.Deleted && !known:
		return nil
	case w.Deleted:
		delete(x.hooks, w.ID)
		delete(x.faulty, w.ID)
		hook.config.Store(config)
		return hook
	case !known:
		hook = &Hook{ID: w.ID, Account: w.Account}
		x.hooks[w.ID] = hook
		if news, ok := x.ahead[w.ID]; ok {
			delete(x.ahead, w.ID)
			hook.disable(news.DisabledVersion, news.Reason, news.At)
		}
	}
	if w.Fault == "" {
		delete(x.faulty, w.ID)
	} else {
		x.faulty[w.ID] = struct{}{}
	}
	hook.config.Store(config)
	if _, err := domain.ParseWebhookID(string(w.ID)); err == nil { // an id that is not valid can have no hold queue
		lists.add(hook, w)
	}
	return hook
}

// prepare makes a webhook ready for deliveries. If that is not possible, the webhook is kept with a
// fault, and its deliveries are held.
func (x *Index) prepare(w *domain.Webhook) *Config {
	config := &Config{Webhook: w}
	if w.Filter != "" && !w.Deleted {
		var faults []jsonscan.Fault
		if config.Filter, faults = filter.Parse([]byte(w.Filter)); faults != nil {
			w.Fault = cmp.Or(w.Fault, "its filter can't be read: "+strings.TrimSpace(faults[0].Pointer+" "+faults[0].Detail))
		}
	}
	if w.Fault == "" {
		var err error
		if config.Preparation, err = x.options.Prepare(w); err != nil {
			w.Fault = "it can't be prepared: " + err.Error()
		}
	}
	return config
}

// maxFaultsTold is how many webhooks are named in the log at a time: without the right encryption
// key no webhook can be read.
const maxFaultsTold = 100

// tellFault logs that a webhook can't be used. n is its number among those that were read together
// and can't be used.
func (x *Index) tellFault(n int, w *domain.Webhook) {
	switch {
	case n <= maxFaultsTold:
		x.options.Logger.Error("a webhook can't be read; its deliveries are held until it can",
			slog.String("webhook", string(w.ID)), slog.String("account", w.Account), slog.String("fault", w.Fault))
	case n == maxFaultsTold+1:
		x.options.Logger.Error("more webhooks can't be read; see the metric waybill_webhooks_unreadable")
	}
}

// edits collects changes of the lists by account and type, so that each list is made again only
// once, however many webhooks changed. Readers may still use the old list.
type edits struct {
	added   map[subscription][]*Hook // to each list that changes
	dropped []*Hook                  // from each list that they were in
}

func (e *edits) drop(hook *Hook, old *domain.Webhook) {
	hook.dropped = true
	e.dropped = append(e.dropped, hook)
	for _, kind := range old.Events {
		key := subscription{old.Account, kind}
		e.added[key] = append(e.added[key], nil...) // makes an entry for the list
	}
}

func (e *edits) add(hook *Hook, w *domain.Webhook) {
	if w.Delivery == domain.DeliveryPull {
		return // no event makes a delivery: the receiver reads the feed
	}
	for _, kind := range w.Events {
		key := subscription{w.Account, kind}
		if n := len(e.added[key]); n == 0 || e.added[key][n-1] != hook { // a row may name a type twice
			e.added[key] = append(e.added[key], hook)
		}
	}
}

// makeLists makes the changed lists; a nil list has no webhooks any more.
func (e *edits) makeLists(byEvent map[subscription]*subscribers) map[subscription]*subscribers {
	lists := make(map[subscription]*subscribers, len(e.added))
	for key, added := range e.added {
		var old []*Hook
		if list := byEvent[key]; list != nil {
			old = list.hooks
		}
		hooks := make([]*Hook, 0, len(old)+len(added))
		for _, hook := range old {
			if !hook.dropped {
				hooks = append(hooks, hook)
			}
		}
		lists[key] = nil
		if hooks = append(hooks, added...); len(hooks) > 0 {
			lists[key] = newSubscribers(hooks)
		}
	}
	for _, hook := range e.dropped {
		hook.dropped = false
	}
	return lists
}
