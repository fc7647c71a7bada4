package metering

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// Entitlements is the subscription of a consumer, with everything that is needed to decide what the
// consumer may do.
type Entitlements struct {
	domain.Subscription

	features map[string]entitledFeature
}

// entitledFeature is a feature with its meter; nil: the feature has none.
type entitledFeature struct {
	feature domain.Feature
	meter   *domain.Meter
}

// Grants returns what the subscription grants at a time, in the order of the features' keys.
func (e *Entitlements) Grants(at time.Time) []domain.Grant {
	phase := e.Plan.Phase(e.Since, at)
	if phase == nil {
		return nil
	}
	grants := make(map[string]domain.Grant)
	for _, card := range phase.RateCards {
		f, there := e.features[card.FeatureKey]
		if card.Entitlement == nil || !there {
			continue
		}
		g := domain.Grant{
			FeatureKey: card.FeatureKey, Entitlement: *card.Entitlement, Meter: f.meter,
			Period: cmp.Or(card.Entitlement.UsagePeriod, card.BillingCadence, e.Plan.BillingCadence),
		}
		if f.meter != nil && len(f.feature.Filters) > 0 {
			g.Filters = make(map[string]string, len(f.feature.Filters))
			for group, value := range f.feature.Filters {
				g.Filters[f.meter.GroupBy[group]] = value
			}
		}
		grants[card.FeatureKey] = g
	}
	list := make([]domain.Grant, 0, len(grants))
	for _, key := range slices.Sorted(maps.Keys(grants)) {
		list = append(list, grants[key])
	}
	return list
}

// entitledAtOnce bounds how many consumers one query names.
const entitledAtOnce = 500

// Entitlements returns the subscriptions of consumers, by the consumers' ids. Consumers without a
// subscription are left out.
func (m *Metering) Entitlements(ctx context.Context, consumers []string) (map[string]*Entitlements, error) {
	found := make(map[string]*Entitlements, len(consumers))
	for part := range slices.Chunk(consumers, entitledAtOnce) {
		some, err := ReadEntitled(ctx, m.db.Conn(), part)
		if err != nil {
			return nil, store.Wrap("read subscriptions", err)
		}
		maps.Copy(found, some)
	}
	return found, nil
}

// ReadEntitled is Entitlements in a transaction that keeps the subscriptions unchanged until its end.
func ReadEntitled(ctx context.Context, c store.Conn, consumers []string) (map[string]*Entitlements, error) {
	found := make(map[string]*Entitlements)
	byBucket := make(map[string][]*Entitlements)
	if len(consumers) == 0 {
		return found, nil
	}
	err := c.Query(ctx, `SELECT s.consumer_id, k.name, k.bucket_id, s.anchor_at, s.since_at, s.created_at, s.updated_at,
			p.id, p.key, p.version, p.name, p.billing_cadence, p.status, p.phases
		FROM subscriptions s JOIN key_consumers k ON k.id = s.consumer_id JOIN plans p ON p.id = s.plan_id
		WHERE s.consumer_id `+c.In()+c.ForShare("s"), func(scan store.Scan) error {
		var bucket, phases string
		var anchor, since, created, updated store.Instant
		e := &Entitlements{features: map[string]entitledFeature{}}
		err := scan(&e.ConsumerID, &e.Consumer, &bucket, &anchor, &since, &created, &updated,
			&e.Plan.ID, &e.Plan.Key, &e.Plan.Version, &e.Plan.Name, (*string)(&e.Plan.BillingCadence), (*string)(&e.Plan.Status), &phases)
		e.Anchor, e.Since, e.CreatedOn, e.UpdatedOn = anchor.Time(), since.Time(), created.Time(), updated.Time()
		found[e.ConsumerID] = e
		byBucket[bucket] = append(byBucket[bucket], e)
		return errors.Join(err, readJSON(phases, &e.Plan.Phases))
	}, c.List(consumers))
	if err != nil || len(found) == 0 {
		return found, err
	}
	return found, readFeatures(ctx, c, byBucket)
}

// readFeatures gives subscriptions the features of their buckets. For each key, that is the live
// feature or, if there is none, the one that was archived last.
func readFeatures(ctx context.Context, c store.Conn, byBucket map[string][]*Entitlements) error {
	buckets := slices.Sorted(maps.Keys(byBucket))
	return c.Query(ctx, `SELECT f.bucket_id, f.key, f.filters, m.id, m.slug, m.aggregation, m.event_type, m.event_from, m.group_by
		FROM features f LEFT JOIN meters m ON m.id = f.meter_id
		WHERE f.bucket_id `+c.In()+` ORDER BY f.archived_at IS NULL, f.archived_at, f.id`, func(scan store.Scan) error {
		var bucket, filters string
		var id, slug, aggregation, kind, groups *string
		var from store.Instant
		var f entitledFeature
		if err := scan(&bucket, &f.feature.Key, &filters, &id, &slug, &aggregation, &kind, &from, &groups); err != nil {
			return err
		}
		err := readJSON(filters, &f.feature.Filters)
		if id != nil {
			f.meter = &domain.Meter{ID: *id, Slug: *slug, Aggregation: domain.Aggregation(*aggregation), EventType: *kind, EventFrom: from.Time()}
			err = errors.Join(err, readJSON(*groups, &f.meter.GroupBy))
		}
		for _, e := range byBucket[bucket] {
			e.features[f.feature.Key] = f
		}
		return err
	}, c.List(buckets))
}

// ReadUsed returns how much a consumer has used of a grant from start on and before end.
func ReadUsed(ctx context.Context, c store.Conn, consumer string, g *domain.Grant, start, end time.Time) (used int64, err error) {
	if g.Meter == nil {
		return 0, nil
	}
	if g.Meter.EventFrom.After(start) {
		start = g.Meter.EventFrom
	}
	where, values := dimsConditions(g.Filters, 5)
	query := "SELECT CAST(coalesce(sum(" + valueColumn(g.Meter) + "), 0) AS bigint) FROM meter_hours WHERE consumer_id = $1 AND event_type = $2 AND hour >= $3 AND hour < $4" + where
	err = c.Query(ctx, query, func(scan store.Scan) error { return scan(&used) },
		append([]any{consumer, g.Meter.EventType, c.Moment(start), c.Moment(end)}, values...)...)
	if err != nil {
		return 0, fmt.Errorf("read usage: %w", err)
	}
	return used, nil
}

// valueColumn returns the column that a meter sums up.
func valueColumn(meter *domain.Meter) string {
	if meter.Aggregation == domain.AggregationSum {
		return "sum"
	}
	return "count"
}

// dimsConditions returns the conditions of filters by dims, with parameters numbered from first on.
func dimsConditions(filters map[string]string, first int) (where string, values []any) {
	var text strings.Builder
	for _, dim := range slices.Sorted(maps.Keys(filters)) {
		text.WriteString(" AND " + dimColumn(dim) + " = $" + strconv.Itoa(first+len(values)))
		values = append(values, filters[dim])
	}
	return text.String(), values
}

// Usages returns what a consumer may do and has done in its present periods. ErrNotFound: the
// consumer does not exist, or has no plan.
func (m *Metering) Usages(ctx context.Context, key ConsumerKey) ([]domain.Usage, error) {
	e, err := m.GetSubscription(ctx, key)
	if err != nil {
		return nil, err
	}
	now := m.db.Now()
	var list []domain.Usage
	for _, g := range e.Grants(now) {
		u := domain.Usage{Grant: g}
		if g.Meter != nil {
			u.Start, u.End = g.Period.Period(e.Anchor, now)
			if u.Used, err = ReadUsed(ctx, m.db.Conn(), e.ConsumerID, &g, u.Start, u.End); err != nil {
				return nil, store.Wrap("read usage", err)
			}
		}
		list = append(list, u)
	}
	return list, nil
}
