package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
)

// keyBatch bounds the rows of one statement that inserts keys.
const keyBatch = 500

// expiry returns the stored end of a key. The zero time means never; the only other time with the
// same stored form is stored a microsecond later.
func expiry(t time.Time) store.Instant {
	if !t.IsZero() && t.UnixMicro() == 0 {
		return 1
	}
	return store.InstantOf(t)
}

// CreateKeys stores keys of a consumer, all or none, sets ids and times, and returns the keys in
// full. ErrConflict: a key exists already.
func (a *Access) CreateKeys(ctx context.Context, ref ConsumerRef, keys []domain.APIKey) ([]domain.APIKey, error) {
	var created []domain.APIKey
	err := a.db.Tx(ctx, func(tx *gorm.DB) error {
		b, c, err := a.consumer(tx, ref, store.LockChange)
		if err != nil {
			return err
		}
		if created, err = a.insertKeys(tx, b, c.ID, keys, a.db.Now()); err != nil {
			return err
		}
		if err := a.count(tx, b.Account, change{keys: len(created)}); err != nil {
			return err
		}
		action := auditlog.ActionCreateKey
		if len(created) != 1 {
			action = auditlog.ActionCreateKeys
		}
		resources := append([]domain.Resource{bucketResource(b), consumerResource(c)}, keyResources(created)...)
		return a.audit.Note(ctx, tx, action, b.Account, resources...)
	})
	return created, store.Wrap("create keys", err)
}

func (a *Access) insertKeys(tx *gorm.DB, b bucketRow, consumer string, keys []domain.APIKey, now time.Time) ([]domain.APIKey, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	rows, created := make([]apiKeyRow, len(keys)), make([]domain.APIKey, len(keys))
	for i, k := range keys {
		k.ID, k.CreatedOn, k.UpdatedOn = store.NewID(prefixKey, idLength), now, now
		row := apiKeyRow{
			ID: k.ID, ConsumerID: consumer, Description: k.Description, ExpiresAt: expiry(k.ExpiresOn),
			CreatedAt: store.InstantOf(now), UpdatedAt: store.InstantOf(now),
		}
		if err := a.setKey(&row, b, k); err != nil {
			return nil, err
		}
		k.ExpiresOn = row.ExpiresAt.Time()
		rows[i], created[i] = row, k
	}
	if err := tx.CreateInBatches(rows, keyBatch).Error; err != nil {
		return nil, fmt.Errorf("insert keys: %w", err)
	}
	return created, nil
}

// setKey stores the key itself in its row: the hash by which it is found, and a sealed copy when
// its bucket is retrievable.
func (a *Access) setKey(row *apiKeyRow, b bucketRow, k domain.APIKey) error {
	if len(k.Hash) == 0 {
		return errors.New("a key came without its hash")
	}
	row.Hash, row.Suffix, row.Sealed = k.Hash, k.Suffix, nil
	if !b.Retrievable || k.Key == "" {
		return nil
	}
	sealed, err := a.db.Seal([]byte(k.Key.Reveal()), keySealData(*row, b))
	if err != nil {
		return fmt.Errorf("seal key: %w", err)
	}
	row.Sealed = sealed
	return nil
}

// keySealData binds a sealed key to its row, column, consumer and account.
func keySealData(row apiKeyRow, b bucketRow) []byte {
	return []byte("api_keys|sealed|" + row.ID + "|" + row.ConsumerID + "|" + b.Account)
}

// keyFromRow returns a key without its hash. With secret, it includes the key itself, if there is a
// sealed copy.
func (a *Access) keyFromRow(row apiKeyRow, b bucketRow, secret bool) (domain.APIKey, error) {
	k := domain.APIKey{
		ID: row.ID, Description: row.Description, ExpiresOn: row.ExpiresAt.Time(),
		CreatedOn: row.CreatedAt.Time(), UpdatedOn: row.UpdatedAt.Time(), Suffix: row.Suffix,
	}
	if !secret || !b.Retrievable || len(row.Sealed) == 0 {
		return k, nil
	}
	plain, err := a.db.Unseal(row.Sealed, keySealData(row, b))
	if err != nil {
		return k, fmt.Errorf("open key %s: %w", row.ID, err)
	}
	k.Key = domain.Secret(plain)
	return k, nil
}

// ListKeys returns a page of a consumer's keys, including expired ones, and their total number.
// With secrets, the keys of a retrievable bucket are returned in full.
func (a *Access) ListKeys(ctx context.Context, ref ConsumerRef, secrets bool, page store.Page) ([]domain.APIKey, int, error) {
	var keys []domain.APIKey
	var total int
	err := a.db.Snapshot(ctx, func(tx *gorm.DB) error {
		b, c, err := a.consumer(tx, ref, store.LockNone)
		if err != nil {
			return err
		}
		rows, n, err := store.ListPage[apiKeyRow](tx.Model(&apiKeyRow{}).Where("consumer_id = ?", c.ID), page, store.Weight{})
		if err != nil {
			return err
		}
		total = n
		for _, row := range rows {
			k, err := a.keyFromRow(row, b, secrets)
			if err != nil {
				return err
			}
			keys = append(keys, k)
		}
		return nil
	})
	return keys, total, store.Wrap("list keys", err)
}

// GetKey returns one key of a consumer, in full when secret is set and its bucket is
// retrievable.
func (a *Access) GetKey(ctx context.Context, ref ConsumerRef, id string, secret bool) (domain.APIKey, error) {
	var key domain.APIKey
	err := a.db.Snapshot(ctx, func(tx *gorm.DB) error {
		b, c, err := a.consumer(tx, ref, store.LockNone)
		if err != nil {
			return err
		}
		row, err := takeKey(tx, c, id)
		if err != nil {
			return err
		}
		key, err = a.keyFromRow(row, b, secret)
		return err
	})
	return key, store.Wrap("get key", err)
}

func takeKey(tx *gorm.DB, c domain.Consumer, id string) (apiKeyRow, error) {
	var row apiKeyRow
	if !store.Storable(id) {
		return row, domain.ErrNotFound
	}
	return row, tx.Where("id = ? AND consumer_id = ?", id, c.ID).Take(&row).Error
}

// UpdateKey applies change to the description and the end of a key, and to the key itself when
// change sets another hash. If change returns an error, that is returned and nothing is stored;
// change may be called again and must not use the store.
func (a *Access) UpdateKey(ctx context.Context, ref ConsumerRef, id string, change func(*domain.APIKey) error) (domain.APIKey, error) {
	var updated domain.APIKey
	err := a.db.Tx(ctx, func(tx *gorm.DB) error {
		b, c, err := a.consumer(tx, ref, store.LockChange)
		if err != nil {
			return err
		}
		row, err := takeKey(tx, c, id)
		if err != nil {
			return err
		}
		key, err := a.keyFromRow(row, b, false)
		if err != nil {
			return err
		}
		key.Hash = bytes.Clone(row.Hash)
		if err := change(&key); err != nil {
			return err
		}
		row.Description, row.ExpiresAt, row.UpdatedAt = key.Description, expiry(key.ExpiresOn), store.InstantOf(a.db.Now())
		if !bytes.Equal(key.Hash, row.Hash) {
			if err := a.setKey(&row, b, key); err != nil {
				return err
			}
		}
		err = tx.Select("description", "expires_at", "updated_at", "hash", "suffix", "sealed").Updates(&row).Error
		if err != nil {
			return fmt.Errorf("update key row: %w", err)
		}
		if updated, err = a.keyFromRow(row, b, false); err != nil {
			return err
		}
		return a.audit.Note(ctx, tx, auditlog.ActionUpdateKey, b.Account, bucketResource(b), consumerResource(c), keyResource(updated))
	})
	return updated, store.Wrap("update key", err)
}

// DeleteKey deletes a key of a consumer.
func (a *Access) DeleteKey(ctx context.Context, ref ConsumerRef, id string) error {
	err := a.db.Tx(ctx, func(tx *gorm.DB) error {
		b, c, err := a.consumer(tx, ref, store.LockChange)
		if err != nil {
			return err
		}
		row, err := takeKey(tx, c, id)
		if err != nil {
			return err
		}
		if err := tx.Delete(&row).Error; err != nil {
			return fmt.Errorf("delete key row: %w", err)
		}
		if err := a.count(tx, b.Account, change{keys: -1}); err != nil {
			return err
		}
		return a.audit.Note(ctx, tx, auditlog.ActionDeleteKey, b.Account, bucketResource(b), consumerResource(c), keyResource(domain.APIKey{ID: id, Description: row.Description}))
	})
	return store.Wrap("delete key", err)
}

// RollKeys gives a consumer a new key without an end, which is returned in full, and sets the end
// of its other keys to expiresOn (zero: now). Keys that have expired, or expire sooner, are not
// changed.
func (a *Access) RollKeys(ctx context.Context, ref ConsumerRef, fresh domain.APIKey, expiresOn time.Time) (domain.APIKey, error) {
	var created []domain.APIKey
	err := a.db.Tx(ctx, func(tx *gorm.DB) error {
		b, c, err := a.consumer(tx, ref, store.LockChange)
		if err != nil {
			return err
		}
		now := a.db.Now()
		end := expiresOn
		if end.IsZero() {
			end = now
		}
		err = tx.Model(&apiKeyRow{}).
			Where("consumer_id = ? AND (expires_at IS NULL OR expires_at > ?)", c.ID, store.InstantOf(now)).
			Where("(expires_at IS NULL OR expires_at > ?)", expiry(end)).
			UpdateColumns(map[string]any{"expires_at": expiry(end), "updated_at": store.InstantOf(now)}).Error
		if err != nil {
			return fmt.Errorf("end keys: %w", err)
		}
		fresh.ExpiresOn = time.Time{}
		if created, err = a.insertKeys(tx, b, c.ID, []domain.APIKey{fresh}, now); err != nil {
			return err
		}
		if err := a.count(tx, b.Account, change{keys: 1}); err != nil {
			return err
		}
		return a.audit.Note(ctx, tx, auditlog.ActionRollKeys, b.Account, bucketResource(b), consumerResource(c), keyResource(created[0]))
	})
	if err != nil {
		return domain.APIKey{}, store.Wrap("roll keys", err)
	}
	return created[0], nil
}

func keyResource(k domain.APIKey) domain.Resource {
	return domain.Resource{Type: auditlog.ResourceKey, ID: k.ID, Name: k.Description}
}

func keyResources(keys []domain.APIKey) []domain.Resource {
	return store.All(keys, keyResource)
}
