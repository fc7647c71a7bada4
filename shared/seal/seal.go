// Package seal encrypts secrets for the database: AES-256-GCM with a ring of keys. The first key
// encrypts and all of them decrypt, so a key can be replaced while Waybill is running. Additional
// data (table, column, row, account) binds a ciphertext to its place: if it is copied into another
// row, it can't be decrypted.
//
// Nonces are random: replace a key before it has sealed 2^32 values.
package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// The reasons for which a sealed value can't be opened.
var (
	ErrUnknownKey = errors.New("encrypted with a key that is not in the keyring")
	ErrBroken     = errors.New("encrypted value was changed, cut or moved")
)

const (
	keySize    = 32
	idSize     = 8
	version    = 1
	headerSize = 1 + idSize // version, key id; nonce and ciphertext follow
	overhead   = headerSize + 12 + 16
)

// Keyring seals and opens. It is safe for concurrent use and prints as [redacted].
type Keyring struct {
	keys []key // at least one; the first encrypts
}

type key struct {
	id     [idSize]byte
	secret []byte
	aead   cipher.AEAD
}

// Parse reads a keyring from text: the base64 of 32 bytes; several keys are separated by commas,
// the encrypting key first. Its errors say which key is wrong and never show it.
func Parse(text string) (*Keyring, error) {
	parts := strings.Split(text, ",")
	ring := &Keyring{keys: make([]key, 0, len(parts))}
	for i, part := range parts {
		secret, err := decodeKey(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("read encryption key %d of %d: %w", i+1, len(parts), err)
		}
		k, err := newKey(secret)
		if err != nil {
			return nil, fmt.Errorf("prepare encryption key %d of %d: %w", i+1, len(parts), err)
		}
		ring.keys = append(ring.keys, k)
	}
	return ring, nil
}

// decodeKey hides the error of the base64 decoder, which says where in the key it stopped.
func decodeKey(text string) ([]byte, error) {
	if text == "" {
		return nil, errors.New("it is empty")
	}
	secret, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		return nil, errors.New("it is not base64")
	}
	if len(secret) != keySize {
		return nil, fmt.Errorf("it has %d bytes, want %d", len(secret), keySize)
	}
	return secret, nil
}

func newKey(secret []byte) (key, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return key{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return key{}, err
	}
	k := key{secret: secret, aead: aead}
	copy(k.id[:], derive(secret, "key id"))
	return k, nil
}

// Generate returns a new key in the form that Parse reads.
func Generate() string {
	secret := make([]byte, keySize)
	_, _ = rand.Read(secret) // never fails: the runtime ends the process instead
	return base64.StdEncoding.EncodeToString(secret)
}

// Seal encrypts plain with the first key and binds it to aad.
func (k *Keyring) Seal(plain, aad []byte) []byte {
	current := &k.keys[0]
	sealed := make([]byte, headerSize, overhead+len(plain))
	sealed[0] = version
	copy(sealed[1:], current.id[:])
	return current.aead.Seal(sealed, nil, plain, bind(sealed[:headerSize], aad))
}

// Open returns the value that was sealed with the same aad. The error is ErrUnknownKey or
// ErrBroken; it is ErrBroken also if aad differs.
func (k *Keyring) Open(sealed, aad []byte) ([]byte, error) {
	if len(sealed) < overhead || sealed[0] != version {
		return nil, ErrBroken
	}
	holder := k.holder(sealed)
	if holder < 0 {
		return nil, ErrUnknownKey
	}
	header := sealed[:headerSize]
	plain, err := k.keys[holder].aead.Open(nil, nil, sealed[headerSize:], bind(header, aad))
	if err != nil {
		return nil, ErrBroken
	}
	return plain, nil
}

// holder returns the position of the key that sealed was made with; -1: none.
func (k *Keyring) holder(sealed []byte) int {
	for i := range k.keys {
		if bytes.Equal(sealed[1:headerSize], k.keys[i].id[:]) {
			return i
		}
	}
	return -1
}

// Derive returns a 32-byte key for purpose from each key of the ring by HKDF-SHA-256, in the ring's
// order. A key for one purpose reveals nothing about the key for another.
func (k *Keyring) Derive(purpose string) [][]byte {
	derived := make([][]byte, len(k.keys))
	for i := range k.keys {
		derived[i] = derive(k.keys[i].secret, "derived/"+purpose)
	}
	return derived
}

// For returns a keyring for purpose, with the keys of Derive. Values that are sealed for one purpose don't count
// towards the 2^32 values of another.
func (k *Keyring) For(purpose string) *Keyring {
	ring := &Keyring{keys: make([]key, len(k.keys))}
	for i, secret := range k.Derive(purpose) {
		made, err := newKey(secret)
		if err != nil {
			panic(err) // only for key lengths that AES does not support
		}
		ring.keys[i] = made
	}
	return ring
}

func derive(secret []byte, info string) []byte {
	out, err := hkdf.Key(sha256.New, secret, nil, "waybill/"+info, keySize)
	if err != nil {
		panic(err) // only for lengths that SHA-256 does not support
	}
	return out
}

// bind puts the header before aad, so that version and key id are authenticated too.
func bind(header, aad []byte) []byte {
	out := make([]byte, 0, len(header)+len(aad))
	return append(append(out, header...), aad...)
}

const redacted = "[redacted]"

// Format hides the keys under every verb.
func (k *Keyring) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// LogValue hides the keys.
func (k *Keyring) LogValue() slog.Value { return slog.StringValue(redacted) }
