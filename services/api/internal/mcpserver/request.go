package mcpserver

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/route"
)

// request is one message of a client that asks for something or tells something.
type request struct {
	// id is as the client wrote it: a number that is no float64 comes back unchanged.
	// Empty: the message is a notification.
	id     jsontext.Value
	method string
	raw    jsontext.Value // of params; empty: none
	params params
	meta   meta

	era     era
	version string // of the protocol; empty: the client didn't say
	header  http.Header

	progress func(done, total float64, message string) // nil: nobody wants to know
}

// envelope is JSON-RPC's part of a message.
type envelope struct {
	JSONRPC jsontext.Value `json:"jsonrpc"`
	ID      jsontext.Value `json:"id"`
	Method  jsontext.Value `json:"method"`
	Params  jsontext.Value `json:"params"`
	Result  jsontext.Value `json:"result"`
	Error   jsontext.Value `json:"error"`
}

// params are the parameters that are looked at here; the SDK looks at the others.
type params struct {
	Meta          jsontext.Value `json:"_meta"`
	URI           jsontext.Value `json:"uri"`
	Name          jsontext.Value `json:"name"`
	Cursor        jsontext.Value `json:"cursor"`
	Arguments     jsontext.Value `json:"arguments"`
	Notifications jsontext.Value `json:"notifications"`
}

// meta is what a client says of itself and of the request since 2026-07-28, and the token
// for progress, which is older.
type meta struct {
	Version       jsontext.Value `json:"io.modelcontextprotocol/protocolVersion"`
	Capabilities  jsontext.Value `json:"io.modelcontextprotocol/clientCapabilities"`
	ClientInfo    jsontext.Value `json:"io.modelcontextprotocol/clientInfo"`
	ProgressToken jsontext.Value `json:"progressToken"`
}

const (
	kindText   = '"'
	kindNumber = '0'
	kindObject = '{'
	kindNull   = 'n'
)

// read reads the message in the body. A request is returned with a failure, too, as far as
// it could be read: the answer needs its id. Neither: nothing is to be answered.
func read(r *route.Request) (*request, *failure) {
	var m envelope
	if err := json.Unmarshal(r.Body, &m); err != nil {
		if kind := jsontext.Value(r.Body).Kind(); kind != kindObject && jsontext.Value(r.Body).IsValid() {
			return nil, invalidRequest("A message is a JSON object.")
		}
		return nil, &failure{code: codeParse, message: "The body is not valid JSON."}
	}
	return readEnvelope(r, &m)
}

func readEnvelope(r *route.Request, m *envelope) (*request, *failure) {
	q := &request{version: r.Header.Get(headerVersion), header: r.Header}
	if q.version >= firstModern {
		q.era = modern
	}
	switch m.ID.Kind() {
	case kindText, kindNumber:
		q.id = m.ID
	default:
		if len(m.ID) > 0 {
			return q, invalidRequest("The id must be a text or a number.")
		}
	}
	if version, ok := text(m.JSONRPC); !ok || version != "2.0" {
		return q, invalidRequest("The member jsonrpc must be \"2.0\".")
	}
	if len(m.Method) == 0 && (len(m.Result) > 0 || len(m.Error) > 0) {
		// An answer: nothing was asked, but the clients of old may send one.
		if len(q.id) == 0 || q.version >= firstModern {
			return q, invalidRequest("A message must have a method.")
		}
		return nil, nil
	}
	var ok bool
	if q.method, ok = text(m.Method); !ok {
		return q, invalidRequest("A message must have a method, which is a text.")
	}
	if failed := q.readParams(m.Params); failed != nil {
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
	if err := json.Unmarshal(raw, &q.params); err != nil {
		return invalidParams("The params can't be read.")
	}
	switch q.params.Meta.Kind() {
	case kindNull, 0:
		return nil
	case kindObject:
		if err := json.Unmarshal(q.params.Meta, &q.meta); err == nil {
			return nil
		}
	}
	return invalidParams("The member _meta must be an object.")
}

// text returns the value of a JSON string.
func text(v jsontext.Value) (string, bool) {
	if v.Kind() != kindText {
		return "", false
	}
	b, err := jsontext.AppendUnquote(nil, v)
	return string(b), err == nil
}

// members returns the names of an object's members, in the order in which they stand there.
func members(object jsontext.Value) ([]string, error) {
	decoder := jsontext.NewDecoder(bytes.NewReader(object))
	if _, err := decoder.ReadToken(); err != nil {
		return nil, fmt.Errorf("read the object: %w", err)
	}
	var names []string
	for decoder.PeekKind() == kindText {
		name, err := decoder.ReadToken()
		if err != nil {
			return nil, fmt.Errorf("read a name: %w", err)
		}
		names = append(names, name.String())
		if err := decoder.SkipValue(); err != nil {
			return nil, fmt.Errorf("read the value of %q: %w", name.String(), err)
		}
	}
	return names, nil
}
