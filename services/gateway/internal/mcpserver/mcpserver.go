// Package mcpserver serves ordinary gateway routes to AI clients, as tools, prompts and resources of
// the Model Context Protocol.
//
// A client's message passes admission (method, media types, Host and Origin, size), is read once, and
// is held to the rules of its protocol's era. Lists and reads are answered from bytes that were
// encoded when the routes were loaded. Every call goes to a route, and the route's policies run as for
// any caller. Only the types of results come from the official SDK. The tests call the server with the
// SDK's client.
package mcpserver

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
)

// Options are what a server is made of.
type Options struct {
	// Definition is the operation of the MCP route itself.
	Definition *routefile.Operation
	// Route is the MCP route itself.
	Route route.Callable
	// Targets are the operations that the server exposes, in the order of its options.
	Targets []Target
	// Trusts reports whether the route's corsPolicy lets pages of an origin in; nil: none.
	Trusts func(origin string) bool
}

// Target is an exposed operation with the route that answers it.
type Target struct {
	Definition *routefile.Operation
	Route      route.Callable
	// MediaType is the Content-Type of the route's answers, where its handler knows it without a call.
	MediaType string
	// ChangesWith are the kinds of changes that change the route's answers; see route.Changing.
	ChangesWith []string
}

// server is the handler of one MCP route.
type server struct {
	admission admission
	route     route.Callable
	catalog   *catalog
	identity  string // the serverInfo of results, as JSON
	debug     bool
	name      string // name of the server, for logs

	structured, includes, offers bool // see settings

	own       []*ownTool
	defaults  []string // see settings.DefaultTools
	maxResult int      // maximum size of a tool's result, in bytes
	listTTL   int      // in milliseconds
	scope     string   // scope of lists: private, unless the settings say that all callers get the same
}

// New makes the handler of an MCP route, or returns the faults of its configuration.
func New(o Options) (route.Handler, []string) {
	settings, faults := readSettings(o.Definition.Handler.Options)
	if o.Definition.Method != http.MethodPost {
		faults = append(faults, "an MCP server must be a POST route")
	}
	catalog, wrong := newCatalog(o.Targets, settings)
	faults = append(faults, wrong...)
	if len(faults) > 0 {
		return nil, faults
	}
	s := &server{
		admission: newAdmission(settings, o.Trusts),
		route:     o.Route,
		catalog:   catalog,
		debug:     settings.DebugMode,
		name:      settings.Name,

		structured: settings.IncludeStructuredContent, includes: settings.IncludeOutputSchema, offers: settings.OfferOutputSchema,
		defaults: settings.DefaultTools, maxResult: bytesFor(settings.MaxResultTokens), listTTL: settings.ListSeconds * 1000, scope: private,
	}
	if settings.PublicLists {
		s.scope = "public"
	}
	if faults := s.ownFaults(settings); len(faults) > 0 {
		return nil, faults
	}
	s.identity = encodeIdentity(settings)
	return s, nil
}

// Handle answers one HTTP request of a client. It returns no error: failures are reported in messages
// of the protocol.
func (s *server) Handle(ctx context.Context, r *route.Request) (*route.Response, error) {
	if refused := s.admission.refuse(r); refused != nil {
		return refused, nil
	}
	if isBatch(r.Body) {
		if failed := s.unknownToolset(r); failed != nil {
			return failed.response(nil), nil
		}
		return s.batch(ctx, r), nil
	}
	if failed := checkJSON(ctx, r.Body, 0); failed != nil {
		return failed.response(nil), nil
	}
	q, failed := read(r)
	if failed == nil {
		failed = s.unknownToolset(r)
	}
	if failed == nil && q != nil && q.method == methodListen && len(r.Body) > maxListen {
		failed = invalidParams("A message that asks to be told of changes may have at most 64 KiB.")
		failed.status = http.StatusBadRequest
	}
	if failed != nil {
		return failed.response(q), nil
	}
	if s.streams(r, q) {
		return s.stream(r, q), nil
	}
	if list := s.followed(r, q); len(list) > 0 {
		return s.follow(r, q, list), nil
	}
	return s.answer(ctx, r, q).response(), nil
}

// ownFaults makes the tools of the server itself, or returns the reasons why it can't.
func (s *server) ownFaults(settings settings) (faults []string) {
	for _, name := range settings.DefaultTools {
		if _, ok := s.catalog.tools.byKey[name]; !ok {
			faults = append(faults, "handler options: /defaultTools names a tool that the server does not have")
		}
	}
	var err error
	if s.own, err = s.ownTools(settings); err != nil {
		return append(faults, "the server's own tools: "+err.Error())
	}
	for _, tool := range s.own {
		if i, taken := s.catalog.tools.byKey[tool.name]; taken {
			faults = append(faults, fmt.Sprintf("operation %s is a tool with the name %s, which the server itself has", s.catalog.tools.entries[i].target.Definition.ID, tool.name))
		}
	}
	return faults
}

// shows reports whether output schemas are shown to the client.
func (s *server) shows(r *route.Request) bool {
	return s.includes || s.offers && r.Query.Get("schemas") == "1"
}

// log returns the logger of a request.
func (s *server) log(r *route.Request) *slog.Logger { return r.Runtime.Logger.With("server", s.name) }

// encodeIdentity returns the serverInfo as JSON.
func encodeIdentity(i settings) string {
	b := appendText([]byte(`{"name":`), i.Name)
	b = appendText(append(b, `,"version":`...), i.Version)
	return string(append(b, '}'))
}
