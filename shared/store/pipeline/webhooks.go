package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"waybill.dev/shared/domain"
)

// WebhookOnce is an Idempotency-Key on the registration of a webhook.
type WebhookOnce struct {
	Path, Key string
	BodyHash  [32]byte
	// Respond returns the answer to keep for the webhook as it was stored.
	Respond func(domain.Webhook) (status int, body []byte)
}

// CreateWebhook stores w in its account; an empty ID is filled in. CreatedAt, UpdatedAt
// and the versions are the store's. domain.ErrLimit: the account has MaxWebhooks. When
// once was answered before, its answer is returned and nothing stored; ErrConflict: it
// was used with another body.
func (s *Store) CreateWebhook(ctx context.Context, w domain.Webhook, once *WebhookOnce) (domain.Webhook, *StoredResponse, error) {
	var created domain.Webhook
	var earlier *StoredResponse
	err := s.tx(ctx, func(tx *gorm.DB) error {
		created, earlier = w, nil
		version, err := bumpVersion(tx)
		if err != nil {
			return err
		}
		if once == nil {
			return s.addWebhook(ctx, tx, &created, version)
		}
		key := newKeyRef(w.Account, once.Path, once.Key)
		if earlier, err = s.claim(ctx, rawConn(tx), key, once.BodyHash, s.clock()); err != nil {
			return err
		}
		if earlier != nil {
			return errAnswered
		}
		if err := s.addWebhook(ctx, tx, &created, version); err != nil {
			return err
		}
		status, body := once.Respond(created)
		return s.keepResponse(ctx, rawConn(tx), key, StoredResponse{status, body})
	})
	if errors.Is(err, errAnswered) {
		return domain.Webhook{}, earlier, nil
	}
	if err != nil {
		return domain.Webhook{}, nil, wrap("create webhook", err)
	}
	return created, nil, nil
}

// errAnswered rolls a transaction back whose answer is known already.
var errAnswered = errors.New("answered before")

func (s *Store) addWebhook(ctx context.Context, tx *gorm.DB, w *domain.Webhook, version int64) error {
	if err := s.insertWebhook(tx, w, version); err != nil {
		return err
	}
	return s.note(ctx, tx, ActionCreateWebhook, w.Account, webhookResource(w.ID))
}

func (s *Store) insertWebhook(tx *gorm.DB, w *domain.Webhook, version int64) error {
	count, err := countWebhook(tx, w.Account, 1)
	if err != nil {
		return err
	}
	if count > domain.MaxWebhooks {
		return fmt.Errorf("account has %d webhooks: %w", count-1, domain.ErrLimit)
	}
	if w.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return fmt.Errorf("make webhook id: %w", err)
		}
		w.ID = domain.WebhookID(id.String())
	}
	now := s.clock()
	w.CreatedAt, w.UpdatedAt, w.Version = now, now, version
	w.ActivatedVersion, w.ActivatedAt, w.DeactivatedAt, w.Deleted = 0, time.Time{}, time.Time{}, false
	if w.Active {
		w.ActivatedVersion, w.ActivatedAt = version, now
	} else {
		w.DeactivatedAt = now
	}
	row, err := s.webhookToRow(*w)
	if err != nil {
		return err
	}
	return tx.Create(&row).Error
}

// countWebhook adds change to the number of an account's webhooks, and returns it.
func countWebhook(tx *gorm.DB, account string, change int) (int64, error) {
	var count int64
	err := tx.Raw(`INSERT INTO webhook_counts (account, webhooks) VALUES (?, ?)
		ON CONFLICT (account) DO UPDATE SET webhooks = webhook_counts.webhooks + excluded.webhooks RETURNING webhooks`,
		account, change).Scan(&count).Error
	if err != nil {
		return 0, fmt.Errorf("count webhooks: %w", err)
	}
	return count, nil
}

// bumpVersion raises the configuration version and locks it until the end of the
// transaction. Whoever changes webhooks does this first: that orders the changes like
// their versions.
func bumpVersion(tx *gorm.DB) (int64, error) {
	var version int64
	err := tx.Raw("UPDATE config_version SET version = version + 1 WHERE id = 1 RETURNING version").Scan(&version).Error
	if err != nil {
		return 0, fmt.Errorf("raise configuration version: %w", err)
	}
	return version, nil
}

// sqlWebhookWeight is what a webhook weighs, sealed headers included.
const sqlWebhookWeight = "octet_length(url) + octet_length(description) + coalesce(octet_length(retry_schedule), 0) + coalesce(octet_length(headers), 0) + 384"

// ListWebhooks returns an account's webhooks, oldest first, each with its health at the
// same index, and how many there are. Limit 0: all of them.
// They are fewer when they are large, see MaxPageBytes.
func (s *Store) ListWebhooks(ctx context.Context, account string, limit, offset int) ([]domain.Webhook, []domain.Health, int, error) {
	var webhooks []domain.Webhook
	var healths []domain.Health
	var total int64
	err := s.snapshot(ctx, func(tx *gorm.DB) error {
		scope := tx.Model(&webhookRow{}).Where("account = ? AND NOT deleted", account)
		if err := scope.Session(&gorm.Session{}).Count(&total).Error; err != nil {
			return err
		}
		if limit == 0 {
			limit = -1
		}
		const order = "created_at, id"
		fit, err := weight{sql: sqlWebhookWeight}.fits(scope, order, Page{limit, offset})
		if err != nil || fit == 0 {
			return err
		}
		var rows []webhookRow
		if err := scope.Session(&gorm.Session{}).Order(order).Limit(fit).Offset(offset).Find(&rows).Error; err != nil {
			return err
		}
		byID := map[string]domain.Health{}
		var kept []webhookHealthRow
		err = tx.Where("webhook_id IN (?)", tx.Model(&webhookRow{}).Select("id").Where("account = ? AND NOT deleted", account)).Find(&kept).Error
		if err != nil {
			return err
		}
		for _, h := range kept {
			byID[h.WebhookID] = h.domain()
		}
		for _, row := range rows {
			w := s.webhookFromRow(row)
			health, ok := byID[row.ID]
			if !ok {
				health.Webhook = w.ID
			}
			webhooks, healths = append(webhooks, w), append(healths, health)
		}
		return nil
	})
	if err != nil {
		return nil, nil, 0, wrap("list webhooks", err)
	}
	return webhooks, healths, int(total), nil
}

// snapshot runs f on one consistent view of the database.
func (s *Store) snapshot(ctx context.Context, f func(tx *gorm.DB) error) error {
	options := &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	if s.SQLite() {
		options = nil // a reading transaction is a snapshot there; the driver knows no levels
	}
	return s.read.WithContext(ctx).Transaction(f, options)
}

// GetWebhook returns one live webhook of the account with its health.
func (s *Store) GetWebhook(ctx context.Context, account string, id domain.WebhookID) (domain.Webhook, domain.Health, error) {
	w, h, err := s.webhook(s.read.WithContext(ctx), account, id, false)
	if err != nil {
		return domain.Webhook{}, domain.Health{}, wrap("get webhook", err)
	}
	return w, h, nil
}

func (s *Store) webhook(tx *gorm.DB, account string, id domain.WebhookID, lock bool) (domain.Webhook, domain.Health, error) {
	query := tx.Where("id = ? AND account = ? AND NOT deleted", string(id), account)
	if lock && !s.SQLite() {
		query = query.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate})
	}
	var row webhookRow
	if err := query.Take(&row).Error; err != nil {
		return domain.Webhook{}, domain.Health{}, err
	}
	health := webhookHealthRow{WebhookID: row.ID}
	err := tx.Where("webhook_id = ?", row.ID).Limit(1).Find(&health).Error
	return s.webhookFromRow(row), health.domain(), err
}

// UpdateWebhook applies change to one webhook and stores it under a new version.
//
// change sees Active as it holds: false also when a dispatcher disabled the webhook.
// What it leaves false stays as it was; when it sets true on a webhook that was inactive
// for either reason, the webhook is active from the new version on. An error of change
// is returned as it is and nothing stored. domain.ErrUnreadable: the webhook has a Fault.
func (s *Store) UpdateWebhook(ctx context.Context, account string, id domain.WebhookID, change func(*domain.Webhook) error) (domain.Webhook, domain.Health, error) {
	var updated domain.Webhook
	var health domain.Health
	err := s.tx(ctx, func(tx *gorm.DB) error {
		version, err := bumpVersion(tx)
		if err != nil {
			return err
		}
		before, h, err := s.webhook(tx, account, id, true)
		if err != nil {
			return err
		}
		if before.Fault != "" {
			return fmt.Errorf("%s: %w", before.Fault, domain.ErrUnreadable)
		}
		health = h
		_, inactive := before.Inactive(health)
		after := before
		after.Active = !inactive
		if err := change(&after); err != nil {
			return err
		}
		updated = s.stamp(before, after, inactive, version)
		row, err := s.webhookToRow(updated)
		if err != nil {
			return err
		}
		if err := tx.Save(&row).Error; err != nil {
			return err
		}
		return s.note(ctx, tx, updateAction(ctx), account, webhookResource(id))
	})
	if err != nil {
		return domain.Webhook{}, domain.Health{}, wrap("update webhook", err)
	}
	return updated, health, nil
}

// stamp settles what of an update is the store's to say.
func (s *Store) stamp(before, after domain.Webhook, wasInactive bool, version int64) domain.Webhook {
	now := s.clock()
	after.ID, after.Account, after.CreatedAt, after.Deleted = before.ID, before.Account, before.CreatedAt, false
	after.UpdatedAt, after.Version = now, version
	after.ActivatedVersion, after.ActivatedAt = before.ActivatedVersion, before.ActivatedAt
	after.DeactivatedAt = before.DeactivatedAt
	switch {
	case wasInactive && after.Active:
		after.ActivatedVersion, after.ActivatedAt = version, now
	case !wasInactive && !after.Active:
		after.DeactivatedAt = now
	case wasInactive:
		after.Active = before.Active // nothing was said about it
	}
	return after
}

// DeleteWebhook leaves of a webhook what its log needs: secrets, headers and the URL are
// wiped. From now on the log shows its undelivered deliveries as failed.
func (s *Store) DeleteWebhook(ctx context.Context, account string, id domain.WebhookID) error {
	err := s.tx(ctx, func(tx *gorm.DB) error {
		version, err := bumpVersion(tx)
		if err != nil {
			return err
		}
		now := instantOf(s.clock())
		result := tx.Model(&webhookRow{}).
			Where("id = ? AND account = ? AND NOT deleted", string(id), account).
			UpdateColumns(map[string]any{
				"deleted": true, "deleted_at": now, "updated_at": now, "version": version, "active": false,
				"url": "", "description": "", "headers": nil, "secret": nil, "previous_secret": nil,
				"previous_secret_expires_at": nil,
			})
		if result.Error != nil {
			return result.Error
		}
		if result.RowsAffected == 0 {
			return domain.ErrNotFound
		}
		if _, err := countWebhook(tx, account, -1); err != nil {
			return err
		}
		return s.note(ctx, tx, ActionDeleteWebhook, account, webhookResource(id))
	})
	return wrap("delete webhook", err)
}

// ConfigVersion returns the version of the last webhook change; the first is 1.
func (s *Store) ConfigVersion(ctx context.Context) (int64, error) {
	var version int64
	err := s.read.WithContext(ctx).Raw("SELECT version FROM config_version WHERE id = 1").Scan(&version).Error
	return version, wrap("read configuration version", err)
}

// Webhooks returns the webhooks of all accounts that changed after version since, the
// deleted ones too, and the version that the answer stands for. Since 0: all live ones.
func (s *Store) Webhooks(ctx context.Context, since int64) ([]domain.Webhook, int64, error) {
	var webhooks []domain.Webhook
	var version int64
	err := s.snapshot(ctx, func(tx *gorm.DB) error {
		if err := tx.Raw("SELECT version FROM config_version WHERE id = 1").Scan(&version).Error; err != nil {
			return err
		}
		query := tx.Where("version > ?", since).Order("version")
		if since == 0 {
			query = tx.Where("NOT deleted").Order("version")
		}
		var rows []webhookRow
		if err := query.Find(&rows).Error; err != nil {
			return err
		}
		webhooks = make([]domain.Webhook, 0, len(rows))
		for _, row := range rows {
			webhooks = append(webhooks, s.webhookFromRow(row))
		}
		return nil
	})
	if err != nil {
		return nil, 0, wrap("read webhooks", err)
	}
	return webhooks, version, nil
}

// LiveWebhooks returns those of the webhooks named, of any account, that are there and not
// deleted.
func (s *Store) LiveWebhooks(ctx context.Context, ids []domain.WebhookID) ([]domain.Webhook, error) {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = string(id)
	}
	var rows []webhookRow
	if err := s.read.WithContext(ctx).Where("id IN ? AND NOT deleted", texts).Find(&rows).Error; err != nil {
		return nil, wrap("look webhooks up", err)
	}
	webhooks := make([]domain.Webhook, len(rows))
	for i, row := range rows {
		webhooks[i] = s.webhookFromRow(row)
	}
	return webhooks, nil
}

// Healths returns the webhooks' healths that were written at since or later, by the
// clocks of those who wrote them: ask with a margin. The zero time: all of them.
func (s *Store) Healths(ctx context.Context, since time.Time) ([]domain.Health, error) {
	query := s.read.WithContext(ctx)
	if !since.IsZero() {
		query = query.Where("updated_at >= ?", instantOf(since))
	}
	var rows []webhookHealthRow
	if err := query.Find(&rows).Error; err != nil {
		return nil, wrap("read webhook health", err)
	}
	healths := make([]domain.Health, len(rows))
	for i, row := range rows {
		healths[i] = row.domain()
	}
	return healths, nil
}
