// Package requestid names requests: in what is answered, in logs, and to back ends.
package requestid

import (
	"net/http"

	"github.com/google/uuid"

	"waybill.dev/shared/apikey"
)

// Header names a request, in it and in its answer.
const Header = "X-Request-Id"

const maxLength = 128

// Of returns the id that a request brings when it is 1 to 128 visible ASCII characters,
// else a fresh one.
func Of(header http.Header) string {
	if given := Given(header); given != "" {
		return given
	}
	return New()
}

// New returns a fresh id.
func New() string { return uuid.NewString() }

// Given returns the id that a request brings; empty: it brings none of that form.
func Given(header http.Header) string {
	given := header[Header]
	if len(given) == 1 && len(given[0]) <= maxLength && given[0] != "" && apikey.Visible(given[0]) {
		return given[0]
	}
	return ""
}
