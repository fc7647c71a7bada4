package store

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"waybill.dev/shared/domain"
)

// NewID returns prefix followed by length random characters.
func NewID(prefix string, length int) string { return prefix + domain.RandomText(length) }

// NewUUID returns a new id; such ids sort by the time at which they were made.
func NewUUID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make id: %w", err)
	}
	return id.String(), nil
}

// Storable reports whether both databases can store the texts unchanged. A text that they can't
// store is never found.
func Storable(texts ...string) bool {
	for _, text := range texts {
		if strings.IndexByte(text, 0) >= 0 || !utf8.ValidString(text) {
			return false
		}
	}
	return true
}
