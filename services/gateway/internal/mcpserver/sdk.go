package mcpserver

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/jsonscan"
)

// exchange holds what a call of a tool or a prompt needs and the SDK does not know. An exchange
// travels in the context of the request that the SDK is given.
type exchange struct {
	entry     *entry
	arguments jsontext.Value
	era       era
	// structured: JSON answers of a tool are given as structuredContent, too. schemas: the client
	// is shown the schemas of outputs.
	structured, schemas bool
	indirect            bool // see call
	// invoke calls the entry's route for the caller.
	invoke func(*routefile.Call) *route.Response
	// failed is the answer instead of what the SDK says.
	failed *failure
	// server and request say where a failure is logged.
	server  *server
	request *route.Request
}

type exchangeKey struct{}

// errFailed is told to the SDK when the exchange has the answer.
var errFailed = errors.New("see the exchange")

// newSDK makes the SDK's part of a server. It is stateless, and knows tools and prompts by
// their names: what lists show, and who may use what, is decided before it is asked.
func newSDK(identity *mcp.Implementation, c *catalog, keep mcp.Cacheable) (*mcp.StreamableHTTPHandler, []string) {
	logger := slog.New(slog.DiscardHandler) // what it tells is about clients' mistakes
	server := mcp.NewServer(identity, &mcp.ServerOptions{
		Logger: logger,
		Capabilities: &mcp.ServerCapabilities{
			Tools:     &mcp.ToolCapabilities{},
			Prompts:   &mcp.PromptCapabilities{},
			Resources: &mcp.ResourceCapabilities{Subscribe: c.changes()},
		},
		CompletionHandler: func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{}}}, nil
		},
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { *c = keep },
	})
	server.AddReceivingMiddleware(withoutSubscribe)
	var faults []string
	for _, e := range c.tools.entries {
		if err := addSDKTool(server, e); err != nil {
			faults = append(faults, fmt.Sprintf("operation %s of %s: %v", e.target.Definition.ID, e.target.Definition.File.Name, err))
		}
	}
	for _, e := range c.prompts.entries {
		server.AddPrompt(&mcp.Prompt{Name: e.key}, promptHandler)
	}
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		Stateless:                    true,
		JSONResponse:                 true,
		Logger:                       logger,
		PropagateRequestCancellation: true,
		DisableLocalhostProtection:   true, // admission knows more names
		MaxRequestBodyBytes:          2 * route.MaxMCPRequest,
	}), faults
}

// withoutSubscribe keeps clients that begin with initialize from asking for resources/subscribe:
// they would be told on a stream that a server without sessions does not have.
func withoutSubscribe(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, request)
		if begun, ok := result.(*mcp.InitializeResult); ok && err == nil {
			begun.Capabilities.Resources.Subscribe = false
		}
		return result, err
	}
}

// addSDKTool registers a tool; the SDK panics where a schema can't be one.
func addSDKTool(server *mcp.Server, e *entry) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("its input can't be a tool's: %v", reason)
		}
	}()
	server.AddTool(&mcp.Tool{Name: e.key, InputSchema: stdjson.RawMessage(e.tool.input)}, toolHandler)
	return nil
}

func toolHandler(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	x, ok := ctx.Value(exchangeKey{}).(*exchange)
	if !ok {
		return nil, errFailed
	}
	var result *mcp.CallToolResult
	x.safely(ctx, func() { result = callTool(ctx, x) })
	if x.failed != nil {
		return nil, errFailed
	}
	return result, nil
}

func promptHandler(ctx context.Context, _ *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	x, ok := ctx.Value(exchangeKey{}).(*exchange)
	if !ok {
		return nil, errFailed
	}
	var result *mcp.GetPromptResult
	x.safely(ctx, func() { result, x.failed = getPrompt(ctx, x) })
	if x.failed != nil {
		return nil, errFailed
	}
	return result, nil
}

// safely keeps a panic from ending the process: the SDK calls handlers in a goroutine of its
// own, where nobody else would catch it. What it was about may be secret and is not logged.
func (x *exchange) safely(ctx context.Context, do func()) {
	defer func() {
		if value := recover(); value != nil {
			x.server.log(x.request).ErrorContext(ctx, "mcp handler has panicked", "kind", fmt.Sprintf("%T", value), "stack", string(debug.Stack()))
			x.failed = internal()
		}
	}()
	do()
}

const missingTool = "There is no such tool."

// call is what a client calls: a tool or a prompt.
type call struct {
	from      *shelf
	name      string
	arguments jsontext.Value
	missing   string // what is said if there is none
	// indirect: by a tool that calls others. The message's headers don't speak of what is called.
	indirect bool
}

// call finds the tool or prompt that a request names and calls it.
func (s *server) call(ctx context.Context, r *route.Request, q *request, from *shelf, missing string) *answer {
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

// settle puts an empty object where there are no arguments.
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

// invoke asks the SDK for the result of a call.
func (s *server) invoke(ctx context.Context, r *route.Request, q *request, c call) *answer {
	e := c.from.find(c.name, r)
	if e == nil {
		return invalidParams(c.missing).answer(q)
	}
	if e.tool != nil {
		q.tool = e.key
	}
	if failed := c.settle(); failed != nil {
		return failed.answer(q)
	}
	x := &exchange{
		entry: e, arguments: c.arguments, era: q.era, indirect: c.indirect,
		structured: s.structured, schemas: s.shows(r) && !c.indirect,
	}
	x.invoke = func(call *routefile.Call) *route.Response {
		request := inner(r, q, e.target.Definition, call)
		request.Progress = q.progress
		return e.target.Route.Call(ctx, request)
	}
	return s.ask(ctx, r, q, x)
}

// ask gives a message to the SDK, as if it were the only one of its client, and returns
// what the SDK answers, under the client's own id.
func (s *server) ask(ctx context.Context, r *route.Request, q *request, x *exchange) *answer {
	x.server, x.request = s, r
	body := appendText([]byte(`{"jsonrpc":"2.0","id":1,"method":`), q.method)
	if len(q.raw) > 0 {
		params := s.paramsFor(q, x)
		if len(params) > maxForSDK {
			return invalidParams("The params are too long.").answer(q)
		}
		body = append(append(body, `,"params":`...), params...)
	}
	body = append(body, '}')
	ctx = context.WithValue(ctx, exchangeKey{}, x)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://mcp.invalid/", bytes.NewReader(body))
	if err != nil {
		return internal().answer(q)
	}
	request.Header = q.sdkHeader(x)
	w := &recorder{header: make(http.Header), status: http.StatusOK}
	s.sdk.ServeHTTP(w, request)
	if x.failed != nil {
		return x.failed.answer(q)
	}
	return s.relay(ctx, r, q, w)
}

// maxForSDK bounds what the SDK is given to read, in bytes: it makes trees of it, which take
// some fifty times as much. Arguments are not among it.
const maxForSDK = 64 << 10

// paramsFor returns the params that the SDK must see: no more than the name of what is called
// and, since 2026-07-28, the arguments that the tool wants in headers as well.
func (s *server) paramsFor(q *request, x *exchange) jsontext.Value {
	if x.entry == nil {
		return q.raw
	}
	b := appendText([]byte(`{"name":`), x.entry.key)
	if len(q.params.Meta) > 0 {
		b = append(append(b, `,"_meta":`...), q.params.Meta...)
	}
	if q.era == modern && x.entry.tool != nil && !x.indirect {
		b = append(b, `,"arguments":{`...)
		first := true
		for raw, value := range jsonscan.Value(x.arguments).Members() {
			name, _ := raw.Text()
			if !slices.Contains(x.entry.tool.headers, name) {
				continue
			}
			if !first {
				b = append(b, ',')
			}
			first = false
			b = append(append(append(b, raw...), ':'), value...)
		}
		b = append(b, '}')
	}
	return append(b, '}')
}

// sdkHeader returns the headers of the message for the SDK, which wants them complete and
// knows no encoded names.
func (q *request) sdkHeader(x *exchange) http.Header {
	header := http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"application/json, text/event-stream"},
	}
	if q.version != "" {
		header[headerVersion] = []string{q.version}
	}
	if q.era == modern {
		header[headerMethod] = []string{q.method}
		if x.indirect {
			header[headerName] = []string{x.entry.key}
			return header
		}
		if name, ok := text(q.params.Name); ok {
			header[headerName] = []string{name}
		}
		for name, values := range q.header {
			if strings.HasPrefix(name, headerParam) {
				header[name] = values
			}
		}
	}
	return header
}

// relay makes the client's answer of the SDK's.
func (s *server) relay(ctx context.Context, r *route.Request, q *request, w *recorder) *answer {
	var said struct {
		Result jsontext.Value `json:"result"`
		Error  *struct {
			Code    int            `json:"code"`
			Message string         `json:"message"`
			Data    jsontext.Value `json:"data"`
		} `json:"error"`
	}
	err := json.Unmarshal(w.body.Bytes(), &said, jsontext.AllowDuplicateNames(true))
	switch {
	case err != nil || (said.Error == nil && len(said.Result) == 0):
		if ctx.Err() == nil {
			s.log(r).ErrorContext(ctx, "mcp sdk has not answered", "method", q.method, "status", w.status)
		}
		return internal().answer(q)
	case said.Error != nil:
		return translate(said.Error.Code, said.Error.Data).answer(q)
	}
	a := result(q, len(said.Result))
	a.body = appendReadable(a.body, said.Result)
	return a.finish()
}

// translate makes a failure of the SDK's. Its texts repeat what the client has sent.
func translate(code int, data jsontext.Value) *failure {
	var f *failure
	switch code {
	case codeNoMethod:
		f = noMethod()
	case codeInvalidParams, 0: // 0 is what it says when it can't decode the params of initialize
		f = invalidParams("The params do not match the method.")
	case codeInvalidRequest:
		f = invalidRequest("The request does not match the protocol.")
	case codeHeaderMismatch:
		f = mismatch("A header Mcp-Param is missing, or differs from the arguments.")
	case codeUnsupportedVersion:
		f = &failure{code: code, message: "This version of the protocol is not supported."}
	case codeCapability:
		f = &failure{code: code, message: "The client lacks a capability that this needs."}
	default:
		return internal()
	}
	f.data = data
	return f
}

// appendReadable appends JSON without the escapes that the SDK writes for the sake of pages
// that paste JSON into HTML.
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

// recorder is where the SDK writes its answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) { w.status = status }

func (w *recorder) Write(b []byte) (int, error) { return w.body.Write(b) }
