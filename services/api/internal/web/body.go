package web

import (
	"bytes"
	"mime"
	"net/http"
	"strings"
	"time"

	"waybill.dev/shared/apikey"
	"waybill.dev/shared/input"
	"waybill.dev/shared/problem"
)

// body reads the request's body, which must be JSON as far as its headers tell, and of at
// most limit bytes. The time of what follows begins with its end, unless it was there at
// once.
func (c *call) body(limit int64) ([]byte, error) {
	if err := checkMedia(c.Request); err != nil {
		return nil, err
	}
	c.lease = c.memory.Lease()
	started := time.Now()
	read, err := c.lease.Read(c.Writer, c.Request, limit)
	if err != nil {
		return nil, err
	}
	if time.Since(started) > atOnce {
		c.begin()
	}
	return read, nil
}

func checkMedia(r *http.Request) error {
	if r.ContentLength == 0 {
		return nil
	}
	for _, encoding := range r.Header.Values("Content-Encoding") {
		if encoding != "" && !strings.EqualFold(encoding, "identity") {
			return problem.New(problem.UnsupportedMediaType, "The body must not be encoded (Content-Encoding).")
		}
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

// atOnce is how long a body may take off the request's own time.
const atOnce = 20 * time.Millisecond

// form reads a body that must be a JSON object; one that may be left out counts as {}.
func (c *call) form(optional bool) (*input.Form, []byte, error) {
	body, err := c.body(maxResourceBody)
	if err != nil {
		return nil, nil, err
	}
	if optional && len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	f, err := input.ParseForm(body)
	return f, body, err
}

// query reads the request's query.
func (c *call) query() *input.Query { return input.ParseQuery(c.Request.URL.RawQuery) }

const (
	idempotencyHeader = "Idempotency-Key"
	maxIdempotencyKey = 255
)

// idempotencyKey returns the caller's key; empty: none.
func (c *call) idempotencyKey() (string, error) {
	values := c.Request.Header.Values(idempotencyHeader)
	if len(values) == 0 {
		return "", nil
	}
	key := values[0]
	if len(values) > 1 || key == "" || len(key) > maxIdempotencyKey || !apikey.Visible(key) {
		return "", problem.Invalid(problem.Fault{Header: idempotencyHeader, Detail: "must be given once, with 1 to 255 visible ASCII characters"})
	}
	return key, nil
}
