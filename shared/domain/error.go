package domain

import (
	"errors"
	"fmt"
)

// The kinds of failure that callers handle. Adapters wrap one of them with a description of what
// was being done. Any other error is a bug or an outage, whose detail is for the log.
var (
	ErrNotFound    = errors.New("not found")
	ErrConflict    = errors.New("conflict")
	ErrUnavailable = errors.New("unavailable")
	ErrLimit       = errors.New("limit reached")
	ErrUnreadable  = errors.New("can't be read")
	ErrQuota       = errors.New("quota used up")
)

// LimitError is the ErrLimit of things that are counted for each account.
type LimitError struct {
	What    string // such as "keys"
	Setting string // the setting of the limit
	Count   int64  // how many there would be
	Most    int64
}

// Error implements error.
func (e *LimitError) Error() string {
	return fmt.Sprintf("the account would have %d %s, of %d at most", e.Count, e.What, e.Most)
}

// Unwrap returns ErrLimit.
func (*LimitError) Unwrap() error { return ErrLimit }
