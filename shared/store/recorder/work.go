package recorder

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/rollup"
)

// recordWork is what Record writes, sorted by day and in the order of keys, so that two
// transactions on the same rows wait for each other.
type recordWork struct {
	now       time.Time
	publicURL string // the start of links
	days      map[store.Date]*recordDay
	settled   []domain.EventKey
	requests  []string
	answers   []jobAnswer
	health    []domain.HealthChange
	// sequences are the last numbers of webhooks and shipments, in the order of their keys.
	sequences []lastSequence
	// exhausted are deliveries whose schedule is exhausted, except those of alerts.
	exhausted []domain.Outcome
	usedUp    bool // the transaction uses up a quota, and there may be an alert
	outdated  int  // outcomes and events for which the log has no place
}

// jobAnswer is how the first attempt of a requested run ended: a job may wait for it.
type jobAnswer struct {
	delivery  string
	rev       int64
	delivered bool
}

// recordDay is the part of the work for one day.
type recordDay struct {
	// born are deliveries with one outcome, which is their first unless it is reported twice. They
	// are inserted as new rows that contain the attempt.
	born []domain.Outcome
	// filled are final states together with the first attempt of a delivery that is in the log
	// because it was held. Its row, which has no attempt, takes both. Outcomes that find no such
	// row become changes.
	filled []domain.Outcome
	// changed are the final states of the other deliveries; attempts are their attempts.
	changed  []domain.Outcome
	attempts []deliveryAttempt
	events   []domain.Event
	known    bool // an earlier try found that some of it is in the log
}

// bringsEvents reports whether there are events to add, or perhaps alerts.
func (w *recordWork) bringsEvents() bool {
	if w.mayAlert() || w.usedUp {
		return true
	}
	for _, day := range w.days {
		if len(day.events) > 0 {
			return true
		}
	}
	return false
}

// bornToChanges turns new deliveries into changes, because some of them were in the log.
func (d *recordDay) bornToChanges() {
	d.change(d.born)
	d.born, d.known = nil, true
}

// withoutTaken returns the day after rows have taken the attempts with the given ids: the other
// outcomes of filled become changes.
func (d *recordDay) withoutTaken(taken map[string]struct{}) *recordDay {
	var rest []domain.Outcome
	for _, o := range d.filled {
		if _, ok := taken[o.Attempt.ID]; !ok {
			rest = append(rest, o)
		}
	}
	left := *d
	left.filled = nil
	left.change(rest)
	return &left
}

// change adds outcomes to the changes. It does not write to the slices, because another try of the
// transaction begins with them.
func (d *recordDay) change(outcomes []domain.Outcome) {
	if len(outcomes) == 0 {
		return
	}
	d.changed, d.attempts = slices.Concat(d.changed, outcomes), slices.Clone(d.attempts)
	for _, o := range outcomes {
		if o.Attempt != nil {
			d.attempts = append(d.attempts, attemptOf(&o, *o.Attempt))
		}
	}
	slices.SortStableFunc(d.changed, func(a, b domain.Outcome) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Delivery, b.Delivery))
	})
}

// countBorn counts the attempts inside the new deliveries.
func (d *recordDay) countBorn(t *tally) {
	for i := range d.born {
		if o := &d.born[i]; o.Attempt != nil {
			t.attempt(o, o.Attempt)
		}
	}
}

// countFilled counts the attempts with the given ids, which rows have taken.
func (d *recordDay) countFilled(t *tally, taken map[string]struct{}) {
	for i := range d.filled {
		if o := &d.filled[i]; inSet(taken, o.Attempt.ID) {
			t.attempt(o, o.Attempt)
		}
	}
}

// countAttempts counts the attempts with the given ids, which were added to their table.
func (d *recordDay) countAttempts(t *tally, added map[string]struct{}) {
	for i := range d.attempts {
		a := &d.attempts[i]
		if inSet(added, a.ID) {
			delete(added, a.ID) // the attempt may be in the batch twice
			t.Attempt(a.account, a.webhook, a.eventType, &a.Attempt)
			t.meter.count(a.webhook, a.delivery, a.test, &a.Attempt)
			t.attempts++
		}
	}
}

func inSet(set map[string]struct{}, id string) bool {
	_, ok := set[id]
	return ok
}

// tally counts what a transaction has actually added.
type tally struct {
	rollup.Tally
	attempts int
	jobs     []JobKey // jobs that got an answer
	alerts   []domain.EventKey
	meter    *meter
	disabled []domain.HealthChange
}

func (t *tally) event(e *domain.Event) { t.Event(e.Account, e.Type, e.ReceivedAt) }

func (t *tally) attempt(o *domain.Outcome, a *domain.Attempt) {
	t.attempts++
	if domain.Forged(o.Reason) {
		return // the attempt says nothing about the receiver's health
	}
	t.Attempt(o.Account, o.Webhook, o.EventType, a)
	t.meter.count(o.Webhook, o.Delivery, o.Test, a)
}

// deliveryAttempt is an attempt for the table of attempts.
type deliveryAttempt struct {
	account   string
	delivery  domain.DeliveryID
	webhook   domain.WebhookID
	eventType domain.EventType
	test      bool
	domain.Attempt
}

func attemptOf(o *domain.Outcome, a domain.Attempt) deliveryAttempt {
	return deliveryAttempt{o.Account, o.Delivery, o.Webhook, o.EventType, o.Test, a}
}

func newRecordWork(batches []domain.RecordBatch) *recordWork {
	w := &recordWork{days: map[store.Date]*recordDay{}}
	var outcomes []domain.Outcome
	for i := range batches {
		b := &batches[i]
		outcomes = append(outcomes, b.Outcomes...)
		w.settled = append(w.settled, b.Settled...)
		w.health = append(w.health, b.Health...)
		for _, e := range b.Events {
			// One row that the database refuses would hold up all that follow.
			if !domain.ValidAccount(e.Account) {
				w.outdated++
				continue
			}
			e.ReceivedAt = e.ReceivedAt.UTC().Truncate(time.Millisecond)
			day := w.day(store.DateOf(e.ReceivedAt))
			day.events = append(day.events, e)
		}
	}
	w.sequences = lastSequences(outcomes)
	w.sortOutcomes(outcomes)
	slices.SortFunc(w.settled, domain.EventKey.Compare)
	w.settled = slices.CompactFunc(w.settled, func(a, b domain.EventKey) bool { return a.Compare(b) == 0 })
	slices.SortStableFunc(w.health, func(a, b domain.HealthChange) int {
		return cmp.Or(cmp.Compare(a.Webhook, b.Webhook), a.At.Compare(b.At))
	})
	w.prepareAlerts()
	slices.Sort(w.requests)
	w.requests = slices.Compact(w.requests)
	for _, day := range w.days {
		slices.SortStableFunc(day.events, func(a, b domain.Event) int {
			return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.ID, b.ID), a.ReceivedAt.Compare(b.ReceivedAt))
		})
		day.events = slices.CompactFunc(day.events, func(a, b domain.Event) bool { return a.Key() == b.Key() })
	}
	return w
}

// sortOutcomes distributes the outcomes over the days. The outcomes of one delivery stay together:
// the greatest is its state, and the attempts of all of them count.
func (w *recordWork) sortOutcomes(outcomes []domain.Outcome) {
	slices.SortStableFunc(outcomes, func(a, b domain.Outcome) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Delivery, b.Delivery), compareState(&a, &b))
	})
	for start := 0; start < len(outcomes); {
		end := start + 1
		for end < len(outcomes) && outcomes[end].Delivery == outcomes[start].Delivery && outcomes[end].Account == outcomes[start].Account {
			end++
		}
		w.addDelivery(outcomes[start:end])
		start = end
	}
}

func (w *recordWork) addDelivery(outcomes []domain.Outcome) {
	for _, o := range outcomes {
		if o.Request != "" {
			w.requests = append(w.requests, o.Request)
		}
		if o.Status == domain.StatusFailed && o.Reason == domain.ReasonExhausted && !o.EventType.Alert() {
			w.exhausted = append(w.exhausted, o)
		}
	}
	w.noteAnswers(outcomes)
	last := outcomes[len(outcomes)-1]
	at, ok := last.Delivery.ReceivedAt()
	if !ok || !domain.ValidAccount(last.Account) {
		w.outdated += len(outcomes)
		return
	}
	last.Reason = plainText(last.Reason)
	day := w.day(store.DateOf(at))
	if len(outcomes) == 1 && last.Rev.First(last.Noted) {
		if last.Attempt != nil {
			attempt := cleanAttempt(*last.Attempt)
			last.Attempt = &attempt
		}
		day.born = append(day.born, last)
		return
	}
	if len(outcomes) == 1 && last.Attempt != nil && last.Attempt.Number == 1 {
		attempt := cleanAttempt(*last.Attempt)
		last.Attempt = &attempt
		day.filled = append(day.filled, last)
		return
	}
	for _, o := range outcomes {
		if o.Attempt != nil {
			attempt := cleanAttempt(*o.Attempt)
			last.Attempt = &attempt // the row has the last attempt, whatever came after it
			day.attempts = append(day.attempts, attemptOf(&o, attempt))
		}
	}
	day.changed = append(day.changed, last)
}

// noteAnswers notes the answer to a job: the first attempt of a delivery's newest run, or the end of
// that run without an attempt. The first run of a delivery was not requested.
func (w *recordWork) noteAnswers(outcomes []domain.Outcome) {
	run := outcomes[len(outcomes)-1].Rev / domain.RunStep
	if run == 0 {
		return
	}
	for i := range outcomes {
		o := &outcomes[i]
		ended := o.Status == domain.StatusDelivered || o.Status == domain.StatusFailed
		if o.Rev/domain.RunStep == run && (o.Attempt != nil || ended) {
			w.answers = append(w.answers, jobAnswer{string(o.Delivery), int64(o.Rev), o.Status == domain.StatusDelivered})
			return
		}
	}
}

func (w *recordWork) day(d store.Date) *recordDay {
	day := w.days[d]
	if day == nil {
		day = &recordDay{}
		w.days[d] = day
	}
	return day
}

// dayList returns the days, the earliest first.
func (w *recordWork) dayList() []time.Time {
	days := make([]time.Time, 0, len(w.days))
	for _, d := range slices.Sorted(maps.Keys(w.days)) {
		days = append(days, d.Time())
	}
	return days
}

func (w *recordWork) empty() bool {
	return len(w.days) == 0 && len(w.settled) == 0 && len(w.requests) == 0 && len(w.health) == 0 && w.outdated == 0
}

// leaveOut drops the days that the log does not have, and counts what is lost.
func (w *recordWork) leaveOut(floor, last store.Date) {
	for d, day := range w.days {
		if d < floor || d > last {
			w.outdated += len(day.born) + len(day.filled) + len(day.changed) + len(day.events)
			delete(w.days, d)
		}
	}
}

// hasChanges reports whether there is more to write than new rows.
func (w *recordWork) hasChanges() bool {
	if w.mayAlert() || w.usedUp { // usedUp: an earlier try has set it
		return true
	}
	for _, day := range w.days {
		if len(day.filled) > 0 || len(day.changed) > 0 || day.known {
			return true
		}
	}
	return false
}

// bornToChanges turns all new deliveries into changes.
func (w *recordWork) bornToChanges() {
	for _, day := range w.days {
		day.bornToChanges()
	}
}
