package store

import (
	"bytes"
	"context"
	"strconv"
	"strings"

	"waybill.dev/shared/domain"
)

// FindKey returns what the key with one of the hashes stands for, and which of them it is;
// the one that comes first when there are several. It says so of a key that has ended too:
// ExpiresOn is the caller's to look at.
func (s *Store) FindKey(ctx context.Context, hashes [][]byte) (holder domain.KeyHolder, which int, err error) {
	if len(hashes) == 0 {
		return domain.KeyHolder{}, 0, wrap("find key", domain.ErrNotFound)
	}
	args := make([]any, len(hashes))
	for i, hash := range hashes {
		args[i] = hash
	}
	_, reading := s.engine.handles()
	rows, err := reading.QueryContext(ctx, sqlFindKey(len(hashes)), args...)
	if err != nil {
		return domain.KeyHolder{}, 0, wrap("find key", err)
	}
	defer rows.Close()
	which = len(hashes)
	for rows.Next() {
		var found domain.KeyHolder
		var hash []byte
		var expires instant
		var scopes string
		err := rows.Scan(&hash, &found.KeyID, &expires, &found.Account, &found.Bucket, &found.ConsumerID, &found.Consumer, &scopes)
		if err != nil {
			return domain.KeyHolder{}, 0, wrap("find key", err)
		}
		for i := range which {
			if bytes.Equal(hashes[i], hash) {
				found.ExpiresOn, found.Scopes = expires.time(), splitScopes(scopes)
				holder, which = found, i
				break
			}
		}
	}
	if err := rows.Err(); err != nil {
		return domain.KeyHolder{}, 0, wrap("find key", err)
	}
	if which == len(hashes) {
		return domain.KeyHolder{}, 0, wrap("find key", domain.ErrNotFound)
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

// RehashKey gives a key another hash, of the same key under another pepper.
func (s *Store) RehashKey(ctx context.Context, keyID string, hash []byte) error {
	err := s.again(ctx, func() error {
		result := s.write.WithContext(ctx).Model(&apiKeyRow{}).Where("id = ?", keyID).UpdateColumn("hash", hash)
		if result.Error == nil && result.RowsAffected == 0 {
			return domain.ErrNotFound
		}
		return result.Error
	})
	return wrap("rehash key", err)
}
