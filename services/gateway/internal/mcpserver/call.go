package mcpserver

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"fmt"
	"runtime/debug"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
)

// exchange is one call of a tool or a prompt.
type exchange struct {
	entry     *entry
	arguments jsontext.Value
	era       era
	// structured: JSON answers of a tool are given as structuredContent, too. schemas: output
	// schemas are shown to the client.
	structured, schemas bool
	// invoke calls the entry's route for the caller.
	invoke  func(*routefile.Call) *route.Response
	server  *server
	request *route.Request
}

const missingTool = "There is no such tool."

// call is a client's call of a tool or a prompt.
type call struct {
	from      *shelf
	name      string
	arguments jsontext.Value
	missing   string // message when there is no such tool or prompt
	// indirect: called by a tool that calls others. The headers of the message then don't describe
	// the called tool.
	indirect bool
}

// call finds the tool or prompt that a request names and calls it.
func (s *server) call(ctx context.Context, r *route.Request, q *request, from *shelf, missing string) *messageAnswer {
	name, ok := text(q.params.Name)
	if !ok {
		return invalidParams("The member name is missing or is not a text.").answer(q)
	}
	c := call{from: from, name: name, arguments: q.params.Arguments, missing: missing}
	if own := s.ownTool(name, r); own != nil && from == &s.catalog.tools {
		if failed := c.settle(); failed != nil {
			return failed.answer(q)
		}
		return own.answer(ctx, s, r, q, c.arguments)
	}
	return s.invoke(ctx, r, q, c)
}

// settle sets missing arguments to an empty object.
func (c *call) settle() *failure {
	switch c.arguments.Kind() {
	case kindObject:
	case kindNull, 0:
		c.arguments = jsontext.Value("{}")
	default:
		return invalidParams("The arguments must be an object.")
	}
	return nil
}

// invoke calls a tool or a prompt. A panic ends only this call. Its value may be secret and is not
// logged.
func (s *server) invoke(ctx context.Context, r *route.Request, q *request, c call) (a *messageAnswer) {
	e := c.from.find(c.name, r)
	if e == nil {
		return invalidParams(c.missing).answer(q)
	}
	if failed := c.settle(); failed != nil {
		return failed.answer(q)
	}
	defer func() {
		if value := recover(); value != nil {
			s.log(r).ErrorContext(ctx, "mcp handler has panicked", "kind", fmt.Sprintf("%T", value), "stack", string(debug.Stack()))
			a = internal().answer(q)
		}
	}()
	x := &exchange{
		entry: e, arguments: c.arguments, era: q.era,
		structured: s.structured, schemas: s.shows(r) && !c.indirect,
		server: s, request: r,
	}
	x.invoke = func(call *routefile.Call) *route.Response {
		request := innerRequest(r, q, e.target.Definition, call)
		request.Progress = q.progress
		return e.target.Route.Call(ctx, request)
	}
	if e.tool == nil {
		result, failed := getPrompt(ctx, x)
		if failed != nil {
			return failed.answer(q)
		}
		return s.encode(q, &result.Meta, result)
	}
	q.tool = e.key
	if q.era == modern && !c.indirect && !agree(e.tool.headers, c.arguments, q.header) {
		return mismatch("A header Mcp-Param is missing, or differs from the arguments.").answer(q)
	}
	result := callTool(ctx, x)
	return s.encode(q, &result.Meta, result)
}

// encode makes an answer of a result of the protocol's, with its _meta.
func (s *server) encode(q *request, meta *mcp.Meta, of any) *messageAnswer {
	if q.era == modern {
		if *meta == nil {
			*meta = make(mcp.Meta, 1)
		}
		(*meta)[mcp.MetaKeyServerInfo] = stdjson.RawMessage(s.identity)
	}
	b, err := stdjson.Marshal(of)
	if err != nil {
		return internal().answer(q)
	}
	a := beginResult(q, len(b))
	a.body = appendReadable(a.body, b)
	if q.era == modern {
		a.body = append(a.body[:len(a.body)-1], `,"resultType":"complete"}`...)
	}
	return a.finish()
}

// appendReadable appends JSON without the escapes that encoding/json adds for JSON inside HTML.
func appendReadable(b []byte, value jsontext.Value) []byte {
	if !bytes.Contains(value, []byte(`\u`)) {
		return append(b, value...)
	}
	readable, err := jsontext.AppendFormat(nil, value, jsontext.PreserveRawStrings(false),
		jsontext.EscapeForHTML(false), jsontext.EscapeForJS(false), jsontext.AllowDuplicateNames(true))
	if err != nil {
		return append(b, value...)
	}
	return append(b, readable...)
}
