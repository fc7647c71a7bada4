package domain

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/bits"
	"time"
)

// DeliveryID identifies one delivery: one event to one webhook. It is 22 characters of base62, in
// ASCII order, over 16 bytes: 6 of the event's acceptance in Unix milliseconds, 10 of a hash of
// account, event and webhook. So it is the same however often the event is fanned out, it sorts by
// time, it contains its day partition, and its 22 characters keep a bus subject short.
type DeliveryID string

const (
	base62     = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	idLength   = 22
	idByteSize = 16
)

// NewDeliveryID returns the id of the delivery of an event to a webhook.
func NewDeliveryID(event EventKey, webhook WebhookID) DeliveryID {
	var in [256]byte
	buf := append(in[:0], event.Account...)
	buf = append(buf, 0)
	buf = append(buf, event.ID...)
	buf = append(buf, 0)
	buf = append(buf, webhook...)
	sum := sha256.Sum256(buf)
	var raw [idByteSize]byte
	putMillis(raw[:6], event.ReceivedAt)
	copy(raw[6:], sum[:10])
	return DeliveryID(encode62(raw))
}

// ReceivedAt returns when the delivery's event was accepted.
// ok is false when id is not a delivery id.
func (id DeliveryID) ReceivedAt() (t time.Time, ok bool) {
	raw, ok := decode62(string(id))
	if !ok {
		return time.Time{}, false
	}
	var ms [8]byte
	copy(ms[2:], raw[:6])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(ms[:]))).UTC(), true
}

// DeliveryIDFloor returns the smallest id that a delivery of an event accepted at t
// can have; it bounds lists by time.
func DeliveryIDFloor(t time.Time) DeliveryID {
	var raw [idByteSize]byte
	putMillis(raw[:6], t)
	return DeliveryID(encode62(raw))
}

// WebhookID is a webhook's UUID in its canonical text form.
type WebhookID string

// ErrWebhookID is returned for text that is not a canonical UUID.
var ErrWebhookID = errors.New("not a UUID")

// ParseWebhookID checks that text is a UUID of 36 lower-case characters.
func ParseWebhookID(text string) (WebhookID, error) {
	if _, ok := uuidBytes(text); !ok {
		return "", ErrWebhookID
	}
	return WebhookID(text), nil
}

// Token returns the id as 22 characters of base62 for bus subjects. WebhookFromToken is the inverse.
func (id WebhookID) Token() string {
	raw, _ := uuidBytes(string(id))
	return encode62(raw)
}

// WebhookFromToken returns the webhook with a token.
func WebhookFromToken(token string) (WebhookID, bool) {
	raw, ok := decode62(token)
	if !ok {
		return "", false
	}
	text := make([]byte, 36)
	hex.Encode(text, raw[:4])
	text[8] = '-'
	hex.Encode(text[9:], raw[4:6])
	text[13] = '-'
	hex.Encode(text[14:], raw[6:8])
	text[18] = '-'
	hex.Encode(text[19:], raw[8:10])
	text[23] = '-'
	hex.Encode(text[24:], raw[10:])
	return WebhookID(text), true
}

// Shards is the number of shards into which webhooks are divided. Each shard has one owner among the
// live dispatchers. The number can't change after installation, because it is part of every bus subject.
const Shards = 16

// Shard returns the shard of the webhook, 0 to Shards-1.
func (id WebhookID) Shard() int { return shardOf(string(id)) }

// AccountShard returns the shard of an account, 0 to Shards-1. Its owner keeps the order of the
// account's ordered webhooks.
func AccountShard(account string) int { return shardOf(account) }

func shardOf(name string) int {
	h := uint32(2166136261) // FNV-1a
	for i := range len(name) {
		h = (h ^ uint32(name[i])) * 16777619
	}
	return int(h % Shards)
}

// AttemptID returns a new id for one attempt. It is made when the POST starts, so that the record
// of an attempt can be written twice without counting twice.
func AttemptID() string {
	var raw [idByteSize]byte
	putMillis(raw[:6], time.Now())
	if _, err := rand.Read(raw[6:]); err != nil {
		panic(err) // crypto/rand never fails on the supported systems
	}
	return encode62(raw)
}

// RandomText returns n random characters of base62, each as likely as any other.
func RandomText(n int) string {
	const fair = 256 - 256%len(base62) // bytes from here on would favour the first characters
	text := make([]byte, 0, n)
	for len(text) < n {
		for _, b := range NewSecretBytes(n - len(text)) {
			if int(b) < fair {
				text = append(text, base62[int(b)%len(base62)])
			}
		}
	}
	return string(text)
}

// NewSecretBytes returns n bytes from the system's random source.
func NewSecretBytes(n int) []byte {
	b := make([]byte, n)
	if _, err := rand.Read(b); err != nil {
		panic(err) // crypto/rand never fails on the supported systems
	}
	return b
}

// NewSecret returns a fresh signing secret: whsec_ and the base64 of 32 bytes.
func NewSecret() Secret {
	return Secret("whsec_" + base64.StdEncoding.EncodeToString(NewSecretBytes(32)))
}

func putMillis(dst []byte, t time.Time) {
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(t.UnixMilli()))
	copy(dst, ms[2:])
}

// encode62 writes the 128-bit number in raw as 22 base62 digits, most significant
// first, so that the text sorts like the bytes.
func encode62(raw [idByteSize]byte) string {
	hi, lo := binary.BigEndian.Uint64(raw[:8]), binary.BigEndian.Uint64(raw[8:])
	var out [idLength]byte
	for i := idLength - 1; i >= 0; i-- {
		var rem uint64
		hi, rem = hi/62, hi%62
		lo, rem = bits.Div64(rem, lo, 62)
		out[i] = base62[rem]
	}
	return string(out[:])
}

func decode62(text string) (raw [idByteSize]byte, ok bool) {
	if len(text) != idLength {
		return raw, false
	}
	var hi, lo uint64
	for i := range idLength {
		digit, valid := digit62(text[i])
		if !valid {
			return raw, false
		}
		carryHi, carryLo := bits.Mul64(lo, 62)
		overflow, newHi := bits.Mul64(hi, 62)
		var c uint64
		lo, c = bits.Add64(carryLo, digit, 0)
		hi, c = bits.Add64(newHi, carryHi, c)
		if overflow != 0 || c != 0 {
			return raw, false
		}
	}
	binary.BigEndian.PutUint64(raw[:8], hi)
	binary.BigEndian.PutUint64(raw[8:], lo)
	return raw, true
}

func digit62(c byte) (uint64, bool) {
	switch {
	case c >= '0' && c <= '9':
		return uint64(c - '0'), true
	case c >= 'A' && c <= 'Z':
		return uint64(c-'A') + 10, true
	case c >= 'a' && c <= 'z':
		return uint64(c-'a') + 36, true
	}
	return 0, false
}

func uuidBytes(text string) (raw [idByteSize]byte, ok bool) {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return raw, false
	}
	j := 0
	for i := range 36 {
		if text[i] == '-' {
			if i == 8 || i == 13 || i == 18 || i == 23 {
				continue
			}
			return raw, false
		}
		v, valid := hexDigit(text[i])
		if !valid {
			return raw, false
		}
		if j%2 == 0 {
			raw[j/2] = v << 4
		} else {
			raw[j/2] |= v
		}
		j++
	}
	return raw, true
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	}
	return 0, false
}
