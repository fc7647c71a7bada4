// Package keyholders reads who holds an API key. The tables are those of the api, which alone
// writes them; gateways read them, too.
package keyholders

import (
	"bytes"
	"context"
	"strconv"
	"strings"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// Holders finds them.
type Holders struct{ db *store.Store }

// New returns the holders in an open database.
func New(db *store.Store) *Holders { return &Holders{db} }

// FindKey returns what the key with one of the hashes stands for, and which of them it is;
// the one that comes first when there are several. It says so of a key that has ended too:
// ExpiresOn is the caller's to look at.
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

// sqlFindKey is the look-up of so many hashes, by the unique index of one table and the
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

// SplitScopes reads the scopes of a key's holder as the tables have them.
func SplitScopes(text string) []domain.Scope {
	var scopes []domain.Scope
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' }) {
		scopes = append(scopes, domain.Scope(part))
	}
	return scopes
}
