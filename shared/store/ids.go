package store

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"waybill.dev/shared/domain"
)

// NewID returns prefix and so many random characters after it.
func NewID(prefix string, length int) string { return prefix + domain.RandomText(length) }

// NewUUID returns an id for what happens now; such ids sort by time.
func NewUUID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make id: %w", err)
	}
	return id.String(), nil
}

// Storable reports whether both databases keep the texts as they are. What is not is never
// found there.
func Storable(texts ...string) bool {
	for _, text := range texts {
		if strings.IndexByte(text, 0) >= 0 || !utf8.ValidString(text) {
			return false
		}
	}
	return true
}
