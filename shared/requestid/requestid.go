// Package requestid gives requests ids for answers, logs and back ends.
package requestid

import (
	"net/http"

	"github.com/google/uuid"

	"waybill.dev/shared/apikey"
)

// Header is the header with the id of a request, in the request and in its answer.
const Header = "X-Request-Id"

const maxLength = 128

// Of returns the id in a request's header if it is 1 to 128 visible ASCII characters, otherwise a new one.
func Of(header http.Header) string {
	if given := Given(header); given != "" {
		return given
	}
	return New()
}

// New returns a new id.
func New() string { return uuid.NewString() }

// Given returns the id in a request's header; empty: there is none of that form.
func Given(header http.Header) string {
	given := header[Header]
	if len(given) == 1 && len(given[0]) <= maxLength && given[0] != "" && apikey.Visible(given[0]) {
		return given[0]
	}
	return ""
}
