package pipeline

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
	"waybill.dev/shared/store"
)

// OutboxCursor is where a page of unsettled events ended; the zero value: the start.
type OutboxCursor struct {
	ReceivedAt time.Time
	Account    string
	ID         string
}

// OutboxEvent is an accepted event whose deliveries don't all have a stored outcome.
type OutboxEvent struct {
	Event   domain.Event
	Version int64 // the configuration version that its commit saw
	// Relayed is how many times the relay has published the event; -1: the event has never been published.
	Relayed int
	Place   int64 // see AcceptedEvent; 0: it has none
}

// Unsettled returns the events that were accepted, or last relayed, before the given time, in the
// order of acceptance. An empty page is the end; a short page need not be.
func (p *Pipeline) Unsettled(ctx context.Context, before time.Time, after OutboxCursor, limit int) ([]OutboxEvent, OutboxCursor, error) {
	var page []OutboxEvent
	next := after
	err := p.db.Snapshot(ctx, func(tx *gorm.DB) error {
		for len(page) == 0 {
			query := tx.Where("received_at < ? AND (relayed_at IS NULL OR relayed_at < ?)", store.InstantOf(before), store.InstantOf(before))
			if !next.ReceivedAt.IsZero() {
				query = query.Where("(received_at, account, id) > (?, ?, ?)", store.InstantOf(next.ReceivedAt), next.Account, next.ID)
			}
			var rows []outboxRow
			err := query.Order("received_at, account, id").Limit(limit).Find(&rows).Error
			if err != nil || len(rows) == 0 {
				return err
			}
			last := rows[len(rows)-1]
			next = OutboxCursor{last.ReceivedAt.Time(), last.Account, last.ID}
			if page, err = outboxEvents(tx, rows); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, after, store.Wrap("read unsettled events", err)
	}
	return page, next, nil
}

// UnsettledPlaces returns the unsettled events of an account with the places from first to last, in
// their order, at most limit. It leaves out events that were relayed at the given time or later.
func (p *Pipeline) UnsettledPlaces(ctx context.Context, account string, first, last int64, before time.Time, limit int) ([]OutboxEvent, error) {
	var page []OutboxEvent
	err := p.db.Snapshot(ctx, func(tx *gorm.DB) error {
		var rows []outboxRow
		err := tx.Where("account = ? AND place BETWEEN ? AND ?", account, first, last).
			Where("relayed_at IS NULL OR relayed_at < ?", store.InstantOf(before)).Order("place").Limit(limit).Find(&rows).Error
		if err == nil {
			page, err = outboxEvents(tx, rows)
		}
		return err
	})
	return page, store.Wrap("read unsettled events by place", err)
}

// Unpublished returns events that wait for the relay to publish them for the first time, the oldest
// ones first: alerts that the record stage has made. MarkRelayed takes them out.
func (p *Pipeline) Unpublished(ctx context.Context, limit int) ([]OutboxEvent, error) {
	var page []OutboxEvent
	err := p.db.Snapshot(ctx, func(tx *gorm.DB) error {
		var rows []outboxRow
		err := tx.Where("relayed < 0").Order("received_at, account, id").Limit(limit).Find(&rows).Error
		if err != nil || len(rows) == 0 {
			return err
		}
		page, err = outboxEvents(tx, rows)
		return err
	})
	return page, store.Wrap("read unpublished events", err)
}

func outboxEvents(tx *gorm.DB, rows []outboxRow) ([]OutboxEvent, error) {
	refs := store.All(rows, func(row outboxRow) dayRef {
		return dayRef{store.DateOf(row.ReceivedAt.Time()), eventRef{row.Account, row.ID}}
	})
	events, err := storedEvents(tx, refs)
	if err != nil {
		return nil, err
	}
	page := make([]OutboxEvent, 0, len(rows))
	for i, row := range rows {
		if event, ok := events[refs[i]]; ok {
			item := OutboxEvent{Event: event, Version: row.Version, Relayed: row.Relayed}
			if row.Place != nil {
				item.Place = *row.Place
			}
			page = append(page, item)
		}
	}
	return page, nil
}

// MarkRelayed notes that the relay published the events at the given time.
func (p *Pipeline) MarkRelayed(ctx context.Context, keys []domain.EventKey, at time.Time) error {
	if len(keys) == 0 {
		return nil
	}
	err := p.db.Again(ctx, func() error {
		return p.db.Write(ctx, "", func(c store.Conn) error {
			values := make([]any, 0, 4*len(keys))
			for _, k := range slices.SortedFunc(slices.Values(keys), domain.EventKey.Compare) {
				values = append(values, c.Moment(k.ReceivedAt), k.Account, k.ID, c.Moment(at))
			}
			return c.Batch(ctx, c.Rows(markRelayed(), values, nil)...)
		})
	})
	return store.Wrap("mark events relayed", err)
}

func markRelayed() store.MultiRow {
	return store.MultiRow{
		Head:  "UPDATE outbox AS o SET relayed_at = s.column4, relayed = o.relayed + 1 FROM (",
		Tail:  ") AS s WHERE o.received_at = s.column1 AND o.account = s.column2 AND o.id = s.column3",
		Types: "timestamptz,text,text,timestamptz",
	}
}

// OldestUnsettled returns when the oldest unsettled event was accepted; false: there is
// none.
func (p *Pipeline) OldestUnsettled(ctx context.Context) (time.Time, bool, error) {
	var rows []outboxRow
	err := p.db.Reading(ctx).Select("received_at").Order("received_at, account, id").Limit(1).Find(&rows).Error
	if err != nil {
		return time.Time{}, false, store.Wrap("read oldest unsettled event", err)
	}
	if len(rows) == 0 {
		return time.Time{}, false, nil
	}
	return rows[0].ReceivedAt.Time(), true, nil
}

// RestoreItem is a delivery that waited on the bus, as the log knows it.
type RestoreItem struct {
	Task          domain.Task // EventSeq is 0
	NextAttemptAt time.Time
	InLane        bool
	Status        domain.Status
	UpdatedAt     time.Time
	// Ordered: the delivery waits in the order of its shipment, and the task has its sequence.
	Ordered bool
}

// Restorable returns the deliveries that wait for a next attempt, in a hold queue, or for their
// turn among those of their shipment. They are in the order of their ids (of acceptance), after the
// given one. If since is not zero, deliveries that reached their state before it are left out.
// Deliveries with an open request are left out, because the request brings them back. The next page
// starts after the delivery next; empty: there is none. A page has at most limit of the next
// maxLooked waiting deliveries, and may be empty.
func (p *Pipeline) Restorable(ctx context.Context, since time.Time, after domain.DeliveryID, limit int) (items []RestoreItem, next domain.DeliveryID, err error) {
	err = p.db.Snapshot(ctx, func(tx *gorm.DB) error {
		query := tx.Table("deliveries AS d").Where("d."+sqlWaits+" AND d.id > ?", string(after)).Order("d.id").Session(&gorm.Session{})
		var ends []string
		if err := query.Offset(maxLooked-1).Limit(1).Pluck("d.id", &ends).Error; err != nil {
			return err
		}
		if len(ends) > 0 {
			next = domain.DeliveryID(ends[0])
			query = query.Where("d.id <= ?", ends[0])
		}
		if !since.IsZero() {
			query = query.Where("d.updated_at >= ?", p.db.Moment(since))
		}
		var rows []deliveryRow
		err := query.Where("(d.status <> 'pending' OR d.in_lane OR d.reason = ?) AND NOT "+sqlOpen, domain.ReasonBehindShipment).
			Limit(limit).Scan(&rows).Error
		if err != nil {
			return err
		}
		if len(rows) == limit {
			next = domain.DeliveryID(rows[limit-1].ID)
		}
		items, err = restoreItems(tx, rows)
		return err
	})
	return items, next, store.Wrap("read restorable deliveries", err)
}

func restoreItems(tx *gorm.DB, rows []deliveryRow) ([]RestoreItem, error) {
	refs := store.All(rows, func(row deliveryRow) dayRef { return dayRef{row.Day, eventRef{row.Account, row.EventID}} })
	events, err := storedEvents(tx, refs)
	if err != nil {
		return nil, err
	}
	items := make([]RestoreItem, 0, len(rows))
	for i, row := range rows {
		event, ok := events[refs[i]]
		at, valid := domain.DeliveryID(row.ID).ReceivedAt()
		if !ok || !valid {
			continue // there is nothing to send; Maintain ends the delivery
		}
		item := RestoreItem{
			Task: domain.Task{
				Delivery: domain.DeliveryID(row.ID), Account: row.Account, Webhook: domain.WebhookID(row.WebhookID),
				EventID: row.EventID, EventType: domain.EventType(row.EventType), ReceivedAt: at,
				Attempts: row.Attempts, RunAttempts: row.RunAttempts, RunStartedAt: row.RunStartedAt.Time(),
				Rev: domain.Revision(row.Rev), Test: row.Test, Body: event.Payload,
			},
			NextAttemptAt: row.NextAttemptAt.Time(),
			InLane:        row.InLane,
			Status:        domain.Status(row.Status),
			UpdatedAt:     row.UpdatedAt.Time(),
		}
		item.order(row, event)
		if row.InLane || item.Status == domain.StatusHeld {
			item.Task.HeldAt = row.UpdatedAt.Time()
		}
		items = append(items, item)
	}
	return items, nil
}

// order sets whether the delivery waits in the order of its shipment. A later run, which was asked
// for, does not.
func (r *RestoreItem) order(row deliveryRow, event domain.Event) {
	shipment := envelope.Shipment(event.Account, event.Payload)
	if row.Sequence == nil || shipment == nil || r.Task.Test || r.Task.Rev >= domain.RunStep {
		return
	}
	r.Ordered, r.Task.Sequence, r.Task.Shipment = true, *row.Sequence, *shipment
}

// BusStreams returns the marks that MarkBusStreams has set.
func (p *Pipeline) BusStreams(ctx context.Context) (map[string]domain.StreamMark, error) {
	var rows []busStreamRow
	if err := p.db.Reading(ctx).Find(&rows).Error; err != nil {
		return nil, store.Wrap("read bus streams", err)
	}
	streams := make(map[string]domain.StreamMark, len(rows))
	for _, row := range rows {
		streams[row.Name] = domain.StreamMark{
			Created: row.CreatedAt.Time(), LastSeq: uint64(row.LastSeq), Server: row.Server, SeenAt: row.SeenAt.Time(),
		}
	}
	return streams, nil
}

// MarkBusStreams stores the marks of streams, with times in microseconds. A stream that is later
// found behind its mark has lost messages.
func (p *Pipeline) MarkBusStreams(ctx context.Context, marks map[string]domain.StreamMark) error {
	rows := make([]busStreamRow, 0, len(marks))
	for name, mark := range marks {
		rows = append(rows, busStreamRow{name, store.InstantOf(mark.Created), int64(mark.LastSeq), mark.Server, store.InstantOf(mark.SeenAt)})
	}
	if len(rows) == 0 {
		return nil
	}
	err := p.db.Again(ctx, func() error {
		return p.db.Writing(ctx).Clauses(clause.OnConflict{
			Columns:   []clause.Column{{Name: "name"}},
			DoUpdates: clause.AssignmentColumns([]string{"created_at", "last_seq", "server", "seen_at"}),
		}).Create(&rows).Error
	})
	if err != nil {
		return fmt.Errorf("mark bus streams: %w", store.Classify(err))
	}
	return nil
}
