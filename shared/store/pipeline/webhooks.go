package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
)

// WebhookOnce is an Idempotency-Key on the registration of a webhook.
type WebhookOnce struct {
	Path, Key string
	BodyHash  [32]byte
	// Respond returns the answer to keep for the webhook as it was stored.
	Respond func(domain.Webhook) (status int, body []byte)
}

// CreateWebhook stores w in its account; an empty ID is filled in. The store sets CreatedAt, UpdatedAt
// and the versions. domain.ErrLimit: the account has MaxWebhooks. If once was answered before,
// CreateWebhook returns its answer and stores nothing; ErrConflict: it was used with another body.
func (p *Pipeline) CreateWebhook(ctx context.Context, w domain.Webhook, once *WebhookOnce) (domain.Webhook, *StoredResponse, error) {
	var created domain.Webhook
	var earlier *StoredResponse
	err := p.db.Tx(ctx, func(tx *gorm.DB) error {
		created, earlier = w, nil
		version, err := bumpVersion(tx)
		if err != nil {
			return err
		}
		if once == nil {
			return p.addWebhook(ctx, tx, &created, version)
		}
		key := newKeyRef(w.Account, once.Path, once.Key)
		if earlier, err = p.claim(ctx, p.db.Beneath(tx), key, once.BodyHash, p.db.Now()); err != nil {
			return err
		}
		if earlier != nil {
			return errAnswered
		}
		if err := p.addWebhook(ctx, tx, &created, version); err != nil {
			return err
		}
		status, body := once.Respond(created)
		return p.keepResponse(ctx, p.db.Beneath(tx), key, StoredResponse{status, body})
	})
	if errors.Is(err, errAnswered) {
		return domain.Webhook{}, earlier, nil
	}
	if err != nil {
		return domain.Webhook{}, nil, store.Wrap("create webhook", err)
	}
	p.startedPlaces(&created)
	return created, nil, nil
}

// errAnswered rolls back a transaction whose answer is known already.
var errAnswered = errors.New("answered before")

func (p *Pipeline) addWebhook(ctx context.Context, tx *gorm.DB, w *domain.Webhook, version int64) error {
	if err := p.insertWebhook(tx, w, version); err != nil {
		return err
	}
	return p.audit.Note(ctx, tx, auditlog.ActionCreateWebhook, w.Account, webhookResource(w.ID))
}

func (p *Pipeline) insertWebhook(tx *gorm.DB, w *domain.Webhook, version int64) error {
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
	w.Ordering = cmp.Or(w.Ordering, domain.OrderingNone)
	w.Delivery, w.Signing = cmp.Or(w.Delivery, domain.DeliveryPush), cmp.Or(w.Signing, domain.SigningV1)
	now := p.db.Now()
	w.CreatedAt, w.UpdatedAt, w.Version, w.URLVersion = now, now, version, version
	w.ActivatedVersion, w.ActivatedAt, w.DeactivatedAt, w.Deleted = 0, time.Time{}, time.Time{}, false
	if w.Active {
		w.ActivatedVersion, w.ActivatedAt = version, now
	} else {
		w.DeactivatedAt = now
	}
	if w.Signing.Asymmetric() {
		if err := p.ensureSigningKey(tx, w.Account); err != nil {
			return err
		}
	}
	if err := p.checkFilters(tx, w, ""); err != nil {
		return err
	}
	row, err := p.webhookToRow(*w)
	if err != nil {
		return err
	}
	if err := startPlaces(tx, w); err != nil {
		return fmt.Errorf("start places: %w", err)
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

// bumpVersion raises the configuration version and locks it until the end of the transaction. Every
// transaction that changes webhooks calls it first, so that the changes are in the order of their versions.
func bumpVersion(tx *gorm.DB) (int64, error) {
	var version int64
	err := tx.Raw("UPDATE config_version SET version = version + 1 WHERE id = 1 RETURNING version").Scan(&version).Error
	if err != nil {
		return 0, fmt.Errorf("raise configuration version: %w", err)
	}
	return version, nil
}

// sqlWebhookWeight is the size of a webhook, sealed headers included.
const sqlWebhookWeight = "octet_length(url) + octet_length(description) + coalesce(octet_length(retry_schedule), 0) + coalesce(octet_length(headers), 0) + coalesce(octet_length(auth), 0) + 384"

// ListWebhooks returns an account's webhooks, oldest first, each with its health at the same index, and
// how many there are. Limit 0: all of them. When webhooks are large, there are fewer, see MaxPageBytes.
func (p *Pipeline) ListWebhooks(ctx context.Context, account string, limit, offset int) ([]domain.Webhook, []domain.Health, int, error) {
	return p.listWebhooks(ctx, account, limit, offset, func(tx *gorm.DB) *gorm.DB { return tx })
}

// sqlTroubled holds if a webhook may have a problem: it is inactive, its last attempt failed, or one failed since
// a time. The circuit is a value and not an EXISTS, for which Postgres might read the circuits of all accounts.
const sqlTroubled = `NOT active
	OR EXISTS (SELECT 1 FROM webhook_health h WHERE h.webhook_id = webhooks.id AND h.disabled_version > 0 AND h.disabled_version >= webhooks.activated_version)
	OR coalesce((SELECT c.failures > 0 OR c.answer_at >= ? FROM webhook_circuits c WHERE c.webhook_id = webhooks.id), false)`

// ListTroubled is ListWebhooks for webhooks that may have a problem; failures count since a time.
func (p *Pipeline) ListTroubled(ctx context.Context, account string, since time.Time, limit, offset int) ([]domain.Webhook, []domain.Health, error) {
	webhooks, healths, _, err := p.listWebhooks(ctx, account, limit, offset, func(tx *gorm.DB) *gorm.DB {
		return tx.Where(sqlTroubled, store.InstantOf(since))
	})
	return webhooks, healths, err
}

func (p *Pipeline) listWebhooks(ctx context.Context, account string, limit, offset int, among func(*gorm.DB) *gorm.DB) ([]domain.Webhook, []domain.Health, int, error) {
	var webhooks []domain.Webhook
	var healths []domain.Health
	var total int64
	err := p.db.Snapshot(ctx, func(tx *gorm.DB) error {
		scope := among(tx.Model(&webhookRow{}).Where("account = ? AND NOT deleted", account))
		if err := tx.Model(&webhookCountRow{}).Where("account = ?", account).Select("webhooks").Scan(&total).Error; err != nil {
			return err
		}
		limit = cmp.Or(limit, -1)
		const order = "created_at, id"
		fit, err := store.Weight{SQL: sqlWebhookWeight}.Fits(scope, order, store.Page{Limit: limit, Offset: offset})
		if err != nil || fit == 0 {
			return err
		}
		var rows []webhookRow
		if err := scope.Session(&gorm.Session{}).Order(order).Limit(fit).Offset(offset).Find(&rows).Error; err != nil {
			return err
		}
		byID := map[string]domain.Health{}
		var kept []webhookHealthRow
		page := scope.Session(&gorm.Session{}).Select("id").Order(order).Limit(fit).Offset(offset)
		err = tx.Where("webhook_id IN (?)", page).Find(&kept).Error
		if err != nil {
			return err
		}
		for _, h := range kept {
			byID[h.WebhookID] = h.domain()
		}
		for _, row := range rows {
			w := p.webhookFromRow(row)
			health, ok := byID[row.ID]
			if !ok {
				health.Webhook = w.ID
			}
			webhooks, healths = append(webhooks, w), append(healths, health)
		}
		return p.giveKeys(tx, webhooks)
	})
	if err != nil {
		return nil, nil, 0, store.Wrap("list webhooks", err)
	}
	return webhooks, healths, int(total), nil
}

// GetWebhook returns one live webhook of the account with its health.
func (p *Pipeline) GetWebhook(ctx context.Context, account string, id domain.WebhookID) (domain.Webhook, domain.Health, error) {
	tx := p.db.Reading(ctx)
	w, h, err := p.webhook(tx, account, id, false)
	if err != nil {
		return domain.Webhook{}, domain.Health{}, store.Wrap("get webhook", err)
	}
	one := []domain.Webhook{w}
	if err := p.giveKeys(tx, one); err != nil {
		return domain.Webhook{}, domain.Health{}, store.Wrap("get webhook", err)
	}
	return one[0], h, nil
}

func (p *Pipeline) webhook(tx *gorm.DB, account string, id domain.WebhookID, lock bool) (domain.Webhook, domain.Health, error) {
	query := tx.Where("id = ? AND account = ? AND NOT deleted", string(id), account)
	if lock && !p.db.SQLite() {
		query = query.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate})
	}
	var row webhookRow
	if err := query.Take(&row).Error; err != nil {
		return domain.Webhook{}, domain.Health{}, err
	}
	health := webhookHealthRow{WebhookID: row.ID}
	err := tx.Where("webhook_id = ?", row.ID).Limit(1).Find(&health).Error
	return p.webhookFromRow(row), health.domain(), err
}

// UpdateWebhook applies change to one webhook and stores it under a new version.
//
// change gets Active as it is now: false also when a dispatcher disabled the webhook. If change
// leaves it false, Active stays as it was. If change sets it to true on a webhook that was inactive
// for either reason, the webhook is active from the new version on. An error of change is returned
// as it is and nothing is stored. domain.ErrUnreadable: the webhook has a Fault. domain.ErrQuota:
// the webhook is inactive because a quota is used up, and its owner can't change that.
func (p *Pipeline) UpdateWebhook(ctx context.Context, account string, id domain.WebhookID, change func(*domain.Webhook) error) (domain.Webhook, domain.Health, error) {
	var updated domain.Webhook
	var health domain.Health
	err := p.db.Tx(ctx, func(tx *gorm.DB) error {
		version, err := bumpVersion(tx)
		if err != nil {
			return err
		}
		before, h, err := p.webhook(tx, account, id, true)
		if err != nil {
			return err
		}
		if before.Fault != "" {
			return fmt.Errorf("%s: %w", before.Fault, domain.ErrUnreadable)
		}
		health = h
		reason, inactive := before.Inactive(health)
		after := before
		after.Active = !inactive
		if err := change(&after); err != nil {
			return err
		}
		if reason == domain.DisabledQuota && after.Active {
			return domain.ErrQuota
		}
		updated = p.stamp(before, after, inactive, version)
		if updated.Signing.Asymmetric() {
			if err := p.ensureSigningKey(tx, account); err != nil {
				return err
			}
		}
		if err := p.checkFilters(tx, &updated, before.Filter); err != nil {
			return err
		}
		row, err := p.webhookToRow(updated)
		if err != nil {
			return err
		}
		if err := startPlaces(tx, &updated); err != nil {
			return fmt.Errorf("start places: %w", err)
		}
		if err := tx.Save(&row).Error; err != nil {
			return err
		}
		return p.audit.Note(ctx, tx, updateAction(ctx), account, webhookResource(id))
	})
	if err != nil {
		return domain.Webhook{}, domain.Health{}, store.Wrap("update webhook", err)
	}
	p.startedPlaces(&updated)
	return updated, health, nil
}

// ErrFilters is returned when an account would have more than domain.MaxFilterBytes of filters.
var ErrFilters = fmt.Errorf("filters of the account: %w", domain.ErrLimit)

// checkFilters checks the bound on the filters of an account, if a webhook's filter has become longer. The
// lock on the version orders transactions that change webhooks.
func (p *Pipeline) checkFilters(tx *gorm.DB, w *domain.Webhook, before string) error {
	if len(w.Filter) <= len(before) {
		return nil
	}
	length := "octet_length(filter)"
	if p.db.SQLite() {
		length = "length(CAST(filter AS BLOB))"
	}
	var others int64
	err := tx.Model(&webhookRow{}).Select("coalesce(sum("+length+"), 0)").
		Where("account = ? AND NOT deleted AND filter IS NOT NULL AND id <> ?", w.Account, string(w.ID)).Scan(&others).Error
	if err != nil {
		return fmt.Errorf("measure filters: %w", err)
	}
	if others+int64(len(w.Filter)) > domain.MaxFilterBytes {
		return ErrFilters
	}
	return nil
}

// stamp sets the fields of an update that the store decides.
func (p *Pipeline) stamp(before, after domain.Webhook, wasInactive bool, version int64) domain.Webhook {
	now := p.db.Now()
	after.ID, after.Account, after.CreatedAt, after.Deleted = before.ID, before.Account, before.CreatedAt, false
	after.ConsumerID = before.ConsumerID
	after.UpdatedAt, after.Version = now, version
	after.ActivatedVersion, after.ActivatedAt = before.ActivatedVersion, before.ActivatedAt
	after.DeactivatedAt, after.URLVersion = before.DeactivatedAt, before.URLVersion
	if before.URL != after.URL {
		after.URLVersion = version
	}
	if before.Delivery == domain.DeliveryPull && after.Delivery == domain.DeliveryPush {
		after.PushedSince = now
	}
	switch {
	case wasInactive && after.Active:
		after.ActivatedVersion, after.ActivatedAt = version, now
	case !wasInactive && !after.Active:
		after.DeactivatedAt = now
	case wasInactive:
		after.Active = before.Active // the update does not set it
	}
	return after
}

// DeleteWebhook removes everything of a webhook that its log does not need: it wipes secrets,
// headers and the URL, and deletes its cursors. From now on the log shows its undelivered
// deliveries as failed.
func (p *Pipeline) DeleteWebhook(ctx context.Context, account string, id domain.WebhookID) error {
	err := p.db.Tx(ctx, func(tx *gorm.DB) error {
		version, err := bumpVersion(tx)
		if err != nil {
			return err
		}
		now := store.InstantOf(p.db.Now())
		result := tx.Model(&webhookRow{}).
			Where("id = ? AND account = ? AND NOT deleted", string(id), account).
			UpdateColumns(map[string]any{
				"deleted": true, "deleted_at": now, "updated_at": now, "version": version, "active": false,
				"url": "", "description": "", "headers": nil, "secret": nil, "previous_secret": nil,
				"previous_secret_expires_at": nil, "auth": nil, "auth_expires_at": nil,
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
		if err := tx.Where("webhook_id = ?", string(id)).Delete(&webhookCursorRow{}).Error; err != nil {
			return fmt.Errorf("delete cursors: %w", err)
		}
		return p.audit.Note(ctx, tx, auditlog.ActionDeleteWebhook, account, webhookResource(id))
	})
	return store.Wrap("delete webhook", err)
}

// rotateRoute is the end of the route that rotates the secret of a webhook.
const rotateRoute = "/rotate-secret"

// updateAction returns the action that the audit log has for a changed webhook: a rotated secret if the caller's route
// rotates secrets, an update otherwise.
func updateAction(ctx context.Context) string {
	if caller, ok := auditlog.CallerOf(ctx); ok && strings.HasSuffix(caller.Route, rotateRoute) {
		return auditlog.ActionRotateSecret
	}
	return auditlog.ActionUpdateWebhook
}

func webhookResource(id domain.WebhookID) domain.Resource {
	return domain.Resource{Type: auditlog.ResourceWebhook, ID: string(id)}
}

func deliveryResource(id domain.DeliveryID) domain.Resource {
	return domain.Resource{Type: auditlog.ResourceDelivery, ID: string(id)}
}
