package web

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"math"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
	"waybill.dev/shared/problem"
	"waybill.dev/shared/store"
)

// Limits of a request.
const (
	// MaxBody is the maximum size of a request body for a resource, in bytes. Events have limits of
	// their own.
	MaxBody = 1 << 20
	// MaxPage is the maximum number of entries on a page of a list.
	MaxPage = 1000
	// MaxSearch is the maximum length of a text to search for in lists, in characters.
	MaxSearch = 128
	// MaxOffset is the largest offset at which a page may begin.
	MaxOffset = math.MaxUint32

	idempotencyHeader = "Idempotency-Key"
	maxIdempotencyKey = 255
)

// requestParts collects the parts of a request that were read, and their faults. Check reports the faults, so
// a handler can read the whole request first. Their order is:
//
//   - What makes all else pointless comes first, and alone: an account or a resource that the
//     path names and that is not there (404), a caller who may not do this (403), a malformed
//     Idempotency-Key. After it, no body is read.
//   - Then a body that can't be read: too large, too slow, of another type.
//   - Then the faults of the query and of the body, together.
type requestParts struct {
	refusal error
	query   *input.Query // nil: not read yet
	body    []byte
	bodyErr error
	form    *input.Form // nil: the body is no form
}

// Refuse makes Check fail with err, unless there is an earlier refusal.
func (r *requestParts) Refuse(err error) {
	if r.refusal == nil {
		r.refusal = err
	}
}

// Check returns the faults of everything that was read, or nil. Parameters of the query that were not
// read are faults.
func (c *Call) Check() error {
	if c.refusal != nil {
		return c.refusal
	}
	bodyErr := c.bodyErr
	if bodyErr == nil && c.form != nil {
		bodyErr = c.form.Err()
	}
	if c.query == nil && c.Request.URL.RawQuery == "" {
		return bodyErr
	}
	return join(c.Query().Err(), bodyErr)
}

// join joins the faults of the query and of the body in one problem. A body that can't be read takes
// precedence.
func join(query, body error) error {
	switch {
	case body == nil:
		return query
	case query == nil:
		return body
	}
	var ofQuery, ofBody *problem.Problem
	if !errors.As(query, &ofQuery) || !errors.As(body, &ofBody) || ofBody.Code != problem.InvalidInput {
		return body
	}
	return problem.Invalid(slices.Concat(ofQuery.Faults, ofBody.Faults)...)
}

// Param returns a parameter of the path.
func (c *Call) Param(name string) string { return c.gin.Param(name) }

// Account returns the account in the path. The answer for an account that the caller may not see is the
// same as for one that does not exist.
func (c *Call) Account() string {
	name := c.Param("accountName")
	if !c.Principal.Sees(name) {
		c.Refuse(errNoAccount)
	}
	return name
}

// Of refuses an account other than the caller's that is named outside the path.
func (c *Call) Of(account string) error {
	if !c.Principal.Sees(account) {
		return errNoAccount
	}
	return nil
}

// ID parses the path's parameter id; an invalid id is answered like one that does not exist.
func ID[T any](c *Call, parse func(string) (T, error)) T {
	id, err := parse(c.Param("id"))
	if err != nil {
		c.Refuse(domain.ErrNotFound)
	}
	return id
}

// Query returns the request's query. Check refuses parameters that were not read from it.
func (c *Call) Query() *input.Query {
	if c.query == nil {
		c.query = input.ParseQuery(c.Request.URL.RawQuery)
	}
	return c.query
}

// Page reads which part of a list the query wants.
func (c *Call) Page() store.Page {
	q := c.Query()
	return store.Page{Limit: q.Integer("limit", 1, MaxPage, MaxPage), Offset: q.Integer("offset", 0, MaxOffset, 0)}
}

// Form reads a body that must be a JSON object. Members that are not read are faults. If the body is
// missing or faulty, the form is empty.
func (c *Call) Form() *input.Form { return c.readForm(c.Body(MaxBody)) }

// OptionalForm is Form for a body that may be left out.
func (c *Call) OptionalForm() *input.Form {
	body := c.Body(MaxBody)
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	return c.readForm(body)
}

func (c *Call) readForm(body []byte) *input.Form {
	var form *input.Form
	if c.readable() {
		form, c.bodyErr = input.ParseForm(body)
	}
	if form == nil {
		form, _ = input.ParseForm([]byte("{}"))
		return form // its faults, such as missing members, do not count
	}
	c.form = form
	return form
}

// Forms reads a body that must be an array of minimum to maximum objects.
func (c *Call) Forms(minimum, maximum int) []*input.Form {
	body := c.Body(MaxBody)
	if !c.readable() {
		return nil
	}
	var forms []*input.Form
	c.form, forms, c.bodyErr = input.ParseForms(body, minimum, maximum)
	return forms
}

// readable reports whether the body was read and there is no earlier refusal.
func (c *Call) readable() bool { return c.refusal == nil && c.bodyErr == nil }

// Body reads the request's body, of at most limit bytes. If the headers name a type, it must be JSON.
// All bodies are read here. The time limit of the next part begins at the end of the body, unless the
// body was there at once.
func (c *Call) Body(limit int64) []byte {
	if c.readable() {
		c.bodyErr = checkMedia(c.Request)
	}
	return c.take(limit)
}

// Bytes is Body for a body of any type.
func (c *Call) Bytes(limit int64) []byte {
	if c.readable() {
		c.bodyErr = checkEncoding(c.Request)
	}
	return c.take(limit)
}

func (c *Call) take(limit int64) []byte {
	if !c.readable() {
		return nil
	}
	c.lease = c.kernel.Memory.Lease()
	started := time.Now()
	c.body, c.bodyErr = c.lease.Read(c.Writer, c.Request, limit)
	if c.bodyErr == nil && time.Since(started) > atOnce {
		c.begin()
	}
	return c.body
}

// atOnce is how long the reading of a body may take without restarting the time limit.
const atOnce = 20 * time.Millisecond

func checkMedia(r *http.Request) error {
	if r.ContentLength == 0 {
		return nil
	}
	if err := checkEncoding(r); err != nil {
		return err
	}
	types := r.Header.Values("Content-Type")
	if len(types) == 0 || len(types) == 1 && types[0] == "" {
		return nil
	}
	media, params, err := mime.ParseMediaType(types[0])
	charset, given := params["charset"]
	if err != nil || len(types) > 1 || media != "application/json" || given && !strings.EqualFold(charset, "utf-8") {
		return problem.New(problem.UnsupportedMediaType, "The body must be application/json in UTF-8.")
	}
	return nil
}

func checkEncoding(r *http.Request) error {
	for _, encoding := range r.Header.Values("Content-Encoding") {
		if encoding != "" && !strings.EqualFold(encoding, "identity") {
			return problem.New(problem.UnsupportedMediaType, "The body must not be encoded (Content-Encoding).")
		}
	}
	return nil
}

// Media returns the body's media type in lower case, without parameters; empty: none is given.
func (c *Call) Media() string {
	media, _, err := mime.ParseMediaType(c.Request.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return media
}

// BodyHash returns the SHA-256 of the body that was read.
func (c *Call) BodyHash() [sha256.Size]byte { return sha256.Sum256(c.body) }

// IdempotencyKey returns the caller's key; empty: none.
func (c *Call) IdempotencyKey() string {
	values := c.Request.Header.Values(idempotencyHeader)
	if len(values) == 0 {
		return ""
	}
	key := values[0]
	if len(values) > 1 || key == "" || len(key) > maxIdempotencyKey || !apikey.Visible(key) {
		c.Refuse(problem.Invalid(problem.Fault{Header: idempotencyHeader, Detail: "must be given once, with 1 to 255 visible ASCII characters"}))
	}
	return key
}
