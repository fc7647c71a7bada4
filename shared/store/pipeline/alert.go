package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
	"waybill.dev/shared/store"
)

// AddAlert adds an alert to the log of an account, if one of its webhooks is registered for it. tx is the transaction
// that makes the change which the alert reports; it has begun with Store.AddsEvents. The relay publishes the alert.
func AddAlert(ctx context.Context, db *store.Store, tx *gorm.DB, account string, kind domain.EventType, data any) error {
	var registered []string
	// LIKE, because the index has the same condition.
	err := tx.Model(&webhookRow{}).Where("account = ? AND events LIKE '%waybill.%' AND NOT deleted", account).Pluck("events", &registered).Error
	if err != nil {
		return fmt.Errorf("read webhooks for alerts: %w", err)
	}
	if !slices.ContainsFunc(registered, func(events string) bool { return slices.Contains(strings.Split(events, ","), string(kind)) }) {
		return nil
	}
	event, err := newAlert(db.Now(), account, kind, data)
	if err != nil {
		return err
	}
	create := tx.Table(db.Conn().Partition(tableEvents, event.ReceivedAt.Time()))
	if db.SQLite() {
		if event.Xact, err = db.Beneath(tx).NextXact(ctx); err != nil {
			return fmt.Errorf("number the commit: %w", err)
		}
	} else {
		create = create.Omit("xact") // the column's default is the id of the transaction
	}
	if err := create.Create(&event).Error; err != nil {
		return fmt.Errorf("insert alert: %w", err)
	}
	waits := outboxRow{ReceivedAt: event.ReceivedAt, Account: account, ID: event.ID, Relayed: -1}
	if err := tx.Model(&configVersionRow{}).Pluck("version", &waits.Version).Error; err != nil {
		return fmt.Errorf("read version of webhooks: %w", err)
	}
	if err := tx.Create(&waits).Error; err != nil {
		return fmt.Errorf("insert alert into outbox: %w", err)
	}
	return nil
}

func newAlert(now time.Time, account string, kind domain.EventType, data any) (eventRow, error) {
	body, err := json.Marshal(data)
	if err != nil {
		return eventRow{}, fmt.Errorf("make an alert: %w", err)
	}
	id, err := store.NewUUID()
	if err != nil {
		return eventRow{}, err
	}
	at := now.UTC().Truncate(time.Millisecond)
	e := envelope.Event{ID: "evt_" + strings.ReplaceAll(id, "-", ""), Type: kind, Timestamp: at.Format("2006-01-02T15:04:05.000Z07:00"), Data: body}
	return eventRow{
		Day: store.DateOf(at), Account: account, ID: e.ID, Type: string(kind), OccurredAt: e.Timestamp, Payload: e.Payload(),
		ReceivedAt: store.InstantOf(at), Source: string(domain.SourceWaybill),
	}, nil
}
