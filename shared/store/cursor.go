package store

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
)

// Cursor is where a page of a list ended. It is opaque to callers, and only valid for the same list
// of the same account.
type Cursor struct {
	List    string `json:"l"` // a letter for each list of the database
	Account string `json:"a"`
	At      int64  `json:"t,omitempty"` // Unix ms, of lists by time
	ID      string `json:"i"`
	Filter  uint64 `json:"f,omitempty"` // a digest of the filters, for lists that have them
}

// Encode writes a cursor with a checksum, so that a damaged cursor is recognised and does not lead
// to another place. A cursor contains no secret, and a caller that makes one up can only name a
// place in a list of its own.
func (c Cursor) Encode() string { return EncodeToken(c) }

// EncodeToken does the same for a cursor of another form, which has only strings and numbers.
func EncodeToken(cursor any) string {
	text, err := json.Marshal(cursor)
	if err != nil {
		return "" // can't happen
	}
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(text, crc32.ChecksumIEEE(text)))
}

// maxCursor bounds the text of a cursor. Cursors contain names and ids.
const maxCursor = 1 << 10

// DecodeCursor returns nil if text is empty, and ErrCursor if text is no cursor of the list. leads
// reports whether a cursor of the list names a place that both databases can look for.
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

// DecodeToken reads into cursor what EncodeToken has written. The error is
// ErrCursor if text is something else.
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
