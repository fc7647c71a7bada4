package pipeline

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// idempotencyWindow is how long the answer to a key is kept.
const idempotencyWindow = 24 * time.Hour

// keyRef names an idempotency key. Only a hash of the key itself is stored: it may be
// any bytes of any length.
type keyRef struct {
	account, path string
	key           [32]byte
}

func newKeyRef(account, path, key string) keyRef {
	return keyRef{account, path, sha256.Sum256([]byte(key))}
}

func (k keyRef) compare(other keyRef) int {
	return cmp.Or(cmp.Compare(k.account, other.account), cmp.Compare(k.path, other.path), bytes.Compare(k.key[:], other.key[:]))
}

func (k keyRef) sealData() []byte {
	return []byte("idempotency_keys|response|" + hex.EncodeToString(k.key[:]) + "|" + k.path + "|" + k.account)
}

// claim takes the key for this transaction and returns nil, or returns the answer that was given
// for the key. It waits for another transaction that holds the key. domain.ErrConflict: the key was
// used with another body.
func (p *Pipeline) claim(ctx context.Context, c store.Conn, key keyRef, bodyHash [32]byte, now time.Time) (*StoredResponse, error) {
	n, err := c.Exec(ctx, `
		INSERT INTO idempotency_keys (account, path, key, body_hash, status, created_at)
		VALUES ($1, $2, $3, $4, 0, $5)
		ON CONFLICT (account, path, key) DO UPDATE
		SET body_hash = excluded.body_hash, status = 0, response = NULL, created_at = excluded.created_at
		WHERE idempotency_keys.created_at <= $6`,
		key.account, key.path, key.key[:], bodyHash[:], c.Moment(now), c.Moment(now.Add(-idempotencyWindow)))
	if err != nil {
		return nil, fmt.Errorf("claim idempotency key: %w", err)
	}
	if n == 1 {
		return nil, nil // no answer yet: this transaction has the key
	}
	return p.storedResponse(ctx, c, key, bodyHash)
}

func (p *Pipeline) storedResponse(ctx context.Context, c store.Conn, key keyRef, bodyHash [32]byte) (*StoredResponse, error) {
	var hash, sealed []byte
	var response StoredResponse
	err := c.QueryRow(ctx, `SELECT body_hash, status, response FROM idempotency_keys
		WHERE account = $1 AND path = $2 AND key = $3`, key.account, key.path, key.key[:]).
		Scan(&hash, &response.Status, &sealed)
	if err != nil {
		return nil, fmt.Errorf("read idempotency key: %w", err)
	}
	if !bytes.Equal(hash, bodyHash[:]) {
		return nil, fmt.Errorf("idempotency key with another body: %w", domain.ErrConflict)
	}
	if len(sealed) > 0 {
		if response.Body, err = p.db.Unseal(sealed, key.sealData()); err != nil {
			return nil, fmt.Errorf("open kept answer: %w", err)
		}
	}
	return &response, nil
}

// keepResponse stores the answer to a key that this transaction claimed.
func (p *Pipeline) keepResponse(ctx context.Context, c store.Conn, key keyRef, response StoredResponse) error {
	var sealed []byte
	if len(response.Body) > 0 {
		var err error
		if sealed, err = p.db.Seal(response.Body, key.sealData()); err != nil {
			return fmt.Errorf("seal answer: %w", err)
		}
	}
	_, err := c.Exec(ctx, `UPDATE idempotency_keys SET status = $1, response = $2
		WHERE account = $3 AND path = $4 AND key = $5`,
		response.Status, sealed, key.account, key.path, key.key[:])
	if err != nil {
		return fmt.Errorf("keep answer: %w", err)
	}
	return nil
}
