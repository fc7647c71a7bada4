package store

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
)

// Cursor is where a page of a list ended: opaque to callers, of use for the same list
// of the same account alone.
type Cursor struct {
	List    string `json:"l"` // a letter for each list of the database
	Account string `json:"a"`
	At      int64  `json:"t,omitempty"` // Unix ms, of lists by time
	ID      string `json:"i"`
	Filter  uint64 `json:"f,omitempty"` // of lists with filters: a digest of theirs
}

// Encode writes a cursor with a checksum, so that a damaged one is known for what it is and
// leads to no other place. It keeps no secret, and who makes one up can name only a place
// in a list of their own.
func (c Cursor) Encode() string { return EncodeToken(c) }

// EncodeToken does the same with a cursor of another form, which has strings and numbers alone.
func EncodeToken(cursor any) string {
	text, err := json.Marshal(cursor)
	if err != nil {
		return "" // can't be
	}
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(text, crc32.ChecksumIEEE(text)))
}

// maxCursor bounds the text of a cursor: those that are given have names and ids in them.
const maxCursor = 1 << 10

// DecodeCursor returns nil for no cursor, and ErrCursor for one of something else. Leads tells
// whether a cursor of the list names a place that both databases can look for.
func DecodeCursor(text, list, account string, leads func(Cursor) bool) (*Cursor, error) {
	if text == "" {
		return nil, nil // the first page
	}
	var c Cursor
	if err := DecodeToken(text, &c); err != nil {
		return nil, err
	}
	if c.List != list || c.Account != account || !leads(c) {
		return nil, fmt.Errorf("decode cursor: %w", ErrCursor)
	}
	return &c, nil
}

// DecodeToken reads into cursor what EncodeToken has written. ErrCursor: it has not.
func DecodeToken(text string, cursor any) error {
	raw, err := base64.RawURLEncoding.DecodeString(text[:min(len(text), maxCursor)])
	if err == nil && len(raw) > crc32.Size {
		err = json.Unmarshal(raw[:len(raw)-crc32.Size], cursor)
	}
	if err != nil || EncodeToken(cursor) != text {
		return fmt.Errorf("decode cursor: %w", ErrCursor)
	}
	return nil
}
