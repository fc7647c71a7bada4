package mcpserver

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/jsonscan"
)

const (
	methodListTools     = "tools/list"
	methodListPrompts   = "prompts/list"
	methodListResources = "resources/list"
	methodListTemplates = "resources/templates/list"
	methodRead          = "resources/read"
	methodCallTool      = "tools/call"
	methodGetPrompt     = "prompts/get"
	methodListen        = "subscriptions/listen"
)

// Limits of one request: number of messages, and bytes of their answers. Messages beyond the bytes
// get an error.
const (
	maxBatch       = 100
	maxBatchAnswer = 8 << 20
)

// answer answers a message. It returns nil when q is nil, which is a message that needs no answer.
func (s *server) answer(ctx context.Context, r *route.Request, q *request) *messageAnswer {
	if q == nil || len(q.id) == 0 {
		return acceptedAnswer()
	}
	a := s.dispatch(ctx, r, q)
	method := q.method
	if a.code == codeNoMethod {
		method = "unknown" // method may be any text of the client
	}
	r.Record.MCP(method, q.tool)
	if s.debug {
		r.Record.Note(domain.SeverityDebug, "mcp", "An MCP request was answered.", "method", method, "version", q.version, "code", a.code, "bytes", len(a.body))
		s.log(r).InfoContext(ctx, "mcp request answered",
			"method", method, "version", q.version, "code", a.code, "bytes", len(a.body), "requestId", r.ID)
	}
	return a
}

func (s *server) dispatch(ctx context.Context, r *route.Request, q *request) *messageAnswer {
	switch q.method {
	case methodListTools:
		return s.list(r, q, &s.catalog.tools)
	case methodListPrompts:
		return s.list(r, q, &s.catalog.prompts)
	case methodListResources:
		return s.list(r, q, &s.catalog.resources)
	case methodListTemplates:
		return s.list(r, q, &s.catalog.templates)
	case methodRead:
		return s.readResource(ctx, r, q)
	case methodCallTool:
		return s.call(ctx, r, q, &s.catalog.tools, missingTool)
	case methodGetPrompt:
		return s.call(ctx, r, q, &s.catalog.prompts, "There is no such prompt.")
	case methodListen:
		return s.listen(q)
	case "server/discover":
		if q.era == modern {
			return s.discover(q)
		}
	case "ping":
		if q.era != modern {
			return empty(q)
		}
	case "initialize", "completion/complete", "logging/setLevel":
		return s.withParams(q)
	}
	return noMethod().answer(q)
}

// withParams answers a method with params.
func (s *server) withParams(q *request) *messageAnswer {
	switch {
	case q.era == modern && q.method != "completion/complete":
		return noMethod().answer(q)
	case len(q.raw) == 0:
		return invalidParams("The params are missing.").answer(q)
	case q.method == "initialize":
		return s.initialize(q)
	case q.method == "logging/setLevel":
		return s.setLevel(q)
	}
	return s.complete(q)
}

// listen answers a subscription without any changes to report. Changes of lists are never announced
// (listChanged is false): each request for a list gets the current one. So the stream ends right
// after its beginning.
func (s *server) listen(q *request) *messageAnswer {
	if q.era != modern {
		return noMethod().answer(q)
	}
	if q.params.Notifications.Kind() != kindObject {
		return invalidParams("The member notifications is missing.").answer(q)
	}
	if _, failed := q.subscriptions(); failed != nil {
		return failed.answer(q)
	}
	return &messageAnswer{status: http.StatusOK, body: s.appendEnded(appendAcknowledged(nil, q.id, nil), q), stream: true}
}

// isBatch reports whether a body is an array.
func isBatch(body []byte) bool { return jsontext.Value(body).Kind() == '[' }

// batch answers several messages at once, one after the other.
func (s *server) batch(ctx context.Context, r *route.Request) *route.Response {
	switch version := r.Header.Get(headerVersion); version {
	case "", batchVersion:
	case "2024-11-05", "2025-06-18", "2025-11-25", firstModern:
		return invalidRequest("A batch is possible only in version 2025-03-26.").response(nil)
	default:
		return unsupported(version).response(nil)
	}
	if failed := checkJSON(ctx, r.Body, 1); failed != nil {
		return failed.response(nil)
	}
	count := 0
	for range jsonscan.Value(r.Body).Elements() {
		count++
	}
	if count == 0 || count > maxBatch {
		return invalidRequest("A batch has between 1 and 100 messages.").response(nil)
	}
	var body []byte
	for message := range jsonscan.Value(r.Body).Elements() {
		one := *r
		one.Body = message
		q, failed := read(&one)
		var a *messageAnswer
		switch {
		case failed != nil:
			a = failed.answer(q)
		case q != nil && q.method == "initialize":
			a = invalidRequest("The request initialize must not be in a batch with others.").answer(q)
		case len(body) > maxBatchAnswer && q != nil && len(q.id) > 0:
			a = (&failure{code: codeInternal, message: "The answers to the earlier messages are too long."}).answer(q)
		default:
			a = s.answer(ctx, &one, q)
		}
		if len(a.body) > 0 {
			body = append(append(body, ','), a.body...)
		}
	}
	if body == nil {
		return acceptedAnswer().response()
	}
	body[0] = '['
	return (&messageAnswer{status: 200, body: append(body, ']')}).response()
}
