package egress

import (
	"errors"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Limits of a custom header.
const (
	maxHeaderName  = 128
	maxHeaderValue = 4096
)

// The reasons for which a custom header is refused; none contains its value.
var (
	errHeaderName     = errors.New("is not a valid header name of at most 128 characters")
	errHeaderReserved = errors.New("is set by Waybill or belongs to the connection")
	errHeaderValue    = errors.New("has a value that is no valid header value of at most 4096 bytes")
)

// ValidHeader returns an error if a webhook may not have name as a custom header with value. It
// refuses names that Waybill sets, names that control the connection or proxies, and
// Idempotency-Key, with which net/http would send a POST twice. The error's text continues a
// sentence that begins with the name, and never contains the value.
func (p *Policy) ValidHeader(name, value string) error {
	if len(name) > maxHeaderName || !httpguts.ValidHeaderFieldName(name) {
		return errHeaderName
	}
	if isReserved(strings.ToLower(name)) {
		return errHeaderReserved
	}
	if len(value) > maxHeaderValue || !httpguts.ValidHeaderFieldValue(value) || strings.Trim(value, " \t") != value {
		return errHeaderValue
	}
	return nil
}

func isReserved(name string) bool {
	switch name {
	case "content-type", "content-length", "content-encoding", "user-agent", "traceparent", "tracestate", // set by Waybill
		"host", "connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", // of the connection
		"upgrade", "http2-settings", "expect", "accept-encoding", "range",
		"cookie", "cookie2", "set-cookie", "forwarded", "via", "date",
		"idempotency-key", "x-idempotency-key":
		return true
	}
	for _, prefix := range []string{"webhook-", "waybill-", "proxy-", "x-forwarded-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
