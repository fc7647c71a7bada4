package route

import (
	"net/http"

	"github.com/google/uuid"

	"waybill.dev/services/api/internal/auth"
)

// RequestIDHeader names a request, in it and in its answer.
const RequestIDHeader = "X-Request-Id"

const maxRequestID = 128

// RequestID returns the id that a request brings when it is 1 to 128 visible ASCII
// characters, else a fresh one.
func RequestID(header http.Header) string {
	given := header[RequestIDHeader]
	if len(given) == 1 && given[0] != "" && len(given[0]) <= maxRequestID && auth.Visible(given[0]) {
		return given[0]
	}
	return uuid.NewString()
}
