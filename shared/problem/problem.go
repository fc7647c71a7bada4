// Package problem is the form in which every HTTP endpoint reports errors: application/problem+json
// of RFC 9457, with all faults of the input at once.
package problem

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/shared/domain"
)

// ContentType is the media type of a problem.
const ContentType = "application/problem+json"

// Code identifies a kind of problem for programs.
type Code string

// The codes, each with its status.
const (
	InvalidInput         Code = "INVALID_INPUT"          // 400
	Unauthenticated      Code = "UNAUTHENTICATED"        // 401
	Forbidden            Code = "FORBIDDEN"              // 403
	NotFound             Code = "NOT_FOUND"              // 404
	MethodNotAllowed     Code = "METHOD_NOT_ALLOWED"     // 405
	RequestTimeout       Code = "REQUEST_TIMEOUT"        // 408
	Conflict             Code = "CONFLICT"               // 409
	Gone                 Code = "GONE"                   // 410
	TooLarge             Code = "TOO_LARGE"              // 413
	URITooLong           Code = "URI_TOO_LONG"           // 414
	UnsupportedMediaType Code = "UNSUPPORTED_MEDIA_TYPE" // 415
	NoSubscription       Code = "NO_SUBSCRIPTION"        // 403
	Misdirected          Code = "MISDIRECTED"            // 421
	RateLimited          Code = "RATE_LIMITED"           // 429
	QuotaExceeded        Code = "QUOTA_EXCEEDED"         // 429
	Internal             Code = "INTERNAL"               // 500
	BadGateway           Code = "BAD_GATEWAY"            // 502
	Unavailable          Code = "UNAVAILABLE"            // 503
	GatewayTimeout       Code = "GATEWAY_TIMEOUT"        // 504
)

type codeKind struct {
	status int
	title  string
	slug   string
}

// kindOf returns the status and texts of a code.
func kindOf(code Code) codeKind {
	switch code {
	case InvalidInput:
		return codeKind{http.StatusBadRequest, "Invalid input", "invalid-input"}
	case Unauthenticated:
		return codeKind{http.StatusUnauthorized, "Not authenticated", "unauthenticated"}
	case Forbidden:
		return codeKind{http.StatusForbidden, "Not permitted", "forbidden"}
	case NotFound:
		return codeKind{http.StatusNotFound, "Not found", "not-found"}
	case MethodNotAllowed:
		return codeKind{http.StatusMethodNotAllowed, "Method not allowed", "method-not-allowed"}
	case RequestTimeout:
		return codeKind{http.StatusRequestTimeout, "Request timeout", "request-timeout"}
	case Conflict:
		return codeKind{http.StatusConflict, "Conflict", "conflict"}
	case Gone:
		return codeKind{http.StatusGone, "Gone", "gone"}
	case TooLarge:
		return codeKind{http.StatusRequestEntityTooLarge, "Too large", "too-large"}
	case URITooLong:
		return codeKind{http.StatusRequestURITooLong, "URI too long", "uri-too-long"}
	case Misdirected:
		return codeKind{http.StatusMisdirectedRequest, "Misdirected request", "misdirected"}
	case UnsupportedMediaType:
		return codeKind{http.StatusUnsupportedMediaType, "Unsupported media type", "unsupported-media-type"}
	case RateLimited:
		return codeKind{http.StatusTooManyRequests, "Too many requests", "rate-limited"}
	case NoSubscription:
		return codeKind{http.StatusForbidden, "No subscription", "no-subscription"}
	case QuotaExceeded:
		return codeKind{http.StatusTooManyRequests, "Quota exceeded", "quota-exceeded"}
	case BadGateway:
		return codeKind{http.StatusBadGateway, "Bad gateway", "bad-gateway"}
	case Unavailable:
		return codeKind{http.StatusServiceUnavailable, "Unavailable", "unavailable"}
	case GatewayTimeout:
		return codeKind{http.StatusGatewayTimeout, "Gateway timeout", "gateway-timeout"}
	}
	return codeKind{http.StatusInternalServerError, "Internal error", "internal"}
}

// Fault is one fault of a request. It has exactly one place: the query parameter or header that is named,
// otherwise the JSON pointer into the body, where "" is the whole body. Detail never repeats the value.
type Fault struct {
	Pointer   string
	Parameter string
	Header    string
	Detail    string
}

// Problem is an error that the caller gets as it is.
type Problem struct {
	Code   Code
	Detail string
	Faults []Fault
	// Challenge is the value of WWW-Authenticate; empty: Bearer, for an unknown caller.
	Challenge string
	// RetryAfter is sent in whole seconds, rounded up; 0: not sent.
	RetryAfter time.Duration
	// Scopes are the scopes that the operation needs, and those of the key; nil: the request was
	// refused for another reason.
	Scopes *Scopes
	// Extra has members that come after the standard ones.
	Extra []Member
}

// Scopes are the scopes that an operation needs, and those of the refused key.
type Scopes struct{ Required, Granted []domain.Scope }

// Member is an extension member of a problem with a text value.
type Member struct{ Name, Value string }

// New returns a problem with a sentence for people.
func New(code Code, detail string) *Problem { return &Problem{Code: code, Detail: detail} }

// MaxFaults bounds the faults that one problem names.
const MaxFaults = 100

// Invalid returns the problem with these faults, at most 100 of them.
func Invalid(faults ...Fault) *Problem {
	if len(faults) > MaxFaults {
		faults = faults[:MaxFaults]
	}
	detail := "The request has a fault; see errors."
	if len(faults) > 1 {
		detail = "The request has " + strconv.Itoa(len(faults)) + " faults; see errors."
	}
	return &Problem{Code: InvalidInput, Detail: detail, Faults: faults}
}

// Missing returns the problem for a resource that does not exist or belongs to another account.
func Missing() *Problem { return New(NotFound, "There is no such resource.") }

// KeyRequired returns the problem for a request without a key, or with a key that is not valid.
func KeyRequired() *Problem {
	return New(Unauthenticated, "A valid API key is required, as Authorization: Bearer or X-API-Key.")
}

// Lacking returns the problem for a key without the scopes that an operation needs. takes describes
// these scopes in words.
func Lacking(takes string, scopes Scopes) *Problem {
	has := "no scope"
	if len(scopes.Granted) > 0 {
		has = Listed(scopes.Granted, ", ")
	}
	return &Problem{Code: Forbidden, Detail: "The key lacks the permission for this. It takes " + takes + "; the key has " + has + ".", Scopes: &scopes}
}

// Listed returns scopes with a text between them.
func Listed(scopes []domain.Scope, between string) string {
	names := make([]string, len(scopes))
	for i, scope := range scopes {
		names[i] = string(scope)
	}
	return strings.Join(names, between)
}

// Error makes a problem an error.
func (p *Problem) Error() string { return string(p.Code) + ": " + p.Detail }

// Status returns the HTTP status.
func (p *Problem) Status() int { return kindOf(p.Code).status }

// Write sends the problem as the answer to r.
func (p *Problem) Write(w http.ResponseWriter, r *http.Request, requestID string) {
	header := w.Header()
	p.SetHeader(header)
	body := p.JSON(r.URL.EscapedPath(), requestID)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status())
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

// SetHeader sets the header of the answer, except the body's length.
func (p *Problem) SetHeader(header http.Header) {
	header.Set("Content-Type", ContentType)
	if p.Challenge != "" {
		header.Set("WWW-Authenticate", p.Challenge)
	} else if p.Code == Unauthenticated {
		header.Set("WWW-Authenticate", "Bearer")
	}
	if p.RetryAfter > 0 {
		seconds := (p.RetryAfter + time.Second - 1) / time.Second
		header.Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
	}
}

// JSON returns the body of the answer to a request for the path instance. Text that looks like a
// key is left out of the places in it.
func (p *Problem) JSON(instance, requestID string) []byte {
	kind := kindOf(p.Code)
	b := make([]byte, 0, 256+64*len(p.Faults))
	b = append(b, `{"type":`...)
	b = quote(b, TypeBase+kind.slug)
	b = append(b, `,"title":`...)
	b = quote(b, kind.title)
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(kind.status), 10)
	b = append(b, `,"detail":`...)
	b = quote(b, p.Detail)
	b = append(b, `,"instance":`...)
	b = quote(b, Redact(instance))
	b = append(b, `,"code":`...)
	b = quote(b, string(p.Code))
	b = append(b, `,"requestId":`...)
	b = quote(b, requestID)
	for i, f := range p.Faults {
		if i == 0 {
			b = append(b, `,"errors":[`...)
		} else {
			b = append(b, ',')
		}
		b = f.append(b)
	}
	if len(p.Faults) > 0 {
		b = append(b, ']')
	}
	if p.Scopes != nil {
		b = appendScopes(b, "required", p.Scopes.Required)
		b = appendScopes(b, "granted", p.Scopes.Granted)
	}
	for _, m := range p.Extra {
		b = append(b, ',')
		b = quote(b, m.Name)
		b = append(b, ':')
		b = quote(b, m.Value)
	}
	return append(b, '}', '\n')
}

func appendScopes(b []byte, name string, scopes []domain.Scope) []byte {
	b = append(b, ',')
	b = append(quote(b, name), ":["...)
	for i, scope := range scopes {
		if i > 0 {
			b = append(b, ',')
		}
		b = quote(b, string(scope))
	}
	return append(b, ']')
}

func (f Fault) append(b []byte) []byte {
	place, value := `{"pointer":`, f.Pointer
	switch {
	case f.Parameter != "":
		place, value = `{"parameter":`, f.Parameter
	case f.Header != "":
		place, value = `{"header":`, f.Header
	}
	b = append(b, place...)
	b = quote(b, Redact(value))
	b = append(b, `,"detail":`...)
	b = quote(b, f.Detail)
	return append(b, '}')
}

// quote appends s as a JSON string; bytes that are no UTF-8 become U+FFFD.
func quote(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s)
	return b
}
