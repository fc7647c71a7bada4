package store

import (
	"strings"
	"unicode/utf8"

	"waybill.dev/shared/domain"
)

// Prefixes and lengths of the ids that the store makes.
const (
	prefixAccount  = "acct_"
	prefixProject  = "prj_"
	prefixBucket   = "bckt_"
	prefixConsumer = "csmr_"
	prefixKey      = "key_"
	prefixManager  = "eusr_"

	bucketIDLength = 32
	idLength       = 24
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// newID returns prefix and so many random characters after it.
func newID(prefix string, length int) string {
	id := make([]byte, 0, length)
	for len(id) < length {
		for _, c := range domain.NewSecretBytes(length - len(id)) {
			if int(c) < 256/len(base62)*len(base62) { // each character equally likely
				id = append(id, base62[int(c)%len(base62)])
			}
		}
	}
	return prefix + string(id)
}

// storable tells whether both databases keep the texts as they are. What is not is never
// found there.
func storable(texts ...string) bool {
	for _, text := range texts {
		if strings.IndexByte(text, 0) >= 0 || !utf8.ValidString(text) {
			return false
		}
	}
	return true
}
