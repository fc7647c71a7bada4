package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
)

// keyBatch bounds the rows of one statement that inserts keys.
const keyBatch = 500

// expiry returns when a key ends. The zero time is never; the one time that a row can't
// tell from it is kept a microsecond later.
func expiry(t time.Time) instant {
	if !t.IsZero() && t.UnixMicro() == 0 {
		return 1
	}
	return instantOf(t)
}

// CreateKeys stores keys of a consumer, all or none, and returns them in full; ids and
// times are the store's. ErrConflict: a key is known already.
func (s *Store) CreateKeys(ctx context.Context, ref ConsumerRef, keys []domain.APIKey) ([]domain.APIKey, error) {
	var created []domain.APIKey
	err := s.tx(ctx, func(tx *gorm.DB) error {
		b, c, err := s.consumer(tx, ref, lockChange)
		if err != nil {
			return err
		}
		if created, err = s.insertKeys(tx, b, c.ID, keys, s.clock()); err != nil {
			return err
		}
		action := ActionCreateKey
		if len(created) != 1 {
			action = ActionCreateKeys
		}
		resources := append([]domain.Resource{bucketResource(b), consumerResource(c)}, keyResources(created)...)
		return s.note(ctx, tx, action, b.Account, resources...)
	})
	if err != nil {
		return nil, wrap("create keys", err)
	}
	return created, nil
}

func (s *Store) insertKeys(tx *gorm.DB, b bucketRow, consumer string, keys []domain.APIKey, now time.Time) ([]domain.APIKey, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	rows, created := make([]apiKeyRow, len(keys)), make([]domain.APIKey, len(keys))
	for i, k := range keys {
		k.ID, k.CreatedOn, k.UpdatedOn = newID(prefixKey, idLength), now, now
		row := apiKeyRow{
			ID: k.ID, ConsumerID: consumer, Description: k.Description, ExpiresAt: expiry(k.ExpiresOn),
			CreatedAt: instantOf(now), UpdatedAt: instantOf(now),
		}
		if err := s.setKey(&row, b, k); err != nil {
			return nil, err
		}
		k.ExpiresOn = row.ExpiresAt.time()
		rows[i], created[i] = row, k
	}
	if err := tx.CreateInBatches(rows, keyBatch).Error; err != nil {
		return nil, fmt.Errorf("insert keys: %w", err)
	}
	return created, nil
}

// setKey puts the key itself into its row: what it is found by, and a sealed copy when
// its bucket is retrievable.
func (s *Store) setKey(row *apiKeyRow, b bucketRow, k domain.APIKey) error {
	if len(k.Hash) == 0 {
		return errors.New("a key came without its hash")
	}
	row.Hash, row.Suffix, row.Sealed = k.Hash, k.Suffix, nil
	if !b.Retrievable || k.Key == "" {
		return nil
	}
	sealed, err := s.seal([]byte(k.Key.Reveal()), keySealData(*row, b))
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

// keyFromRow returns a key without its hash, and with the key itself when it is wanted and
// there to be shown.
func (s *Store) keyFromRow(row apiKeyRow, b bucketRow, secret bool) (domain.APIKey, error) {
	k := domain.APIKey{
		ID: row.ID, Description: row.Description, ExpiresOn: row.ExpiresAt.time(),
		CreatedOn: row.CreatedAt.time(), UpdatedOn: row.UpdatedAt.time(), Suffix: row.Suffix,
	}
	if !secret || !b.Retrievable || len(row.Sealed) == 0 {
		return k, nil
	}
	plain, err := s.keys.Open(row.Sealed, keySealData(row, b))
	if err != nil {
		return k, fmt.Errorf("open key %s: %w", row.ID, err)
	}
	k.Key = domain.Secret(plain)
	return k, nil
}

// ListKeys returns a consumer's keys, those that have ended too, and how many there are.
// With secrets set those of a retrievable bucket come in full.
func (s *Store) ListKeys(ctx context.Context, ref ConsumerRef, secrets bool, page Page) ([]domain.APIKey, int, error) {
	var keys []domain.APIKey
	var total int
	err := s.snapshot(ctx, func(tx *gorm.DB) error {
		b, c, err := s.consumer(tx, ref, lockNone)
		if err != nil {
			return err
		}
		rows, n, err := listPage[apiKeyRow](tx.Model(&apiKeyRow{}).Where("consumer_id = ?", c.ID), page, weight{})
		if err != nil {
			return err
		}
		total = n
		for _, row := range rows {
			k, err := s.keyFromRow(row, b, secrets)
			if err != nil {
				return err
			}
			keys = append(keys, k)
		}
		return nil
	})
	if err != nil {
		return nil, 0, wrap("list keys", err)
	}
	return keys, total, nil
}

// GetKey returns one key of a consumer, in full when secret is set and its bucket is
// retrievable.
func (s *Store) GetKey(ctx context.Context, ref ConsumerRef, id string, secret bool) (domain.APIKey, error) {
	var key domain.APIKey
	err := s.snapshot(ctx, func(tx *gorm.DB) error {
		b, c, err := s.consumer(tx, ref, lockNone)
		if err != nil {
			return err
		}
		row, err := takeKey(tx, c, id)
		if err != nil {
			return err
		}
		key, err = s.keyFromRow(row, b, secret)
		return err
	})
	if err != nil {
		return domain.APIKey{}, wrap("get key", err)
	}
	return key, nil
}

func takeKey(tx *gorm.DB, c domain.Consumer, id string) (apiKeyRow, error) {
	var row apiKeyRow
	if !storable(id) {
		return row, domain.ErrNotFound
	}
	return row, tx.Where("id = ? AND consumer_id = ?", id, c.ID).Take(&row).Error
}

// UpdateKey applies change to the description and the end of a key, and to the key itself
// when change sets another hash. An error of change is returned and nothing stored; it may
// be called again and must not use the store.
func (s *Store) UpdateKey(ctx context.Context, ref ConsumerRef, id string, change func(*domain.APIKey) error) (domain.APIKey, error) {
	var updated domain.APIKey
	err := s.tx(ctx, func(tx *gorm.DB) error {
		b, c, err := s.consumer(tx, ref, lockChange)
		if err != nil {
			return err
		}
		row, err := takeKey(tx, c, id)
		if err != nil {
			return err
		}
		key, err := s.keyFromRow(row, b, false)
		if err != nil {
			return err
		}
		key.Hash = bytes.Clone(row.Hash)
		if err := change(&key); err != nil {
			return err
		}
		row.Description, row.ExpiresAt, row.UpdatedAt = key.Description, expiry(key.ExpiresOn), instantOf(s.clock())
		if !bytes.Equal(key.Hash, row.Hash) {
			if err := s.setKey(&row, b, key); err != nil {
				return err
			}
		}
		err = tx.Select("description", "expires_at", "updated_at", "hash", "suffix", "sealed").Updates(&row).Error
		if err != nil {
			return fmt.Errorf("update key row: %w", err)
		}
		if updated, err = s.keyFromRow(row, b, false); err != nil {
			return err
		}
		return s.note(ctx, tx, ActionUpdateKey, b.Account, bucketResource(b), consumerResource(c), keyResource(updated))
	})
	if err != nil {
		return domain.APIKey{}, wrap("update key", err)
	}
	return updated, nil
}

// DeleteKey deletes a key of a consumer.
func (s *Store) DeleteKey(ctx context.Context, ref ConsumerRef, id string) error {
	err := s.tx(ctx, func(tx *gorm.DB) error {
		b, c, err := s.consumer(tx, ref, lockChange)
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
		return s.note(ctx, tx, ActionDeleteKey, b.Account, bucketResource(b), consumerResource(c), keyResource(domain.APIKey{ID: id}))
	})
	return wrap("delete key", err)
}

// RollKeys gives a consumer a fresh key without end, which is returned in full, and ends
// its other keys at expiresOn (zero: now). What has ended, or ends sooner, stays.
func (s *Store) RollKeys(ctx context.Context, ref ConsumerRef, fresh domain.APIKey, expiresOn time.Time) (domain.APIKey, error) {
	var created []domain.APIKey
	err := s.tx(ctx, func(tx *gorm.DB) error {
		b, c, err := s.consumer(tx, ref, lockChange)
		if err != nil {
			return err
		}
		now := s.clock()
		end := expiresOn
		if end.IsZero() {
			end = now
		}
		err = tx.Model(&apiKeyRow{}).
			Where("consumer_id = ? AND (expires_at IS NULL OR expires_at > ?)", c.ID, instantOf(now)).
			Where("(expires_at IS NULL OR expires_at > ?)", expiry(end)).
			UpdateColumns(map[string]any{"expires_at": expiry(end), "updated_at": instantOf(now)}).Error
		if err != nil {
			return fmt.Errorf("end keys: %w", err)
		}
		fresh.ExpiresOn = time.Time{}
		if created, err = s.insertKeys(tx, b, c.ID, []domain.APIKey{fresh}, now); err != nil {
			return err
		}
		return s.note(ctx, tx, ActionRollKeys, b.Account, bucketResource(b), consumerResource(c), keyResource(created[0]))
	})
	if err != nil {
		return domain.APIKey{}, wrap("roll keys", err)
	}
	return created[0], nil
}

func keyResource(k domain.APIKey) domain.Resource {
	return domain.Resource{Type: ResourceKey, ID: k.ID}
}

func keyResources(keys []domain.APIKey) []domain.Resource {
	resources := make([]domain.Resource, len(keys))
	for i, k := range keys {
		resources[i] = keyResource(k)
	}
	return resources
}
