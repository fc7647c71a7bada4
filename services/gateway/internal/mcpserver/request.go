package mcpserver

import (
	"context"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/jsonscan"
)

// request is one message of a client: a request or a notification.
type request struct {
	// id is kept as the client wrote it, so that a number that does not fit into a float64 comes
	// back unchanged. Empty: the message is a notification.
	id     jsontext.Value
	method string
	raw    jsontext.Value // params as JSON; empty: none
	params params
	meta   meta

	era     era
	version string // protocol version; empty: the client didn't say
	header  http.Header
	tool    string // name of the called tool, if there is such a tool

	progress func(done, total float64, message string) // nil: the client does not ask for progress
}

// envelope is JSON-RPC's part of a message.
type envelope struct{ jsonrpc, id, method, params, result, fault jsontext.Value }

// params are the parameters that several methods have.
type params struct{ Meta, URI, Name, Cursor, Arguments, Notifications jsontext.Value }

// meta is what a client says about itself and the request since 2026-07-28. The token for progress
// is older.
type meta struct {
	Version, Capabilities, ClientInfo, ProgressToken jsontext.Value
	TraceParent, TraceState, Baggage                 jsontext.Value // headers of W3C's Trace Context
}

// fields are the places for members of an object, by their names.
type fields map[string]*jsontext.Value

// read stores the members of an object in their variables. The values alias the object.
func (f fields) read(object jsontext.Value) {
	for raw, value := range jsonscan.Value(object).Members() {
		if name, _ := raw.Text(); f[name] != nil {
			*f[name] = jsontext.Value(value)
		}
	}
}

const (
	kindText   = '"'
	kindNumber = '0'
	kindObject = '{'
	kindNull   = 'n'
)

// Maximum lengths of texts that are sent back to the client, or looked up, in bytes.
const (
	maxID  = 4 << 10 // id of a message, or token of its progress
	maxURI = 8 << 10
)

// checkJSON makes sure that the body can be parsed. around is the number of arrays around a message
// in it.
func checkJSON(ctx context.Context, body []byte, around int) *failure {
	// An object in a message's params may be nested as deep as any other body.
	faults, err := jsonscan.Check(ctx, body, jsonscan.Options{Around: 2 + around, AnyText: true})
	switch {
	case ctx.Err() != nil:
		return internal()
	case err != nil:
		return &failure{code: codeParse, message: "The body is not valid JSON."}
	case len(faults) > 0:
		return &failure{code: codeParse, message: "The body is not valid JSON: a member is given twice, or something is nested too deep."}
	}
	return nil
}

// read reads the message in the body, which checkJSON has accepted. A failure may come with a
// request, as far as that could be read: the answer needs its id. If both are nil, the message gets
// no answer.
func read(r *route.Request) (*request, *failure) {
	if jsonscan.Value(r.Body).Kind() != kindObject {
		return nil, invalidRequest("A message is a JSON object.")
	}
	var m envelope
	fields{
		"jsonrpc": &m.jsonrpc, "id": &m.id, "method": &m.method, "params": &m.params, "result": &m.result, "error": &m.fault,
	}.read(r.Body)
	return readEnvelope(r, &m)
}

func readEnvelope(r *route.Request, m *envelope) (*request, *failure) {
	q := &request{version: r.Header.Get(headerVersion), header: r.Header}
	if q.version >= firstModern {
		q.era = modern
	}
	switch kind := m.id.Kind(); {
	case len(m.id) > maxID:
		return q, invalidRequest("The id is too long.")
	case kind == kindText, kind == kindNumber:
		q.id = m.id
	case len(m.id) > 0:
		return q, invalidRequest("The id must be a text or a number.")
	}
	if version, ok := text(m.jsonrpc); !ok || version != "2.0" {
		return q, invalidRequest("The member jsonrpc must be \"2.0\".")
	}
	if len(m.method) == 0 && (len(m.result) > 0 || len(m.fault) > 0) {
		// The message is an answer: the server asked nothing, but older clients may send one.
		if len(q.id) == 0 || q.version >= firstModern {
			return q, invalidRequest("A message must have a method.")
		}
		return nil, nil
	}
	var ok bool
	if q.method, ok = text(m.method); !ok {
		return q, invalidRequest("A message must have a method, which is a text.")
	}
	if failed := q.readParams(m.params); failed != nil {
		return q, failed
	}
	if failed := q.settle(r.Header); failed != nil {
		return q, failed
	}
	if len(q.id) == 0 && !strings.HasPrefix(q.method, "notifications/") {
		return q, invalidRequest("A request must have an id.")
	}
	return q, nil
}

func (q *request) readParams(raw jsontext.Value) *failure {
	switch raw.Kind() {
	case kindObject:
		q.raw = raw
	case kindNull, 0:
		return nil
	default:
		return invalidParams("The params must be an object.")
	}
	fields{
		"_meta": &q.params.Meta, "uri": &q.params.URI, "name": &q.params.Name, "cursor": &q.params.Cursor,
		"arguments": &q.params.Arguments, "notifications": &q.params.Notifications,
	}.read(raw)
	switch q.params.Meta.Kind() {
	case kindNull, 0:
	case kindObject:
		fields{
			"io.modelcontextprotocol/protocolVersion":    &q.meta.Version,
			"io.modelcontextprotocol/clientCapabilities": &q.meta.Capabilities,
			"io.modelcontextprotocol/clientInfo":         &q.meta.ClientInfo,
			"progressToken":                              &q.meta.ProgressToken,
			"traceparent":                                &q.meta.TraceParent,
			"tracestate":                                 &q.meta.TraceState,
			"baggage":                                    &q.meta.Baggage,
		}.read(q.params.Meta)
	default:
		return invalidParams("The member _meta must be an object.")
	}
	return nil
}

// text returns the value of a JSON string.
func text(v jsontext.Value) (string, bool) { return jsonscan.Value(v).Text() }
