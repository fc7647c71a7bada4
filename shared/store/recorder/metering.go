package recorder

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/metering"
)

// Deliveries are counted for the consumer whose key registered the webhook, in the transaction that
// writes them, if the consumer's bucket has a meter of deliveries. A delivery counts once: with its
// first success. When the quota of a period is used up, the same transaction disables the
// consumer's webhooks.

// unmeteredFor is how long the result is kept that deliveries of a consumer are not counted.
const unmeteredFor = time.Second

// maxOwners bounds the webhooks whose owners are kept in memory.
const maxOwners = 200_000

// owners knows which consumer owns a webhook. An owner never changes.
type owners struct {
	mu        sync.Mutex
	byWebhook map[domain.WebhookID]string // empty: no consumer owns it
	unmetered map[string]time.Time        // consumers without meters, and when that was checked
}

func newOwners() *owners {
	return &owners{byWebhook: map[domain.WebhookID]string{}, unmetered: map[string]time.Time{}}
}

// classify returns the webhooks whose owners are not known, and the consumers that may be metered.
func (o *owners) classify(webhooks map[domain.WebhookID]struct{}, now time.Time) (unknown []string, consumers map[string]struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id := range webhooks {
		consumer, known := o.byWebhook[id]
		switch {
		case !known:
			unknown = append(unknown, string(id))
		case consumer != "" && now.Sub(o.unmetered[consumer]) >= unmeteredFor:
			if consumers == nil {
				consumers = map[string]struct{}{}
			}
			consumers[consumer] = struct{}{}
		}
	}
	slices.Sort(unknown)
	return unknown, consumers
}

func (o *owners) learn(found map[domain.WebhookID]string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.byWebhook)+len(found) > maxOwners {
		clear(o.byWebhook)
	}
	maps.Copy(o.byWebhook, found)
}

func (o *owners) consumerOf(id domain.WebhookID) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.byWebhook[id]
}

func (o *owners) notMetered(consumer string, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.unmetered) > maxOwners {
		clear(o.unmetered)
	}
	o.unmetered[consumer] = now
}

// meter counts the deliveries of a transaction. The methods of a nil meter do nothing.
type meter struct {
	owners   *owners
	conn     store.Conn
	now      time.Time
	bucketOf map[string]string              // the bucket of each metered consumer
	counted  map[domain.DeliveryID]struct{} // deliveries that had a success before
	counts   map[metering.HourKey]metering.Count
}

// delivered calls each for the outcomes that are delivered and no tests.
func (w *recordWork) delivered(each func(day time.Time, o *domain.Outcome)) {
	for date, day := range w.days {
		for _, list := range [][]domain.Outcome{day.born, day.filled, day.changed} {
			for i := range list {
				if o := &list[i]; o.Status == domain.StatusDelivered && !o.Test {
					each(date.Time(), o)
				}
			}
		}
	}
}

// newMeter returns a meter for the deliveries in w; nil: none of them are counted.
func newMeter(ctx context.Context, o *owners, c store.Conn, w *recordWork) (*meter, error) {
	webhooks := map[domain.WebhookID]struct{}{}
	w.delivered(func(_ time.Time, o *domain.Outcome) { webhooks[o.Webhook] = struct{}{} })
	if len(webhooks) == 0 {
		return nil, nil
	}
	m := &meter{owners: o, conn: c, now: w.now, bucketOf: map[string]string{}, counted: map[domain.DeliveryID]struct{}{}, counts: map[metering.HourKey]metering.Count{}}
	unknown, consumers := o.classify(webhooks, w.now)
	for range 2 { // the second time for owners that were forgotten to make room for others
		if len(unknown) == 0 {
			break
		}
		if err := m.findOwners(ctx, unknown); err != nil {
			return nil, err
		}
		unknown, consumers = o.classify(webhooks, w.now)
	}
	if len(consumers) == 0 {
		return nil, nil
	}
	if err := m.findMetered(ctx, slices.Sorted(maps.Keys(consumers))); err != nil || len(m.bucketOf) == 0 {
		return nil, err
	}
	if err := m.findCounted(ctx, w); err != nil {
		return nil, err
	}
	return m, nil
}

// findOwners reads the owners of webhooks.
func (m *meter) findOwners(ctx context.Context, webhooks []string) error {
	found := make(map[domain.WebhookID]string, len(webhooks))
	for _, id := range webhooks {
		found[domain.WebhookID(id)] = "" // a webhook that does not exist has no owner
	}
	err := m.conn.Query(ctx, "SELECT id, coalesce(consumer_id, '') FROM webhooks WHERE id "+m.conn.In(), func(scan store.Scan) error {
		var id, consumer string
		err := scan(&id, &consumer)
		found[domain.WebhookID(id)] = consumer
		return err
	}, m.conn.List(webhooks))
	if err != nil {
		return fmt.Errorf("read owners of webhooks: %w", err)
	}
	m.owners.learn(found)
	return nil
}

// findMetered reads for which consumers deliveries are counted.
func (m *meter) findMetered(ctx context.Context, consumers []string) error {
	query := `SELECT k.id, k.bucket_id FROM key_consumers k WHERE k.id ` + m.conn.In() + `
		AND EXISTS (SELECT 1 FROM meters m WHERE m.bucket_id = k.bucket_id AND m.event_type = '` + domain.EventDeliveries + `')`
	err := m.conn.Query(ctx, query, func(scan store.Scan) error {
		var id, bucket string
		err := scan(&id, &bucket)
		m.bucketOf[id] = bucket
		return err
	}, m.conn.List(consumers))
	if err != nil {
		return fmt.Errorf("look for meters of deliveries: %w", err)
	}
	for _, consumer := range consumers {
		if m.bucketOf[consumer] == "" {
			m.owners.notMetered(consumer, m.now)
		}
	}
	return nil
}

// findCounted finds the deliveries that had a success before this transaction.
func (m *meter) findCounted(ctx context.Context, w *recordWork) error {
	type place struct {
		day     time.Time
		account string
	}
	places := map[place][]string{}
	w.delivered(func(day time.Time, o *domain.Outcome) {
		if m.bucketOf[m.owners.consumerOf(o.Webhook)] != "" {
			at := place{day, o.Account}
			places[at] = append(places[at], string(o.Delivery))
		}
	})
	for at, ids := range places {
		slices.Sort(ids)
		err := m.conn.Query(ctx, selectSuccessful(m.conn), func(scan store.Scan) error {
			var id string
			err := scan(&id)
			m.counted[domain.DeliveryID(id)] = struct{}{}
			return err
		}, m.conn.List(ids), at.account, m.conn.Date(at.day))
		if err != nil {
			return fmt.Errorf("look for deliveries that were counted: %w", err)
		}
	}
	return nil
}

// selectSuccessful selects the deliveries of an account and a day that had a success. The primary key begins with
// the account: without it, all deliveries would be read for each transaction.
func selectSuccessful(c store.Conn) string {
	return `SELECT d.id FROM deliveries d WHERE d.id ` + c.In() + ` AND d.account = $2 AND d.day = $3 AND (d.attempt_status BETWEEN 200 AND 299
		OR EXISTS (SELECT 1 FROM attempts a WHERE a.day = $3 AND a.delivery_id = d.id AND a.status BETWEEN 200 AND 299))`
}

// count counts a delivery with an attempt that was added to the log.
func (m *meter) count(webhook domain.WebhookID, delivery domain.DeliveryID, test bool, a *domain.Attempt) {
	if m == nil || test || a.Status < 200 || a.Status > 299 {
		return
	}
	consumer := m.owners.consumerOf(webhook)
	bucket := m.bucketOf[consumer]
	if bucket == "" {
		return
	}
	if _, had := m.counted[delivery]; had {
		return
	}
	m.counted[delivery] = struct{}{}
	key := metering.HourKey{Bucket: bucket, Consumer: consumer, EventType: domain.EventDeliveries, Hour: metering.HourOf(a.StartedAt)}
	n := m.counts[key]
	n.Events++
	n.Total++
	m.counts[key] = n
}

// write adds the counts, and disables the webhooks of consumers that have used up a quota with them.
func (m *meter) write(ctx context.Context) ([]domain.HealthChange, error) {
	if m == nil || len(m.counts) == 0 {
		return nil, nil
	}
	if err := metering.Add(ctx, m.conn, m.counts); err != nil {
		return nil, err
	}
	consumers := map[string]struct{}{}
	for key := range m.counts {
		consumers[key.Consumer] = struct{}{}
	}
	entitled, err := metering.ReadEntitled(ctx, m.conn, slices.Sorted(maps.Keys(consumers)))
	if err != nil {
		return nil, err
	}
	var disabled []domain.HealthChange
	for _, consumer := range slices.Sorted(maps.Keys(entitled)) {
		until, err := m.usedUp(ctx, entitled[consumer])
		if err != nil {
			return nil, err
		}
		if until.IsZero() {
			continue
		}
		some, err := m.disable(ctx, consumer, until)
		if err != nil {
			return nil, err
		}
		disabled = append(disabled, some...)
	}
	return disabled, nil
}

// usedUp returns when the last of the periods ends in which a quota of deliveries is used up; zero:
// none is used up.
func (m *meter) usedUp(ctx context.Context, e *metering.Entitlements) (until time.Time, err error) {
	for _, g := range e.Grants(m.now) {
		if g.Meter == nil || g.Meter.EventType != domain.EventDeliveries || !g.Entitlement.Hard() {
			continue
		}
		start, end := g.Period.Period(e.Anchor, m.now)
		used, err := metering.ReadUsed(ctx, m.conn, e.ConsumerID, &g, start, end)
		if err != nil {
			return until, err
		}
		if used >= g.Entitlement.IssueAfterReset && end.After(until) {
			until = end
		}
	}
	return until, nil
}

// disable disables the active webhooks of a consumer.
func (m *meter) disable(ctx context.Context, consumer string, until time.Time) ([]domain.HealthChange, error) {
	var list []domain.HealthChange
	err := m.conn.Query(ctx, `SELECT w.id, w.version FROM webhooks w LEFT JOIN webhook_health h ON h.webhook_id = w.id
		WHERE w.consumer_id = $1 AND w.active AND NOT w.deleted AND coalesce(h.disabled_version, 0) < w.activated_version ORDER BY w.id`, func(scan store.Scan) error {
		var id string
		c := domain.HealthChange{DisabledReason: domain.DisabledQuota, DisabledUntil: until, At: m.now}
		err := scan(&id, &c.DisabledVersion)
		c.Webhook = domain.WebhookID(id)
		list = append(list, c)
		return err
	}, consumer)
	if err != nil {
		return nil, fmt.Errorf("read webhooks of a consumer: %w", err)
	}
	for i := range list {
		c := &list[i]
		_, err := m.conn.Exec(ctx, healthUsedUp, string(c.Webhook), c.DisabledVersion, m.conn.Moment(c.At), m.conn.Moment(until), m.conn.Moment(m.now))
		if err != nil {
			return nil, fmt.Errorf("disable webhook: %w", err)
		}
	}
	return list, nil
}

// healthUsedUp stores that a webhook was disabled because of a quota.
const healthUsedUp = `
	INSERT INTO webhook_health (webhook_id, disabled_version, disabled_reason, disabled_at, disabled_until, updated_at)
	VALUES ($1, $2, '` + string(domain.DisabledQuota) + `', $3, $4, $5)
	ON CONFLICT (webhook_id) DO UPDATE SET disabled_version = excluded.disabled_version, disabled_reason = excluded.disabled_reason,
		disabled_at = excluded.disabled_at, disabled_until = excluded.disabled_until, updated_at = excluded.updated_at
	WHERE webhook_health.disabled_version < excluded.disabled_version`
