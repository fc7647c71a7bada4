package mcpserver

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/route"
)

// Codes of errors, of JSON-RPC and of MCP.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeNoMethod       = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
	// codeNotFound was the code for unknown resources until 2026-07-28, which forbids it.
	codeNotFound           = -32002
	codeHeaderMismatch     = -32020
	codeCapability         = -32021
	codeUnsupportedVersion = -32022
)

// failure is an error that is sent to the client. The text never repeats what the client sent; data
// does where the protocol asks for it.
type failure struct {
	code    int
	message string
	data    jsontext.Value
	status  int // HTTP status; 0: it follows from the code and the era of the request
}

func noMethod() *failure {
	return &failure{code: codeNoMethod, message: "There is no such method."}
}

func invalidParams(text string) *failure { return &failure{code: codeInvalidParams, message: text} }

func invalidRequest(text string) *failure { return &failure{code: codeInvalidRequest, message: text} }

func mismatch(text string) *failure { return &failure{code: codeHeaderMismatch, message: text} }

func internal() *failure {
	return &failure{code: codeInternal, message: "An internal error has occurred."}
}

// httpStatus returns the status of the answer. Until 2026-07-28, a message that could be read is
// answered with 200, whatever its result: clients of that time take other statuses for failures of
// the connection.
func (f *failure) httpStatus(q *request) int {
	if f.status != 0 {
		return f.status
	}
	switch f.code {
	case codeParse, codeInvalidRequest, codeHeaderMismatch, codeUnsupportedVersion, codeCapability:
		return http.StatusBadRequest
	}
	if q == nil || q.era != modern {
		return http.StatusOK
	}
	switch f.code {
	case codeNoMethod:
		return http.StatusNotFound
	case codeInvalidParams:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// answer makes an answer to q from the failure. q is nil when there is no message.
func (f *failure) answer(q *request) *messageAnswer {
	id := jsontext.Value("null")
	if q != nil && len(q.id) > 0 {
		id = q.id
	}
	b := make([]byte, 0, 128+len(f.message)+len(f.data))
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = append(b, id...)
	b = append(b, `,"error":{"code":`...)
	b = strconv.AppendInt(b, int64(f.code), 10)
	b = append(b, `,"message":`...)
	b = appendText(b, f.message)
	if len(f.data) > 0 {
		b = append(b, `,"data":`...)
		b = append(b, f.data...)
	}
	return &messageAnswer{status: f.httpStatus(q), body: append(b, "}}"...), code: f.code}
}

func (f *failure) response(q *request) *route.Response { return f.answer(q).response() }
