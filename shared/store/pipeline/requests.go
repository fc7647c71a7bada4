package pipeline

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/rollup"
)

// Kinds of requests.
const (
	requestTest  = "test"
	requestRetry = "retry"
)

// placeOfTest keeps the samples of tests out of every feed.
const placeOfTest = -1

// RequestTest stores a test event and asks for its delivery to one webhook of the event's account.
// The delivery is shown as pending at once. The store sets e.ReceivedAt. forge is the reason for
// which a good receiver refuses the event; empty: it should not refuse it. ErrNotFound: there is no
// such webhook; ErrConflict: the event's id was used today.
func (p *Pipeline) RequestTest(ctx context.Context, e domain.Event, w domain.WebhookID, forge domain.Forgery) (domain.DeliveryID, error) {
	var delivery domain.DeliveryID
	err := p.db.Tx(ctx, func(tx *gorm.DB) error {
		if err := liveWebhook(tx, e.Account, w); err != nil {
			return err
		}
		e.ReceivedAt = p.db.Now()
		delivery = domain.NewDeliveryID(e.Key(), w)
		event := eventRow{
			Day: store.DateOf(e.ReceivedAt), Account: e.Account, ID: e.ID, Type: string(e.Type),
			OccurredAt: e.Timestamp, Payload: e.Payload, ReceivedAt: store.InstantOf(e.ReceivedAt),
			Source: string(domain.SourceREST), Shipment: envelope.Shipment(e.Account, e.Payload),
			Place: placeOfTest,
		}
		if err := tx.Table(p.db.Conn().Partition(tableEvents, e.ReceivedAt)).Create(&event).Error; err != nil {
			return fmt.Errorf("insert event: %w", err)
		}
		accepted := rollup.InsertAccepted + "VALUES (?, ?, ?, 1)"
		if err := tx.Exec(accepted, e.Account, e.Type, p.db.Moment(rollup.MinuteOf(e.ReceivedAt))).Error; err != nil {
			return fmt.Errorf("count event: %w", err)
		}
		id, err := store.NewUUID()
		if err != nil {
			return err
		}
		err = tx.Create(&requestRow{
			ID: id + "-" + string(delivery), Kind: requestTest, Account: e.Account, WebhookID: string(w),
			EventID: e.ID, EventType: string(e.Type), Day: store.DateOf(e.ReceivedAt),
			DeliveryID: string(delivery), Test: true, Forge: forgeOf(forge), CreatedAt: store.InstantOf(p.db.Now()),
		}).Error
		if err != nil {
			return err
		}
		return p.audit.Note(ctx, tx, auditlog.ActionTestWebhook, e.Account, webhookResource(w), deliveryResource(delivery))
	})
	return delivery, store.Wrap("request test", err)
}

func forgeOf(f domain.Forgery) *string {
	if f == "" {
		return nil
	}
	text := string(f)
	return &text
}

func liveWebhook(tx *gorm.DB, account string, id domain.WebhookID) error {
	return tx.Select("id").Where("id = ? AND account = ? AND NOT deleted", string(id), account).Take(&webhookRow{}).Error
}

// refusePull returns ErrConflict for a webhook that is read by pull, because nothing is sent to it.
func refusePull(tx *gorm.DB, id domain.WebhookID) error {
	var n int64
	err := tx.Model(&webhookRow{}).Where("id = ? AND delivery = ?", string(id), string(domain.DeliveryPull)).Count(&n).Error
	if err == nil && n > 0 {
		return domain.ErrConflict
	}
	return err
}

// RequestRetry asks for another run of a delivery, whatever its state, and returns the delivery as
// it is shown from now on. ErrConflict: an attempt is in flight or due, a request is already open,
// or the webhook is deleted or read by pull.
func (p *Pipeline) RequestRetry(ctx context.Context, account string, id domain.DeliveryID) (domain.Delivery, error) {
	at, ok := id.ReceivedAt()
	if !ok {
		return domain.Delivery{}, store.Wrap("request retry", domain.ErrNotFound)
	}
	var shown domain.Delivery
	err := p.db.Tx(ctx, func(tx *gorm.DB) error {
		row, err := takeDelivery(tx, p.rowLock(), account, id, store.DateOf(at))
		if err != nil {
			return err
		}
		now := p.db.Now()
		if inFlight(row, now) || row.Open || row.Dead {
			return domain.ErrConflict
		}
		if err := refusePull(tx, domain.WebhookID(row.Delivery.WebhookID)); err != nil {
			return err
		}
		request, err := store.NewUUID()
		if err != nil {
			return err
		}
		err = tx.Create(&requestRow{
			ID: request + "-" + row.Delivery.ID, Kind: requestRetry, Account: account, WebhookID: row.Delivery.WebhookID,
			EventID: row.Delivery.EventID, EventType: row.Delivery.EventType, Day: row.Delivery.Day,
			DeliveryID: row.Delivery.ID, Test: row.Delivery.Test, CreatedAt: store.InstantOf(now),
		}).Error
		if err != nil {
			return err
		}
		row.Open = true
		shown = row.shown()
		return p.audit.Note(ctx, tx, auditlog.ActionRetryDelivery, account, deliveryResource(id))
	})
	return shown, store.Wrap("request retry", err)
}

// inFlight reports whether an attempt runs, or is due and may have begun.
func inFlight(row deliveryListRow, now time.Time) bool {
	switch domain.Status(row.Delivery.Status) {
	case domain.StatusPending:
		return !row.Cut
	case domain.StatusRetrying:
		return !row.Delivery.InLane && !row.Delivery.NextAttemptAt.Time().After(now)
	}
	return false
}

// rowLock makes a read of deliveries wait for transactions that change the same row; SQLite has one writer.
func (p *Pipeline) rowLock() []clause.Expression {
	if p.db.SQLite() {
		return nil
	}
	return []clause.Expression{clause.Locking{Strength: clause.LockingStrengthUpdate, Table: clause.Table{Name: "d"}}}
}

// OpenRequests returns, as complete tasks, the requests that were not relayed yet or were relayed
// before the given time, in the order of their ids, after the id after (empty: from the start). The
// next page starts after the last task's Request. An empty page is the end; a short page need not
// be, because requests without an event are left out.
func (p *Pipeline) OpenRequests(ctx context.Context, before time.Time, after string, limit int) ([]domain.Task, error) {
	var tasks []domain.Task
	err := p.db.Snapshot(ctx, func(tx *gorm.DB) error {
		for len(tasks) == 0 {
			var rows []requestedRow
			query := tx.Table(sqlRequestJoin).
				Select(`r.id, r.kind, r.account, r.webhook_id, r.event_id, r.event_type, r.day, r.delivery_id, r.test, r.forge, r.created_at, r.relayed_at,
					coalesce(d.attempts, 0) AS attempts, coalesce(d.rev, 0) AS rev, (d.id IS NOT NULL) AS known`).
				Where("r.id > ?", after)
			if before.IsZero() {
				query = query.Where("r.relayed_at IS NULL") // relayed requests, which may be many, are not in the index requests_unrelayed
			} else {
				query = query.Where("r.relayed_at IS NULL OR r.relayed_at < ?", store.InstantOf(before))
			}
			err := query.Order("r.id").Limit(limit).Scan(&rows).Error
			if err != nil || len(rows) == 0 {
				return err
			}
			if tasks, err = requestedTasks(tx, rows); err != nil {
				return err
			}
			after = rows[len(rows)-1].Request.ID // the end of a page on which no event is left
		}
		return nil
	})
	return tasks, store.Wrap("read open requests", err)
}

// requestedRow is a request with the state of its delivery.
type requestedRow struct {
	Request  requestRow `gorm:"embedded"` // exported, because gorm ignores unexported fields
	Attempts int
	Rev      int64
	Known    bool
}

func requestedTasks(tx *gorm.DB, rows []requestedRow) ([]domain.Task, error) {
	refs := store.All(rows, func(row requestedRow) dayRef {
		return dayRef{row.Request.Day, eventRef{row.Request.Account, row.Request.EventID}}
	})
	events, err := storedEvents(tx, refs)
	if err != nil {
		return nil, err
	}
	tasks := make([]domain.Task, 0, len(rows))
	for i, row := range rows {
		request := row.Request
		event, ok := events[refs[i]]
		at, valid := domain.DeliveryID(request.DeliveryID).ReceivedAt()
		if !ok || !valid {
			continue // the event is past the retention; the request is removed with it
		}
		task := domain.Task{
			Delivery: domain.DeliveryID(request.DeliveryID), Account: request.Account,
			Webhook: domain.WebhookID(request.WebhookID), EventID: request.EventID,
			EventType: domain.EventType(request.EventType), ReceivedAt: at,
			Attempts: row.Attempts, Test: request.Test, Request: request.ID, Body: event.Payload,
		}
		if request.Forge != nil {
			task.Forge = domain.Forgery(*request.Forge)
		}
		if row.Known {
			task.Rev = domain.Revision(row.Rev).NextRun()
		}
		tasks = append(tasks, task)
	}
	return tasks, nil
}

// MarkRequestsRelayed notes that the requests went to the bus at the given time.
func (p *Pipeline) MarkRequestsRelayed(ctx context.Context, ids []string, at time.Time) error {
	for len(ids) > 0 {
		n := min(len(ids), bodyPage)
		err := p.db.Again(ctx, func() error {
			return p.db.Writing(ctx).Model(&requestRow{}).Where("id IN ?", ids[:n]).
				UpdateColumn("relayed_at", store.InstantOf(at)).Error
		})
		if err != nil {
			return store.Wrap("mark requests relayed", err)
		}
		ids = ids[n:]
	}
	return nil
}
