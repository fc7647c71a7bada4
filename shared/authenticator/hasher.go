package authenticator

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"strings"

	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
)

// A key made by Waybill is wbk_, 32 characters of base62, _ and the CRC-32 of the 32 in lower-case
// hex. The checksum saves look-ups for keys with typos; it protects nothing.
const (
	keyPrefix  = "wbk_"
	keySize    = 32
	suffixSize = 8
	keyLength  = len(keyPrefix) + keySize + 1 + suffixSize
)

// ErrKeyForm is returned for text that does not have the form of a key.
var ErrKeyForm = errors.New("a key has 32 to 256 visible ASCII characters; one that begins with wbk_ has 32 letters and digits, _ and the 8 hexadecimal digits of their CRC-32 behind it")

// WellFormed reports whether a text has the form of a key: the form of Waybill's keys, with the right checksum, or that
// of a key that a caller chose, which does not begin with Waybill's prefix.
func WellFormed(key string) bool {
	if !strings.HasPrefix(key, keyPrefix) {
		return apikey.Valid(key)
	}
	if len(key) != keyLength || key[keyLength-suffixSize-1] != '_' {
		return false
	}
	body := key[len(keyPrefix) : len(keyPrefix)+keySize]
	for i := range len(body) {
		c := body[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return key[keyLength-suffixSize:] == checksum(body)
}

func checksum(body string) string {
	sum := crc32.ChecksumIEEE([]byte(body))
	return hex.EncodeToString([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
}

// Hasher makes keys, and the hashes by which keys are found. It prints as [redacted].
type Hasher struct{ peppers [][]byte }

// NewHasher returns a hasher that hashes with the first pepper and finds keys that were hashed with
// any of them.
func NewHasher(peppers [][]byte) (*Hasher, error) {
	if len(peppers) == 0 {
		return nil, errors.New("hash keys: there is no pepper")
	}
	return &Hasher{peppers}, nil
}

// NewKey returns a fresh key with its suffix and its hash.
func (h *Hasher) NewKey() domain.APIKey {
	body := domain.RandomText(keySize)
	return h.fill(keyPrefix + body + "_" + checksum(body))
}

// Import does the same for a key that a caller made. It fails with ErrKeyForm.
func (h *Hasher) Import(key string) (domain.APIKey, error) {
	if !WellFormed(key) {
		return domain.APIKey{}, ErrKeyForm
	}
	return h.fill(strings.Clone(key)), nil
}

func (h *Hasher) fill(key string) domain.APIKey {
	return domain.APIKey{Key: domain.Secret(key), Suffix: key[len(key)-suffixSize:], Hash: hash(h.peppers[0], key)}
}

// Hashes returns the hashes by which a key may be found, in the order of the peppers.
func (h *Hasher) Hashes(key string) [][]byte {
	all := make([][]byte, len(h.peppers))
	for i, pepper := range h.peppers {
		all[i] = hash(pepper, key)
	}
	return all
}

func hash(pepper []byte, key string) []byte {
	mac := hmac.New(sha256.New, pepper)
	mac.Write([]byte(key))
	return mac.Sum(nil)
}

const redacted = "[redacted]"

// Format hides the peppers under every verb.
func (h *Hasher) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// LogValue hides the peppers.
func (h *Hasher) LogValue() slog.Value { return slog.StringValue(redacted) }
