package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/shared/signature"
)

// Bounds of a key set that is read.
const (
	maxKeySet  = 256 << 10
	keySetTime = 10 * time.Second
)

// checking returns all keys for checking a callback: secrets, public keys, and the keys of key
// sets.
func (c *callback) checking(ctx context.Context) ([]signature.Key, error) {
	keys, err := c.keys(signature.ParseKey)
	if err != nil {
		return nil, err
	}
	for _, text := range c.public {
		key, err := signature.ParseKey(strings.TrimSpace(text))
		if err == nil && !key.Public() {
			err = fmt.Errorf("%w: a public key must begin with whpk_", signature.ErrSecret)
		}
		if err != nil {
			return nil, usage{fmt.Errorf("--public-key: %w", err)}
		}
		keys = append(keys, key)
	}
	for _, place := range c.sets {
		set, err := readKeySet(ctx, place)
		if err != nil {
			return nil, fmt.Errorf("--jwks: %w", err)
		}
		keys = append(keys, set...)
	}
	if len(keys) == 0 && len(c.sets) == 0 {
		return nil, usagef("--secret (or WAYBILL_WEBHOOK_SECRET), --public-key or --jwks is required")
	}
	return keys, nil
}

// readKeySet reads the Ed25519 keys of a JSON Web Key Set at a URL or in a file. Other keys are
// passed over.
func readKeySet(ctx context.Context, place string) ([]signature.Key, error) {
	text, err := readPlace(ctx, place)
	if err != nil {
		return nil, err
	}
	var set struct {
		Keys []struct {
			Type  string `json:"kty"`
			Curve string `json:"crv"`
			ID    string `json:"kid"`
			X     string `json:"x"`
		} `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("%s is no JSON Web Key Set: %w", place, err)
	}
	var keys []signature.Key
	for _, k := range set.Keys {
		if k.Type != "OKP" || k.Curve != "Ed25519" {
			continue
		}
		raw, err := base64.RawURLEncoding.Strict().DecodeString(k.X)
		if err != nil {
			return nil, fmt.Errorf("key %q of %s: its x is not base64url", k.ID, place)
		}
		key, err := signature.PublicKey(raw)
		if err != nil {
			return nil, fmt.Errorf("key %q of %s: %w", k.ID, place, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// readPlace reads a small file, or the content of a URL.
func readPlace(ctx context.Context, place string) ([]byte, error) {
	if !strings.HasPrefix(place, "http://") && !strings.HasPrefix(place, "https://") {
		text, err := os.ReadFile(place)
		if err != nil {
			return nil, fmt.Errorf("read key set: %w", err)
		}
		return text, nil
	}
	ctx, cancel := context.WithTimeout(ctx, keySetTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, place, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("read key set: %w", err)
	}
	response, err := client.NewHTTP().Do(request)
	if err != nil {
		return nil, fmt.Errorf("read key set: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read key set: %s answered %s", place, response.Status)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxKeySet))
	if err != nil {
		return nil, fmt.Errorf("read key set: %w", err)
	}
	return text, nil
}
