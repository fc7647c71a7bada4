package domain

import "errors"

// The kinds of failure that callers act upon; adapters wrap one of them with what
// was being done. Everything else is a bug or an outage whose detail is for the log.
var (
	ErrNotFound    = errors.New("not found")
	ErrConflict    = errors.New("conflict")
	ErrUnavailable = errors.New("unavailable")
	ErrLimit       = errors.New("limit reached")
	ErrUnreadable  = errors.New("can't be read")
)
