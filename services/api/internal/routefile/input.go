package routefile

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/jsonschema"
)

// input is what an operation takes, as arguments of a tool.
type input struct{}

// Call is what arguments make of an operation's request.
type Call struct {
	Path   string // escaped
	Params map[string]string
	Query  url.Values
	Header http.Header
	Body   []byte // nil: none
}

// Input returns the JSON Schema of the arguments, an object that stands for itself. It
// fails when the operation's request can't be told in arguments.
func (o *Operation) Input() (jsontext.Value, error) { return nil, errors.ErrUnsupported }

// Arguments checks arguments against Input's schema and makes a call of them. Empty
// arguments are an empty object. Input's failure is a violation of the whole.
func (o *Operation) Arguments(args jsontext.Value) (*Call, []jsonschema.Violation) {
	_ = args
	return nil, nil
}

// Expand makes a call of the path's parameters, as a resource's uri has them: each is read
// as its schema asks. Other parameters have their defaults.
func (o *Operation) Expand(params map[string]string) (*Call, []jsonschema.Violation) {
	_ = params
	return nil, nil
}

// Exposed returns what the operation is to AI clients, with every fallback in its place; a
// tool when the document says nothing. MimeType stays empty: the answer tells it.
func (o *Operation) Exposed() MCPDef { return MCPDef{} }
