package signature

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// Scheme v1a of Standard Webhooks: Ed25519 over "id.timestamp.body". The public key can check a
// signature but not make one.
const (
	versionAsymmetric = "v1a"
	privatePrefix     = "whsk_"
	publicPrefix      = "whpk_"
	asymmetricSize    = 88 // base64 of an Ed25519 signature, padded
)

// PrivateKey signs by v1a. It prints as [redacted].
type PrivateKey struct{ key ed25519.PrivateKey }

// NewPrivateKey makes a key from the system's random numbers.
func NewPrivateKey() PrivateKey {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic(err) // the system's random numbers never fail: the runtime ends the process instead
	}
	return PrivateKey{key}
}

// ParsePrivateKey reads whsk_ and the base64 of 64 bytes: the seed and its public key.
func ParsePrivateKey(text string) (PrivateKey, error) {
	encoded, ok := strings.CutPrefix(text, privatePrefix)
	if !ok {
		return PrivateKey{}, fmt.Errorf("%w: a private key must begin with %s", ErrSecret, privatePrefix)
	}
	raw, err := decode(encoded, ed25519.PrivateKeySize)
	if err != nil {
		return PrivateKey{}, err
	}
	key := ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
	if !bytes.Equal(key, raw) {
		return PrivateKey{}, fmt.Errorf("%w: its two halves do not belong together", ErrSecret)
	}
	return PrivateKey{key}, nil
}

// Reveal returns the key in the form that ParsePrivateKey reads.
func (k PrivateKey) Reveal() string { return privatePrefix + base64.StdEncoding.EncodeToString(k.key) }

// Public returns the 32 bytes of the public key.
func (k PrivateKey) Public() []byte { return k.key[ed25519.SeedSize:] }

// Format hides the key under every verb.
func (PrivateKey) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// LogValue hides the key.
func (PrivateKey) LogValue() slog.Value { return slog.StringValue(redacted) }

// SignAsymmetric returns the value of the webhook-signature header with a v1a signature for each
// key, separated by spaces. The arguments are those of Signer.Sign.
func SignAsymmetric(keys []PrivateKey, id string, at time.Time, body []byte) string {
	signed := message(id, at.Unix(), body)
	out := make([]byte, 0, len(keys)*(len(versionAsymmetric)+2+asymmetricSize))
	for i := range keys {
		if i > 0 {
			out = append(out, ' ')
		}
		out = append(out, versionAsymmetric...)
		out = append(out, ',')
		out = base64.StdEncoding.AppendEncode(out, ed25519.Sign(keys[i].key, signed))
	}
	return string(out)
}

// message returns the text that v1a signs. It is built as a whole, because Ed25519 reads it twice.
func message(id string, unix int64, body []byte) []byte {
	out := make([]byte, 0, len(id)+len(body)+22)
	out = append(out, id...)
	out = append(out, '.')
	out = strconv.AppendInt(out, unix, 10)
	out = append(out, '.')
	return append(out, body...)
}

// FormatPublicKey writes the 32 bytes of a public key in the form of Standard
// Webhooks: whpk_ and their base64.
func FormatPublicKey(public []byte) string {
	return publicPrefix + base64.StdEncoding.EncodeToString(public)
}

// PublicKey returns the key that checks v1a signatures, given the 32 bytes of a public key.
func PublicKey(public []byte) (Key, error) {
	if len(public) != ed25519.PublicKeySize {
		return Key{}, fmt.Errorf("%w: a public key has %d bytes, not %d", ErrSecret, ed25519.PublicKeySize, len(public))
	}
	return Key{public: bytes.Clone(public)}, nil
}

// parsePublicKey reads the base64 after whpk_.
func parsePublicKey(encoded string) (Key, error) {
	raw, err := decode(encoded, ed25519.PublicKeySize)
	if err != nil {
		return Key{}, err
	}
	return PublicKey(raw)
}

// decode reads strict base64 of size bytes.
func decode(encoded string, size int) ([]byte, error) {
	if strings.ContainsAny(encoded, "\r\n") {
		return nil, fmt.Errorf("%w: it has a line break", ErrSecret)
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("%w: after the prefix it must be padded base64", ErrSecret)
	}
	if len(raw) != size {
		return nil, fmt.Errorf("%w: it must have %d bytes, not %d", ErrSecret, size, len(raw))
	}
	return raw, nil
}
