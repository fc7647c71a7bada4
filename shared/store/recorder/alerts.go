package recorder

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// MaxExhaustedAlerts is how many alerts a minute report exhausted deliveries of a webhook. After
// more, the next alert says how many were left out.
const MaxExhaustedAlerts = 60

// alerts finds the transitions in a transaction, and writes those for which a webhook is registered.
type alerts struct {
	*transaction

	hooks    map[domain.WebhookID]*alertedHook
	reported map[domain.WebhookID]*reportedState
	circuits map[domain.WebhookID]*domain.Circuit
	healths  map[domain.WebhookID]*domain.Health
	found    []transition
}

// alertedHook has the fields of a webhook that alerts about it need.
type alertedHook struct {
	account, url     string
	activatedVersion int64
	onlyAlerts       bool // it is registered only for alerts
}

// listener is a webhook that is registered for alerts.
type listener struct {
	id     domain.WebhookID
	events []string
}

// reportedState is a row of webhook_alerts.
type reportedState struct {
	failing, opened bool
	minute          time.Time
	told, leftOut   int64
	changed         bool
}

// mayAlert reports whether there may be a transition. Then the transaction runs alone: if two
// transactions see the same transition, the second must know what the first has reported.
func (w *recordWork) mayAlert() bool {
	return len(w.exhausted) > 0 || slices.ContainsFunc(w.health, isTransition)
}

func isTransition(h domain.HealthChange) bool { return h.Circuit != nil || h.DisabledVersion > 0 }

// prepareAlerts adds the days of alerts to the days that the log must have.
func (w *recordWork) prepareAlerts() {
	for i := range w.exhausted {
		w.day(store.DateOf(w.exhausted[i].UpdatedAt))
	}
	for i := range w.health {
		if c := w.health[i].Circuit; c != nil {
			w.day(store.DateOf(c.SaidAt))
		} else if isTransition(w.health[i]) {
			w.day(store.DateOf(w.health[i].At))
		}
	}
}

// alert writes alerts for the transitions in the healths that are about to be stored. So it must run before
// they are stored.
func (t *transaction) alert(ctx context.Context) error {
	w := t.work
	if !w.mayAlert() {
		return nil
	}
	a := &alerts{transaction: t}
	if err := a.read(ctx); err != nil {
		return err
	}
	for i := range w.health {
		a.circuit(&w.health[i])
		a.disabled(&w.health[i])
	}
	for i := range w.exhausted {
		a.exhausted(&w.exhausted[i])
	}
	if err := a.write(ctx); err != nil {
		return err
	}
	return a.storeReported(ctx)
}

// tellUsedUp adds an alert for each webhook that this transaction has made inactive because a quota of
// deliveries is used up.
func (t *transaction) tellUsedUp(ctx context.Context) error {
	if len(t.disabled) == 0 {
		return nil
	}
	w := t.work
	w.day(store.DateOf(w.now)) // the alerts are of this day
	a := &alerts{transaction: t}
	ids := make([]string, len(t.disabled))
	for i := range t.disabled {
		ids[i] = string(t.disabled[i].Webhook)
	}
	if err := a.readRows(ctx, ids); err != nil {
		return err
	}
	for i := range t.disabled {
		h := &t.disabled[i]
		if a.hooks[h.Webhook] == nil || slices.ContainsFunc(w.health, func(o domain.HealthChange) bool { return o.Webhook == h.Webhook && o.DisabledVersion > 0 }) {
			continue // the webhook is deleted, or an alert says that it was disabled for another reason
		}
		a.addTransition(transition{
			webhook: h.Webhook, at: h.At, key: strconv.FormatInt(h.DisabledVersion, 36), reason: h.DisabledReason,
			failures: a.circuitOf(h.Webhook).Failures, since: h.At, answer: domain.Answer{Class: domain.ClassOK},
		}, domain.WebhookDisabled)
	}
	return a.write(ctx)
}

// circuit finds the transitions in a record of a webhook's row of failures. A record that is older
// than the last one has none.
func (a *alerts) circuit(h *domain.HealthChange) {
	hook := a.hooks[h.Webhook]
	if hook == nil || h.Circuit == nil {
		return
	}
	before, now := a.circuitOf(h.Webhook), *h.Circuit
	if now.SaidAt.UnixMicro() < before.SaidAt.UnixMicro() {
		return
	}
	if now.Last == nil {
		now.Last = before.Last
	}
	s := a.state(h.Webhook)
	t := transition{webhook: h.Webhook, at: now.SaidAt, key: strconv.FormatInt(now.SaidAt.UnixMicro(), 36), failures: now.Failures, since: now.FailingSince}
	if now.Last != nil {
		t.answer = *now.Last
	}
	if now.Alarming && !hook.onlyAlerts && !s.failing {
		s.failing, s.changed = true, true
		a.addTransition(t, domain.WebhookFailing)
	}
	if s.failing && !s.opened && !now.OpenSince.IsZero() {
		s.opened, s.changed = true, true
		a.addTransition(t, domain.WebhookCircuitOpened)
	}
	if s.failing && now.Failures == 0 {
		s.failing, s.opened, s.changed = false, false, true
		t.failures, t.since, t.answer = before.Failures, before.FailingSince, domain.Answer{Class: domain.ClassOK}
		a.addTransition(t, domain.WebhookRecovered)
	}
	*before = now
}

// disabled finds out whether a webhook has just become inactive.
func (a *alerts) disabled(h *domain.HealthChange) {
	hook, health := a.hooks[h.Webhook], a.healths[h.Webhook]
	if health == nil {
		health = &domain.Health{}
		a.healths[h.Webhook] = health
	}
	if !h.FailingSince.IsZero() && health.FailingSince.IsZero() {
		health.FailingSince = h.FailingSince
	}
	if hook == nil || h.DisabledVersion == 0 {
		return
	}
	was := health.DisabledVersion
	health.DisabledVersion = max(was, h.DisabledVersion)
	if was >= hook.activatedVersion || h.DisabledVersion < hook.activatedVersion {
		return // the webhook was inactive before, or is active again
	}
	circuit := a.circuitOf(h.Webhook)
	t := transition{
		webhook: h.Webhook, at: h.At, key: strconv.FormatInt(h.DisabledVersion, 36), reason: h.DisabledReason,
		failures: max(circuit.Failures, 1), since: health.FailingSince,
	}
	if circuit.Last != nil {
		t.answer = *circuit.Last
	}
	if h.DisabledReason == domain.DisabledGone {
		t.answer = domain.Answer{Class: domain.ClassGone, Status: 410}
	}
	if t.since.IsZero() {
		t.since = h.At
	}
	a.addTransition(t, domain.WebhookDisabled)
}

// exhausted adds a transition for a delivery whose schedule is exhausted.
func (a *alerts) exhausted(o *domain.Outcome) {
	if a.hooks[o.Webhook] == nil {
		return
	}
	t := transition{
		webhook: o.Webhook, at: o.UpdatedAt, key: string(o.Delivery) + "\x00" + strconv.FormatInt(int64(o.Rev), 36),
		delivery: o.Delivery, event: o.EventID, failures: o.RunAttempts, since: o.RunStartedAt,
	}
	switch last := a.circuitOf(o.Webhook).Last; {
	case o.Attempt != nil:
		t.answer = domain.AnswerOf(o.Attempt)
	case last != nil:
		t.answer = *last
	}
	if t.since.IsZero() {
		t.since = o.UpdatedAt
	}
	a.addTransition(t, domain.DeliveryExhausted)
}

func (a *alerts) addTransition(t transition, kind domain.EventType) {
	t.kind = kind
	a.found = append(a.found, t)
}

func (a *alerts) state(id domain.WebhookID) *reportedState {
	s := a.reported[id]
	if s == nil {
		s = &reportedState{}
		a.reported[id] = s
	}
	return s
}

func (a *alerts) circuitOf(id domain.WebhookID) *domain.Circuit {
	c := a.circuits[id]
	if c == nil {
		c = &domain.Circuit{}
		a.circuits[id] = c
	}
	return c
}

// write adds alerts for the transitions for which another webhook than the one that failed is
// registered, unless the log has them already.
func (a *alerts) write(ctx context.Context) error {
	listeners, err := a.listeners(ctx)
	if err != nil || len(listeners) == 0 {
		return err
	}
	var events []domain.Event
	of := map[domain.EventKey]*transition{}
	for i := range a.found {
		t := &a.found[i]
		hook := a.hooks[t.webhook]
		if a.work.days[store.DateOf(t.at)] == nil || !hasListener(listeners[hook.account], t) || !a.hasRoom(t) {
			continue
		}
		event, err := t.alert(hook, a.work.publicURL)
		if err != nil {
			return err
		}
		if of[event.Key()] != nil {
			continue
		}
		of[event.Key()] = t
		events = append(events, event)
		if t.kind == domain.DeliveryExhausted {
			s := a.state(t.webhook)
			s.told, s.leftOut, s.changed = s.told+1, 0, true
		}
	}
	added, err := a.insert(ctx, events)
	if err != nil {
		return err
	}
	for i := range events {
		key := events[i].Key()
		if _, ok := added[key]; ok {
			a.alerts = append(a.alerts, key)
		} else if t := of[key]; t.kind == domain.DeliveryExhausted { // the alert was there before
			s := a.state(t.webhook)
			s.told, s.leftOut = s.told-1, s.leftOut+t.leftOut
		}
	}
	return nil
}

// hasListener reports whether a webhook other than the one that failed is registered for the transition.
func hasListener(listeners []listener, t *transition) bool {
	return slices.ContainsFunc(listeners, func(l listener) bool {
		return l.id != t.webhook && slices.Contains(l.events, string(t.kind))
	})
}

// hasRoom reports whether there may be an alert for one more exhausted delivery of the webhook in this
// minute. If a batch is written twice, the deliveries without an alert are counted twice.
func (a *alerts) hasRoom(t *transition) bool {
	if t.kind != domain.DeliveryExhausted {
		return true
	}
	s := a.state(t.webhook)
	if minute := a.work.now.Truncate(time.Minute); !minute.Equal(s.minute) {
		s.minute, s.told = minute, 0
	}
	if s.told >= MaxExhaustedAlerts {
		s.leftOut, s.changed = s.leftOut+1, true
		return false
	}
	t.leftOut = s.leftOut
	return true
}

// read reads the stored state of the webhooks that may have changed.
func (a *alerts) read(ctx context.Context) error {
	ids := map[string]struct{}{}
	for i := range a.work.health {
		if isTransition(a.work.health[i]) {
			ids[string(a.work.health[i].Webhook)] = struct{}{}
		}
	}
	for i := range a.work.exhausted {
		ids[string(a.work.exhausted[i].Webhook)] = struct{}{}
	}
	return a.readRows(ctx, slices.Sorted(maps.Keys(ids)))
}

func (a *alerts) readRows(ctx context.Context, ids []string) error {
	a.hooks, a.reported = map[domain.WebhookID]*alertedHook{}, map[domain.WebhookID]*reportedState{}
	a.circuits, a.healths = map[domain.WebhookID]*domain.Circuit{}, map[domain.WebhookID]*domain.Health{}
	look := func(query string, each func(store.Scan) error) store.Statement {
		return store.Statement{SQL: query + " " + a.In(), Args: []any{a.List(ids)}, Each: each}
	}
	return a.Batch(ctx,
		look("SELECT id, account, url, events, activated_version FROM webhooks WHERE NOT deleted AND id", func(scan store.Scan) error {
			var id, events string
			h := &alertedHook{}
			err := scan(&id, &h.account, &h.url, &events, &h.activatedVersion)
			h.onlyAlerts = !slices.ContainsFunc(strings.Split(events, ","), func(t string) bool { return !domain.EventType(t).Alert() })
			a.hooks[domain.WebhookID(id)] = h
			return err
		}),
		look("SELECT webhook_id, failing, opened, minute, told, left_out FROM webhook_alerts WHERE webhook_id", func(scan store.Scan) error {
			var id string
			var minute store.Instant
			s := &reportedState{}
			err := scan(&id, &s.failing, &s.opened, &minute, &s.told, &s.leftOut)
			s.minute, a.reported[domain.WebhookID(id)] = minute.Time(), s
			return err
		}),
		look(`SELECT webhook_id, failures, failing_since, said_at, answer_at, answer_class, answer_status, answer_body
			FROM webhook_circuits WHERE webhook_id`, func(scan store.Scan) error {
			var id string
			var since, said, at store.Instant
			c, last := &domain.Circuit{}, domain.Answer{}
			err := scan(&id, &c.Failures, &since, &said, &at, &last.Class, &last.Status, &last.Body)
			c.FailingSince, c.SaidAt, last.At = since.Time(), said.Time(), at.Time()
			if at != 0 {
				c.Last = &last
			}
			a.circuits[domain.WebhookID(id)] = c
			return err
		}),
		look("SELECT webhook_id, failing_since, disabled_version FROM webhook_health WHERE webhook_id", func(scan store.Scan) error {
			var id string
			var since store.Instant
			h := &domain.Health{}
			err := scan(&id, &since, &h.DisabledVersion)
			h.FailingSince, a.healths[domain.WebhookID(id)] = since.Time(), h
			return err
		}))
}

// listeners returns, by account, the webhooks that are registered for alerts.
func (a *alerts) listeners(ctx context.Context) (map[string][]listener, error) {
	accounts := map[string]struct{}{}
	for i := range a.found {
		accounts[a.hooks[a.found[i].webhook].account] = struct{}{}
	}
	if len(accounts) == 0 {
		return nil, nil
	}
	found := map[string][]listener{}
	// LIKE, because the index has the same condition.
	err := a.Query(ctx, "SELECT account, id, events FROM webhooks WHERE account "+a.In()+" AND events LIKE '%waybill.%' AND NOT deleted",
		func(scan store.Scan) error {
			var account, id, events string
			err := scan(&account, &id, &events)
			found[account] = append(found[account], listener{domain.WebhookID(id), strings.Split(events, ",")})
			return err
		}, a.List(slices.Sorted(maps.Keys(accounts))))
	return found, err
}

// insert adds alerts to the log, and to the outbox as events that have not been published yet. It returns
// those that are new.
func (a *alerts) insert(ctx context.Context, events []domain.Event) (map[domain.EventKey]struct{}, error) {
	at := make(map[[2]string]domain.EventKey, len(events))
	values := make([]any, 0, 9*len(events))
	for i := range events {
		e := &events[i]
		at[[2]string{e.Account, e.ID}] = e.Key()
		values = append(values, a.Date(e.ReceivedAt), e.Account, e.ID, string(e.Type), e.Timestamp, e.Payload, a.Moment(e.ReceivedAt), string(domain.SourceWaybill))
		values = append(values, a.xact...)
	}
	m := store.MultiRow{
		Head:  "INSERT INTO events (day, account, id, type, occurred_at, payload, received_at, source) ",
		Tail:  " ON CONFLICT DO NOTHING RETURNING account, id",
		Types: "date,text,text,text,text,bytea,timestamptz,text",
	}
	if a.SQLite() {
		m.Head, m.Types = "INSERT INTO events (day, account, id, type, occurred_at, payload, received_at, source, xact) ", m.Types+",bigint"
	}
	added := make(map[domain.EventKey]struct{}, len(events))
	err := a.Batch(ctx, a.Rows(m, values, func(scan store.Scan) error {
		var account, id string
		err := scan(&account, &id)
		added[at[[2]string{account, id}]] = struct{}{}
		return err
	})...)
	if err != nil {
		return nil, err
	}
	values = values[:0]
	for i := range events {
		if _, ok := added[events[i].Key()]; ok {
			values = append(values, a.Moment(events[i].ReceivedAt), events[i].Account, events[i].ID)
		}
	}
	return added, a.Batch(ctx, a.Rows(store.MultiRow{
		Head:  "INSERT INTO outbox (received_at, account, id, version, relayed) SELECT column1, column2, column3, (SELECT version FROM config_version), -1 FROM (",
		Tail:  ") AS v",
		Types: "timestamptz,text,text",
	}, values, nil)...)
}

// storeReported stores what alerts have reported about webhooks.
func (a *alerts) storeReported(ctx context.Context) error {
	var values []any
	for _, id := range slices.Sorted(maps.Keys(a.reported)) { // in one order, so that transactions don't deadlock
		if s := a.reported[id]; s.changed {
			values = append(values, string(id), s.failing, s.opened, a.Moment(s.minute), s.told, s.leftOut, a.Moment(a.work.now))
		}
	}
	return a.Batch(ctx, a.Rows(store.MultiRow{
		Head: "INSERT INTO webhook_alerts (webhook_id, failing, opened, minute, told, left_out, updated_at) ",
		Tail: ` ON CONFLICT (webhook_id) DO UPDATE SET failing = excluded.failing, opened = excluded.opened, minute = excluded.minute,
			told = excluded.told, left_out = excluded.left_out, updated_at = excluded.updated_at`,
		Types: "text,boolean,boolean,timestamptz,bigint,bigint,timestamptz",
	}, values, nil)...)
}
