package web

import (
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
)

const contentJSON = "application/json; charset=utf-8"

// Answer writes value as JSON.
func (c *Call) Answer(status int, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return c.Send(status, body)
}

// Send writes a body that is JSON already.
func (c *Call) Send(status int, body []byte) error {
	c.Write(status, contentJSON, body)
	return nil
}

// Write writes a body of any type.
func (c *Call) Write(status int, contentType string, body []byte) {
	header := c.Writer.Header()
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("Content-Type", contentType)
	c.Writer.WriteHeader(status)
	_, _ = c.Writer.Write(body) // a client that is gone gets no answer
}

// Created answers with the thing that was made, and its path.
func (c *Call) Created(path string, value any) error {
	c.Writer.Header().Set("Location", c.Link(path))
	return c.Answer(http.StatusCreated, value)
}

// NoContent answers that the work is done, without a body.
func (c *Call) NoContent() error { return c.Bare(http.StatusNoContent) }

// Bare answers with a status alone.
func (c *Call) Bare(status int) error {
	c.gin.Status(status)
	c.gin.Writer.WriteHeaderNow()
	return nil
}

// Stamp returns a time in the format of all answers; nil for the zero time.
func Stamp(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	return &text
}

// Optional returns a pointer to the text, or nil for empty text, which is then written as null.
func Optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// Value returns the value that optional points to; if optional is nil, zero. Value is the reverse of Optional.
func Value[V any](optional *V) (v V) {
	if optional != nil {
		v = *optional
	}
	return v
}

// Time returns the time of a stamp; if the stamp is nil or no time, zero. Time is the reverse of Stamp.
func Time(stamp *string) time.Time {
	t, _ := time.Parse(time.RFC3339, Value(stamp))
	return t
}
