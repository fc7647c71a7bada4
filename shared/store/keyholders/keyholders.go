// Package keyholders finds the holders of API keys. The tables are those of the api: only the api
// writes them, and gateways read them, too.
package keyholders

import (
	"bytes"
	"context"
	"strconv"
	"strings"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// Holders finds the holders of API keys.
type Holders struct{ db *store.Store }

// New returns the Holders of an open database.
func New(db *store.Store) *Holders { return &Holders{db} }

// FindKey returns the holder of the key with one of the hashes, and the index of that hash; the
// first one if there are several. It also finds a key that has ended: the caller checks ExpiresOn.
func (h *Holders) FindKey(ctx context.Context, hashes [][]byte) (holder domain.KeyHolder, which int, err error) {
	if len(hashes) == 0 {
		return domain.KeyHolder{}, 0, store.Wrap("find key", domain.ErrNotFound)
	}
	args := make([]any, len(hashes))
	for i, hash := range hashes {
		args[i] = hash
	}
	which = len(hashes)
	err = h.db.Conn().Query(ctx, sqlFindKey(len(hashes)), func(scan store.Scan) error {
		var found domain.KeyHolder
		var hash []byte
		var expires store.Instant
		var scopes string
		err := scan(&hash, &found.KeyID, &expires, &found.Account, &found.BucketID, &found.Bucket, &found.ConsumerID, &found.Consumer, &scopes)
		for i := range which {
			if bytes.Equal(hashes[i], hash) {
				found.ExpiresOn, found.Scopes = expires.Time(), SplitScopes(scopes)
				holder, which = found, i
				break
			}
		}
		return err
	}, args...)
	if err != nil {
		return domain.KeyHolder{}, 0, store.Wrap("find key", err)
	}
	if which == len(hashes) {
		return domain.KeyHolder{}, 0, store.Wrap("find key", domain.ErrNotFound)
	}
	return holder, which, nil
}

// sqlFindKey returns the query for this many hashes. It uses the unique index of one table and the
// primary keys of two.
func sqlFindKey(hashes int) string {
	marks := make([]string, hashes)
	for i := range marks {
		marks[i] = "$" + strconv.Itoa(i+1)
	}
	return `
		SELECT k.hash, k.id, k.expires_at, b.account, b.id, b.name, c.id, c.name, c.scopes
		FROM api_keys k JOIN key_consumers c ON c.id = k.consumer_id JOIN key_buckets b ON b.id = c.bucket_id
		WHERE k.hash IN (` + strings.Join(marks, ", ") + `)`
}

// SplitScopes reads the scopes of a key's holder in the form that the tables have.
func SplitScopes(text string) []domain.Scope {
	var scopes []domain.Scope
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' }) {
		scopes = append(scopes, domain.Scope(part))
	}
	return scopes
}
