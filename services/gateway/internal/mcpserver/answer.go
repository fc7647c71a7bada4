package mcpserver

import (
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/route"
)

// messageAnswer is the answer to one message.
type messageAnswer struct {
	status int
	body   []byte // nil: none, as for a notification
	code   int    // code of the error; 0: none
	stream bool   // body is a stream of events, which is whole
}

// acceptedAnswer returns the answer to a message that needs no answer.
func acceptedAnswer() *messageAnswer { return &messageAnswer{status: http.StatusAccepted} }

// beginResult begins an answer to q. The caller appends the result to its body and ends it with finish.
func beginResult(q *request, size int) *messageAnswer {
	b := make([]byte, 0, 256+size)
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = append(b, q.id...)
	b = append(b, `,"result":`...)
	return &messageAnswer{status: http.StatusOK, body: b}
}

func (a *messageAnswer) finish() *messageAnswer {
	a.body = append(a.body, '}')
	return a
}

// response turns an answer into the response of a route.
func (a *messageAnswer) response() *route.Response {
	header := make(http.Header, 3)
	response := &route.Response{Status: a.status, Header: header, Body: a.body}
	if a.body == nil {
		return response
	}
	contentType := "application/json"
	if a.stream {
		contentType = eventStream
		header["X-Accel-Buffering"] = []string{"no"}
	}
	header["Content-Type"] = []string{contentType}
	// The content depends on the caller.
	header["Cache-Control"] = []string{"no-store"}
	return response
}

// appendText appends a JSON string; bytes that are no UTF-8 become U+FFFD.
func appendText[T ~string | ~[]byte](b []byte, text T) []byte {
	b, _ = jsontext.AppendQuote(b, text)
	return b
}
