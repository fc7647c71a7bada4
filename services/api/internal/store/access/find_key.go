package access

import (
	"bytes"
	"context"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// HasKeys tells whether there is any API key.
func (a *Access) HasKeys(ctx context.Context) (bool, error) {
	_, reading := a.db.Handles()
	var has bool
	if err := reading.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM api_keys)").Scan(&has); err != nil {
		return false, store.Wrap("look for keys", err)
	}
	return has, nil
}

// FindKey returns what the key with one of the hashes stands for, and which of them it is;
// the one that comes first when there are several. It says so of a key that has ended too:
// ExpiresOn is the caller's to look at.
func (a *Access) FindKey(ctx context.Context, hashes [][]byte) (holder domain.KeyHolder, which int, err error) {
	if len(hashes) == 0 {
		return domain.KeyHolder{}, 0, store.Wrap("find key", domain.ErrNotFound)
	}
	args := make([]any, len(hashes))
	for i, hash := range hashes {
		args[i] = hash
	}
	_, reading := a.db.Handles()
	rows, err := reading.QueryContext(ctx, sqlFindKey(len(hashes)), args...)
	if err != nil {
		return domain.KeyHolder{}, 0, store.Wrap("find key", err)
	}
	defer rows.Close()
	which = len(hashes)
	for rows.Next() {
		var found domain.KeyHolder
		var hash []byte
		var expires store.Instant
		var scopes string
		err := rows.Scan(&hash, &found.KeyID, &expires, &found.Account, &found.Bucket, &found.ConsumerID, &found.Consumer, &scopes)
		if err != nil {
			return domain.KeyHolder{}, 0, store.Wrap("find key", err)
		}
		for i := range which {
			if bytes.Equal(hashes[i], hash) {
				found.ExpiresOn, found.Scopes = expires.Time(), splitScopes(scopes)
				holder, which = found, i
				break
			}
		}
	}
	if err := rows.Err(); err != nil {
		return domain.KeyHolder{}, 0, store.Wrap("find key", err)
	}
	if which == len(hashes) {
		return domain.KeyHolder{}, 0, store.Wrap("find key", domain.ErrNotFound)
	}
	return holder, which, nil
}

// sqlFindKey is the look-up of so many hashes, by the unique index of one table and the
// primary keys of two.
func sqlFindKey(hashes int) string {
	marks := make([]string, hashes)
	for i := range marks {
		marks[i] = "$" + strconv.Itoa(i+1)
	}
	return `
		SELECT k.hash, k.id, k.expires_at, b.account, b.name, c.id, c.name, c.scopes
		FROM api_keys k JOIN key_consumers c ON c.id = k.consumer_id JOIN key_buckets b ON b.id = c.bucket_id
		WHERE k.hash IN (` + strings.Join(marks, ", ") + `)`
}

// RehashKey gives a key another hash, of the same key under another pepper, and seals its
// copy, if there is one, under the encryption key of now: that which the old pepper comes
// from may be put away one day.
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
