// Package signature signs and verifies callbacks by Standard Webhooks 1.0.0, over
// "id.timestamp.body": with HMAC-SHA-256, scheme v1, and with Ed25519, scheme v1a.
package signature

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The headers of a signed callback, in their lower-case form.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

const (
	secretPrefix = "whsec_"
	minKeySize   = 24
	maxKeySize   = 64
	version      = "v1"
	blockSize    = sha256.BlockSize
	encodedSize  = 44 // base64 of a SHA-256 sum, padded
)

// ErrSecret is returned for text that is no signing secret; it never contains the text.
var ErrSecret = errors.New("not a signing secret")

// Key is a webhook's signing secret, or the public key of an account, which only checks signatures.
// It prints as [redacted].
type Key struct {
	bytes  []byte // of a secret
	public ed25519.PublicKey
}

// ParseSecret reads whsec_ and the base64 of 24 to 64 bytes, in the strict form (padded, no line
// breaks, no stray bits) that the libraries of all receivers accept.
func ParseSecret(text string) (Key, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	if !ok {
		return Key{}, fmt.Errorf("%w: it must begin with %s", ErrSecret, secretPrefix)
	}
	return decodeKey(encoded)
}

// ParseKey reads the key with which a receiver checks signatures: a public key, which begins with
// whpk_, or a secret. The secret's prefix may be missing, as in the libraries of receivers.
func ParseKey(text string) (Key, error) {
	if encoded, ok := strings.CutPrefix(text, publicPrefix); ok {
		return parsePublicKey(encoded)
	}
	if strings.HasPrefix(text, privatePrefix) {
		return Key{}, fmt.Errorf("%w: it is a private key, which no receiver may have", ErrSecret)
	}
	return decodeKey(strings.TrimPrefix(text, secretPrefix))
}

// Public reports whether the key is a public one.
func (k Key) Public() bool { return k.public != nil }

// Equal reports whether two keys are the same.
func (k Key) Equal(other Key) bool {
	return hmac.Equal(k.bytes, other.bytes) && k.public.Equal(other.public)
}

// checks reports whether the key, or its private half, made a signature, in constant time. A key
// checks only signatures of its own scheme.
func (k Key) checks(s *parsedSignature, id string, unix int64, body []byte) bool {
	if k.Public() {
		return s.scheme == versionAsymmetric && ed25519.Verify(k.public, message(id, unix, body), s.sum)
	}
	return s.scheme == version && NewSigner(k).matches(s.sum, id, unix, body)
}

// matchAny returns the first of keys that made the signature; -1: none did.
func matchAny(keys []Key, s *parsedSignature, id string, unix int64, body []byte) int {
	return slices.IndexFunc(keys, func(k Key) bool { return k.checks(s, id, unix, body) })
}

func decodeKey(encoded string) (Key, error) {
	if strings.ContainsAny(encoded, "\r\n") {
		return Key{}, fmt.Errorf("%w: it has a line break", ErrSecret)
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return Key{}, fmt.Errorf("%w: after the prefix it must be padded base64", ErrSecret)
	}
	if len(raw) < minKeySize || len(raw) > maxKeySize {
		return Key{}, fmt.Errorf("%w: it must have %d to %d bytes, not %d", ErrSecret, minKeySize, maxKeySize, len(raw))
	}
	return Key{bytes: raw}, nil
}

const redacted = "[redacted]"

// Format hides the key under every verb.
func (Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// LogValue hides the key.
func (Key) LogValue() slog.Value { return slog.StringValue(redacted) }

// Signer signs with one key or, during the overlap of a rotation, with several. It is safe for
// concurrent use. Keep it: making a Signer costs as much as a few signatures.
type Signer struct{ states []state }

// state has the SHA-256 states after the first block of HMAC's inner and outer hash. They depend
// only on the key, so each signature starts from them.
type state struct{ inner, outer []byte }

// NewSigner returns a signer whose signatures come in the order of keys, which are secrets.
func NewSigner(keys ...Key) *Signer {
	s := &Signer{states: make([]state, len(keys))}
	for i, key := range keys {
		s.states[i] = state{inner: paddedState(key.bytes, 0x36), outer: paddedState(key.bytes, 0x5c)}
	}
	return s
}

// paddedState hashes the block that HMAC (RFC 2104) puts before its message.
func paddedState(key []byte, pad byte) []byte {
	var block [blockSize]byte // fits, because a key has at most 64 bytes
	copy(block[:], key)
	for i := range block {
		block[i] ^= pad
	}
	h := sha256.New()
	h.Write(block[:])
	saved, err := h.(encoding.BinaryMarshaler).MarshalBinary() //nolint:errcheck // SHA-256 is one
	if err != nil {
		panic(err) // SHA-256's state always marshals
	}
	return saved
}

// Sign returns the value of the webhook-signature header for a callback whose
// webhook-id is id and whose webhook-timestamp is at in Unix seconds: a v1 signature for
// each key, separated by spaces. id must not contain a dot.
func (s *Signer) Sign(id string, at time.Time, body []byte) string {
	w := worker{hash: sha256.New()}
	out := make([]byte, 0, len(s.states)*(len(version)+2+encodedSize))
	for i := range s.states {
		if i > 0 {
			out = append(out, ' ')
		}
		out = append(out, version...)
		out = append(out, ',')
		out = base64.StdEncoding.AppendEncode(out, w.mac(&s.states[i], id, at.Unix(), body))
	}
	return string(out)
}

// worker is the memory that one signature needs in addition to the key's state.
type worker struct {
	hash hash.Hash
	buf  [128]byte
}

// mac returns the HMAC in w's buffer: valid until the next call.
func (w *worker) mac(s *state, id string, unix int64, body []byte) []byte {
	w.restore(s.inner)
	prefix := append(w.buf[:0], id...)
	prefix = append(prefix, '.')
	prefix = strconv.AppendInt(prefix, unix, 10)
	prefix = append(prefix, '.')
	w.hash.Write(prefix)
	w.hash.Write(body)
	sum := w.hash.Sum(w.buf[:0])
	w.restore(s.outer)
	w.hash.Write(sum)
	return w.hash.Sum(w.buf[:0])
}

func (w *worker) restore(saved []byte) {
	if err := w.hash.(encoding.BinaryUnmarshaler).UnmarshalBinary(saved); err != nil { //nolint:errcheck // SHA-256 is one
		panic(err) // the same library marshaled it
	}
}

// matches reports whether any of the signer's keys made mac, in constant time per key.
func (s *Signer) matches(mac []byte, id string, unix int64, body []byte) bool {
	w := worker{hash: sha256.New()}
	for i := range s.states {
		if hmac.Equal(mac, w.mac(&s.states[i], id, unix, body)) {
			return true
		}
	}
	return false
}
