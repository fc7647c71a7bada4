package domain

import "errors"

// The kinds of failure that callers handle. Adapters wrap one of them with what
// was being done. Any other error is a bug or an outage, whose detail is for the log.
var (
	ErrNotFound    = errors.New("not found")
	ErrConflict    = errors.New("conflict")
	ErrUnavailable = errors.New("unavailable")
	ErrLimit       = errors.New("limit reached")
	ErrUnreadable  = errors.New("can't be read")
	ErrQuota       = errors.New("quota used up")
)
