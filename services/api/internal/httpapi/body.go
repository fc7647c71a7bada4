package httpapi

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"waybill.dev/services/api/internal/auth"
	"waybill.dev/services/api/internal/input"
	"waybill.dev/services/api/internal/problem"
)

// body reads the request's body, which must be JSON as far as its headers tell, and of at
// most limit bytes.
func (c *call) body(limit int64) ([]byte, error) {
	r := c.Request
	if err := checkMedia(r); err != nil {
		return nil, err
	}
	if r.ContentLength > limit {
		// Nothing of it is read; net/http then closes the connection.
		c.Header("Connection", "close")
		return nil, errTooLarge
	}
	var buffer bytes.Buffer
	if r.ContentLength > 0 {
		buffer.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	_, err := buffer.ReadFrom(http.MaxBytesReader(c.Writer, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, errTooLarge
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, problem.Invalid(problem.Fault{Detail: "The body ended too early."})
	case err != nil:
		return nil, problem.Invalid(problem.Fault{Detail: "The body could not be read."})
	}
	return buffer.Bytes(), nil
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
	if len(values) > 1 || key == "" || len(key) > maxIdempotencyKey || !auth.Visible(key) {
		return "", problem.Invalid(problem.Fault{Header: idempotencyHeader, Detail: "must be given once, with 1 to 255 visible ASCII characters"})
	}
	return key, nil
}
