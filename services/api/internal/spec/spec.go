// Package spec has the documents of the API, OpenAPI and AsyncAPI. They are written by hand, in
// YAML, before the code: tests check every route and every answer against them.
package spec

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

//go:generate go run ./build

//go:embed openapi.json
var openapi []byte

//go:embed asyncapi.json
var asyncapi []byte

// Document is a document with the data for its HTTP headers.
type Document struct {
	Body        []byte
	ContentType string
	ETag        string
}

// Documents are all documents.
type Documents struct {
	OpenAPI  Document // of all operations
	AsyncAPI Document // of the bus

	// before and after are the OpenAPI document around the URL of its server.
	before, after []byte
}

const contentJSON = "application/json; charset=utf-8"

// New returns the documents.
func New() (*Documents, error) {
	d := &Documents{}
	var err error
	if d.OpenAPI, err = compact(openapi); err != nil {
		return nil, err
	}
	var found bool
	if d.before, d.after, found = bytes.Cut(d.OpenAPI.Body, []byte(serverURL)); !found {
		return nil, errors.New("read API document: it names no server")
	}
	if d.AsyncAPI, err = compact(asyncapi); err != nil {
		return nil, err
	}
	return d, nil
}

// serverURL is the place in the OpenAPI document that says that its server is the one that serves
// the document.
const serverURL = `"servers":[{"url":"/"`

// OpenAPIAt returns the OpenAPI document of a server with the URL base; empty: the document says
// that its server is the one that serves it.
func (d *Documents) OpenAPIAt(base string) Document {
	if base == "" {
		return d.OpenAPI
	}
	body := slices.Concat(d.before, []byte(`"servers":[{"url":`))
	body, _ = jsontext.AppendQuote(body, base)
	return NewDocument(append(body, d.after...), d.OpenAPI.ContentType)
}

// compact returns a document without the white space that is only for comparing versions.
func compact(text []byte) (Document, error) {
	var body bytes.Buffer
	if err := json.Compact(&body, text); err != nil {
		return Document{}, fmt.Errorf("read API document: %w", err)
	}
	return NewDocument(body.Bytes(), contentJSON), nil
}

// NewDocument returns a body with its tag.
func NewDocument(body []byte, contentType string) Document {
	sum := sha256.Sum256(body)
	return Document{
		Body: body, ContentType: contentType,
		ETag: `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`,
	}
}
