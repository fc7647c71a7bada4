package access

import (
	"context"

	"gorm.io/gorm"

	"waybill.dev/shared/store"
)

// HasKeys reports whether there is any API key.
func (a *Access) HasKeys(ctx context.Context) (bool, error) {
	var has bool
	err := a.db.Conn().QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM api_keys)").Scan(&has)
	return has, store.Wrap("look for keys", err)
}

// RehashKey replaces the hash of a key by one of the same key with another pepper. It also seals
// the copy of the key, if there is one, with the current encryption key, because the old one may be
// removed later.
func (a *Access) RehashKey(ctx context.Context, keyID string, hash []byte) error {
	err := a.db.Tx(ctx, func(tx *gorm.DB) error {
		var row apiKeyRow
		if err := a.db.Lock(tx.Where("id = ?", keyID), store.LockChange).Take(&row).Error; err != nil {
			return err
		}
		row.Hash = hash
		if err := a.sealAgain(tx, &row); err != nil {
			return err
		}
		return tx.Select("hash", "sealed").Updates(&row).Error
	})
	return store.Wrap("rehash key", err)
}

func (a *Access) sealAgain(tx *gorm.DB, row *apiKeyRow) error {
	if len(row.Sealed) == 0 {
		return nil
	}
	var b bucketRow
	err := tx.Where("id = (SELECT bucket_id FROM key_consumers WHERE id = ?)", row.ConsumerID).Take(&b).Error
	if err != nil {
		return err
	}
	plain, err := a.db.Unseal(row.Sealed, keySealData(*row, b))
	if err != nil {
		return nil //nolint:nilerr // a copy that can't be shown is no reason for a key not to work
	}
	row.Sealed, err = a.db.Seal(plain, keySealData(*row, b))
	return err
}
