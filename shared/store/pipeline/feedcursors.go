package pipeline

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
)

// MaxFeedCursors bounds the named cursors of a webhook.
const MaxFeedCursors = 100

// FeedCursor is a named place in a webhook's feed up to which a receiver has read.
type FeedCursor struct {
	Name      string
	Cursor    string
	UpdatedAt time.Time
}

// webhookCursorRow is a named cursor.
type webhookCursorRow struct {
	WebhookID string `gorm:"primaryKey"`
	Name      string `gorm:"primaryKey"`
	Account   string
	Cursor    string
	UpdatedAt store.Instant `gorm:"autoUpdateTime:false"`
}

func (webhookCursorRow) TableName() string { return "webhook_cursors" }

func (r webhookCursorRow) shown() FeedCursor {
	return FeedCursor{Name: r.Name, Cursor: r.Cursor, UpdatedAt: r.UpdatedAt.Time()}
}

// SetFeedCursor stores a cursor of the webhook's feed under a name. store.ErrCursor: it is not such
// a cursor; domain.ErrLimit: the webhook has MaxFeedCursors others.
func (p *Pipeline) SetFeedCursor(ctx context.Context, account string, webhook domain.WebhookID, name, cursor string) (FeedCursor, error) {
	if _, err := decodeFeedCursor(cursor, account, webhook); err != nil || cursor == "" {
		return FeedCursor{}, fmt.Errorf("set cursor: %w", store.ErrCursor)
	}
	row := webhookCursorRow{WebhookID: string(webhook), Name: name, Account: account, Cursor: cursor, UpdatedAt: store.InstantOf(p.db.Now())}
	err := p.db.Tx(ctx, func(tx *gorm.DB) error {
		// The lock on the webhook orders transactions that add names.
		if _, _, err := p.webhook(tx, account, webhook, true); err != nil {
			return err
		}
		var others int64
		if err := tx.Model(&webhookCursorRow{}).Where("webhook_id = ? AND name <> ?", row.WebhookID, name).Count(&others).Error; err != nil {
			return err
		}
		if others >= MaxFeedCursors {
			return fmt.Errorf("webhook has %d cursors: %w", others, domain.ErrLimit)
		}
		if err := tx.Clauses(clause.OnConflict{UpdateAll: true}).Create(&row).Error; err != nil {
			return err
		}
		return p.audit.Note(ctx, tx, auditlog.ActionSetCursor, account, cursorResources(webhook, name)...)
	})
	return row.shown(), store.Wrap("set cursor", err)
}

// GetFeedCursor returns a named cursor of the account's webhook.
func (p *Pipeline) GetFeedCursor(ctx context.Context, account string, webhook domain.WebhookID, name string) (FeedCursor, error) {
	var row webhookCursorRow
	err := p.db.Reading(ctx).Where("webhook_id = ? AND name = ? AND account = ?", string(webhook), name, account).Take(&row).Error
	return row.shown(), store.Wrap("get cursor", err)
}

// FeedCursors returns the named cursors of the account's webhook, by name.
func (p *Pipeline) FeedCursors(ctx context.Context, account string, webhook domain.WebhookID) ([]FeedCursor, error) {
	var rows []webhookCursorRow
	err := p.db.Reading(ctx).Where("webhook_id = ? AND account = ?", string(webhook), account).Order("name").Find(&rows).Error
	list := store.All(rows, webhookCursorRow.shown)
	return list, store.Wrap("list cursors", err)
}

// DeleteFeedCursor deletes a named cursor of the account's webhook. domain.ErrNotFound: it has no
// cursor with this name.
func (p *Pipeline) DeleteFeedCursor(ctx context.Context, account string, webhook domain.WebhookID, name string) error {
	return store.Wrap("delete cursor", p.db.Tx(ctx, func(tx *gorm.DB) error {
		result := tx.Where("webhook_id = ? AND name = ? AND account = ?", string(webhook), name, account).Delete(&webhookCursorRow{})
		if result.Error != nil {
			return result.Error
		}
		if result.RowsAffected == 0 {
			return domain.ErrNotFound
		}
		return p.audit.Note(ctx, tx, auditlog.ActionDeleteCursor, account, cursorResources(webhook, name)...)
	}))
}

// cursorResources returns the resources of a change of a cursor, for the audit log.
func cursorResources(webhook domain.WebhookID, name string) []domain.Resource {
	return []domain.Resource{webhookResource(webhook), {Type: auditlog.ResourceCursor, Name: name}}
}

// ReadBeyond returns the names of the webhook's cursors that are after an event of the account, in
// the order of names: their receivers have read the event.
func (p *Pipeline) ReadBeyond(ctx context.Context, webhook domain.WebhookID, event domain.EventKey) ([]string, error) {
	var row eventRow
	err := p.db.Reading(ctx).Select("xact", "received_at", "place", "id").
		Where("account = ? AND id = ? AND day = ?", event.Account, event.ID, store.DateOf(event.ReceivedAt)).Take(&row).Error
	if err != nil {
		return nil, store.Wrap("find event in the feed", err)
	}
	place := FeedPlace{Xact: row.Xact, ReceivedAt: row.ReceivedAt, Place: row.Place, ID: row.ID}
	cursors, err := p.FeedCursors(ctx, event.Account, webhook)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, c := range cursors {
		if at, err := decodeFeedCursor(c.Cursor, event.Account, webhook); err == nil && at.compare(place) >= 0 {
			names = append(names, c.Name)
		}
	}
	return names, nil
}
