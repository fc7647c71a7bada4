package recorder

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm/clause"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// SequenceKey is a webhook and a shipment, whose deliveries are numbered together.
type SequenceKey struct {
	Webhook  domain.WebhookID
	Shipment int64 // see domain.ShipmentKey
}

func (k SequenceKey) compare(other SequenceKey) int {
	return cmp.Or(cmp.Compare(k.Webhook, other.Webhook), cmp.Compare(k.Shipment, other.Shipment))
}

// Numbers are the greatest numbers of a webhook and shipment.
type Numbers struct {
	Last   int64 // of a delivery that has an outcome
	Missed int64 // of a delivery that has ended and did not arrive; 0: none
}

// lastSequence has the numbers of a webhook and shipment.
type lastSequence struct {
	SequenceKey
	Numbers
}

// lastSequences returns the numbers in outcomes, in the order of their keys, because two
// transactions may store some of the same.
func lastSequences(outcomes []domain.Outcome) []lastSequence {
	var found map[SequenceKey]Numbers
	for i := range outcomes {
		o := &outcomes[i]
		if o.Sequence == 0 {
			continue
		}
		if found == nil {
			found = make(map[SequenceKey]Numbers)
		}
		key := SequenceKey{o.Webhook, o.Shipment}
		n := found[key]
		n.Last = max(n.Last, o.Sequence)
		if o.Status == domain.StatusFailed {
			n.Missed = max(n.Missed, o.Sequence)
		}
		found[key] = n
	}
	list := make([]lastSequence, 0, len(found))
	for key, n := range found {
		list = append(list, lastSequence{key, n})
	}
	slices.SortFunc(list, func(a, b lastSequence) int { return a.compare(b.SequenceKey) })
	return list
}

// sequenceOf returns the number in the form in which a delivery's row has it.
func sequenceOf(o *domain.Outcome) *int64 {
	if o.Sequence == 0 {
		return nil
	}
	return &o.Sequence
}

// Sequences returns the recorded numbers of webhooks and shipments; those without numbers are left out.
func (r *Recorder) Sequences(ctx context.Context, keys []SequenceKey) (map[SequenceKey]Numbers, error) {
	last := make(map[SequenceKey]Numbers, len(keys))
	for part := range slices.Chunk(keys, revsPage) {
		pairs := make([]any, 0, 2*len(part))
		for _, k := range part {
			pairs = append(pairs, string(k.Webhook), k.Shipment)
		}
		// Without the casts, Postgres takes parameters in VALUES for text.
		const pair = ", (CAST(? AS text), CAST(? AS bigint))"
		var rows []webhookSequenceRow
		err := r.db.Reading(ctx).Where("(webhook_id, shipment) IN (VALUES "+strings.Repeat(pair, len(part))[2:]+")", pairs...).Find(&rows).Error
		if err != nil {
			return nil, store.Wrap("read sequences", err)
		}
		for _, row := range rows {
			last[SequenceKey{domain.WebhookID(row.WebhookID), row.Shipment}] = Numbers{row.Sequence, row.Missed}
		}
	}
	return last, nil
}

// OrderStart is where the order of an account starts: the order stage handles events of the account
// that were published on NATS from there on.
type OrderStart struct {
	Account string
	Created time.Time // of the stream EVENTS to which the sequence belongs
	From    uint64
}

// OrderStarts returns the starts of all accounts that have, or had, a webhook with ordering.
func (r *Recorder) OrderStarts(ctx context.Context) ([]OrderStart, error) {
	var rows []orderingStartRow
	if err := r.db.Reading(ctx).Find(&rows).Error; err != nil {
		return nil, store.Wrap("read the starts of orders", err)
	}
	return store.All(rows, orderingStartRow.start), nil
}

func (r orderingStartRow) start() OrderStart {
	return OrderStart{Account: r.Account, Created: r.StreamCreated.Time(), From: uint64(r.FromSequence)}
}

// StartOrder stores where the order of an account starts, unless a start on the same stream is stored, and
// returns the stored start. If the order has started on another stream before, it has all messages of this one.
func (r *Recorder) StartOrder(ctx context.Context, start OrderStart) (OrderStart, error) {
	row := orderingStartRow{Account: start.Account, StreamCreated: store.InstantOf(start.Created), FromSequence: int64(start.From)}
	var known []orderingStartRow
	err := r.db.Reading(ctx).Where("account = ? AND stream_created = ?", start.Account, row.StreamCreated).Find(&known).Error
	if err != nil {
		return OrderStart{}, store.Wrap("read where an order starts", err)
	}
	if len(known) > 0 { // a new owner writes nothing
		return known[0].start(), nil
	}
	err = r.db.Again(ctx, func() error {
		return r.db.Writing(ctx).Clauses(clause.OnConflict{
			Columns:   []clause.Column{{Name: "account"}},
			DoUpdates: clause.Assignments(map[string]any{"stream_created": row.StreamCreated, "from_sequence": 1}),
			Where:     clause.Where{Exprs: []clause.Expression{clause.Expr{SQL: "ordering_starts.stream_created <> excluded.stream_created"}}},
		}).Create(&row).Error
	})
	if err == nil {
		err = r.db.Reading(ctx).Where("account = ?", start.Account).Take(&row).Error
	}
	return row.start(), store.Wrap("note where an order starts", err)
}

// NextPlace returns the lowest place, from a number on, of an unsettled event of an account. If
// there is none, it returns the place that the account's next event gets.
func (r *Recorder) NextPlace(ctx context.Context, account string, from int64) (int64, error) {
	var next sql.NullInt64
	err := r.db.Reading(ctx).Raw(`SELECT coalesce(
		(SELECT min(place) FROM outbox WHERE account = ? AND place >= ?),
		(SELECT last_place + 1 FROM ordering_accounts WHERE account = ?))`, account, from, account).Row().Scan(&next)
	if err != nil {
		return 0, store.Wrap("look for the next place", err)
	}
	return max(next.Int64, 1), nil
}

// PlacedEvent is an unsettled event that has a place.
type PlacedEvent struct {
	domain.Event // account, id, type, time and body

	Place   int64
	Version int64 // of the configuration that it needs
}

// placedPage bounds how many events PlacedEvents returns.
const placedPage = 500

// PlacedEvents returns the first unsettled events of an account with places from one number on and below
// another, in their order. An event that is not in the log any more has no type and no body.
func (r *Recorder) PlacedEvents(ctx context.Context, account string, from, below int64) ([]PlacedEvent, error) {
	var rows []struct {
		Place, Version int64
		ID             string
		ReceivedAt     store.Instant
	}
	err := r.db.Reading(ctx).Raw(`SELECT place, version, id, received_at FROM outbox
		WHERE account = ? AND place >= ? AND place < ? ORDER BY place LIMIT ?`, account, from, below, placedPage).Scan(&rows).Error
	if err != nil {
		return nil, store.Wrap("read unsettled places", err)
	}
	ids := make(map[store.Date][]string)
	for _, row := range rows {
		day := store.DateOf(row.ReceivedAt.Time())
		ids[day] = append(ids[day], row.ID)
	}
	type body struct {
		ID, Type string
		Payload  []byte
	}
	bodies := make(map[string]body, len(rows))
	for day, list := range ids {
		var found []body
		err := r.db.Reading(ctx).Raw("SELECT id, type, payload FROM events WHERE day = ? AND account = ? AND id IN ?", day, account, list).Scan(&found).Error
		if err != nil {
			return nil, store.Wrap("read unsettled events", err)
		}
		for _, b := range found {
			bodies[b.ID] = b
		}
	}
	list := make([]PlacedEvent, 0, len(rows))
	for _, row := range rows {
		b := bodies[row.ID]
		event := domain.Event{Account: account, ID: row.ID, Type: domain.EventType(b.Type), Payload: b.Payload, ReceivedAt: row.ReceivedAt.Time()}
		list = append(list, PlacedEvent{event, row.Place, row.Version})
	}
	return list, nil
}
