package post

import (
	"errors"
	"fmt"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/signature"
)

// asymmetric signs by v1a with the keys of a webhook's account.
type asymmetric struct {
	keys  []signature.PrivateKey // the newest first
	until []time.Time            // when each of them ends; zero: never
	alone bool                   // there is no v1 signature
}

func prepareAsymmetric(w *domain.Webhook) (*asymmetric, error) {
	a := &asymmetric{alone: !w.Signing.Symmetric()}
	for i := range w.SigningKeys {
		key, err := signature.ParsePrivateKey(w.SigningKeys[i].Private.Reveal())
		if err != nil {
			return nil, fmt.Errorf("read signing key: %w", err)
		}
		a.keys, a.until = append(a.keys, key), append(a.until, w.SigningKeys[i].ExpiresAt)
	}
	if len(a.keys) == 0 {
		return nil, errors.New("its account's signing key is missing")
	}
	return a, nil
}

// sign returns a signature for each key that has not ended, the newest first.
func (a *asymmetric) sign(id string, at time.Time, body []byte) string {
	n := 0
	var live [domain.MaxSigningKeys]signature.PrivateKey
	for i := range a.keys {
		if (a.until[i].IsZero() || at.Before(a.until[i])) && n < len(live) {
			live[n] = a.keys[i]
			n++
		}
	}
	return signature.SignAsymmetric(live[:n], id, at, body)
}
