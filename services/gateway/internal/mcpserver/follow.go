package mcpserver

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/jsonscan"
	"waybill.dev/shared/problem"
)

const (
	// lookInterval is how often a stream checks for changes, and checks whether its client may still get them. So no
	// resource is reported more often than that.
	lookInterval = time.Second
	// quiet is the number of checks without changes after which a client gets a comment: proxies close streams that
	// are silent for a minute.
	quiet = 15
	// maxListen bounds the message that opens a stream, in bytes: the server keeps the message as long as the
	// stream lasts.
	maxListen = 64 << 10
	// lookTime bounds the look for the caller.
	lookTime = 2 * time.Second
)

// followedResource is a resource that a client follows.
type followedResource struct {
	entry *entry
	uri   string // as the client has written it
}

// subscriptions returns the uris of the resources that a client wants to follow.
func (q *request) subscriptions() (uris []string, failed *failure) {
	var list jsontext.Value
	fields{"resourceSubscriptions": &list}.read(q.params.Notifications)
	if kind := list.Kind(); kind == 0 || kind == kindNull {
		return nil, nil
	}
	if list.Kind() != '[' {
		return nil, invalidParams("The member resourceSubscriptions must be a list of uris.")
	}
	for element := range jsonscan.Value(list).Elements() {
		uri, ok := element.Text()
		if !ok {
			return nil, invalidParams("The member resourceSubscriptions must be a list of uris.")
		}
		uris = append(uris, uri)
	}
	return uris, nil
}

// followed returns the resources that a message asks to follow, if the caller may read them and their changes are
// reported. The caller must be authenticated by something that can be checked again later.
func (s *server) followed(r *route.Request, q *request) []followedResource {
	if q == nil || q.method != methodListen || q.era != modern || len(q.id) == 0 ||
		r.Runtime.Changes == nil || r.Principal == nil || r.Admitter == nil {
		return nil
	}
	uris, failed := q.subscriptions()
	if failed != nil {
		return nil
	}
	var list []followedResource
	seen := make(map[string]bool)
	for _, uri := range uris {
		key := normalURI(uri)
		if seen[key] {
			continue
		}
		seen[key] = true
		e := s.catalog.resources.find(key, r)
		if e == nil || len(e.resource.changes) == 0 || slices.ContainsFunc(list, func(f followedResource) bool { return f.entry == e }) {
			continue
		}
		list = append(list, followedResource{e, uri})
	}
	return list
}

// follow answers with a stream that reports which of the resources have changed. The stream ends when the client
// leaves, may not read them any more, or the process stops.
func (s *server) follow(r *route.Request, q *request, list []followedResource) *route.Response {
	r.Record.MCP(q.method, "")
	return &route.Response{
		Status: http.StatusOK,
		Header: make(http.Header),
		Stream: func(ctx context.Context, w http.ResponseWriter) {
			follower, err := r.Runtime.Changes.Follow(r.Principal.Account)
			if err != nil {
				s.refuseFollower(ctx, r, w, err)
				return
			}
			defer follower.Stop()
			header := w.Header()
			header.Set("Content-Type", eventStream)
			header.Set("Cache-Control", "no-store")
			header.Set("X-Accel-Buffering", "no")
			if !send(w, appendAcknowledged(nil, q.id, list)) {
				return
			}
			f := &following{server: s, request: r, q: q, list: list}
			if f.sendChanges(ctx, w, follower) {
				send(w, s.appendEnded(nil, q))
			}
		},
	}
}

// refuseFollower answers where there is no room for one more stream.
func (s *server) refuseFollower(ctx context.Context, r *route.Request, w http.ResponseWriter, err error) {
	p, ok := errors.AsType[*problem.Problem](err)
	if !ok {
		s.log(r).ErrorContext(ctx, "mcp client can't follow", "error", err)
		p = problem.New(problem.Internal, "Something went wrong on our side.")
	}
	p.SetHeader(w.Header())
	w.WriteHeader(p.Status())
	_, _ = w.Write(p.JSON(r.Path, r.ID))
}

// following is a client that follows resources.
type following struct {
	server  *server
	request *route.Request
	q       *request
	list    []followedResource
}

// sendChanges sends changes until there are none left; false: the client is gone.
func (f *following) sendChanges(ctx context.Context, w http.ResponseWriter, follower route.Follower) bool {
	looks := time.NewTicker(lookInterval)
	defer looks.Stop()
	for silent := 0; ; {
		select {
		case <-ctx.Done():
			return false
		case <-follower.Ended():
			return true
		case <-looks.C:
		}
		if !f.stillPermitted(ctx) {
			return true
		}
		b := f.appendChanged(nil, follower.Kinds())
		silent++
		if len(b) == 0 && silent == quiet {
			b = []byte(": alive\n\n")
		}
		if len(b) == 0 {
			continue
		}
		if silent = 0; !send(w, b) {
			return false
		}
	}
}

// stillPermitted reports whether the caller would still be let in, and may still read all of the resources.
func (f *following) stillPermitted(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	now := f.request.Admitter.Again(ctx, f.request)
	return now != nil && now.Account == f.request.Principal.Account && f.server.route.Permits(now) &&
		!slices.ContainsFunc(f.list, func(one followedResource) bool { return !one.permits(now) })
}

func (f followedResource) permits(principal *apikey.Principal) bool {
	return f.entry.target.Route.Permits(principal)
}

// appendChanged appends a notification for each resource that changes with one of the kinds.
func (f *following) appendChanged(b []byte, kinds []string) []byte {
	for _, one := range f.list {
		if !slices.ContainsFunc(one.entry.resource.changes, func(kind string) bool { return slices.Contains(kinds, kind) }) {
			continue
		}
		m := appendText([]byte(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":`), one.uri)
		m = append(append(m, `,"_meta":{"io.modelcontextprotocol/subscriptionId":`...), f.q.id...)
		b = appendEvent(b, append(m, "}}}"...))
	}
	return b
}

// appendAcknowledged appends the first event of a stream: the list of the resources that it reports.
func appendAcknowledged(b []byte, id jsontext.Value, list []followedResource) []byte {
	m := []byte(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{`)
	if len(list) > 0 {
		uris := make([]string, len(list))
		for i, one := range list {
			uris[i] = one.uri
		}
		m = appendTexts(append(m, `"resourceSubscriptions":`...), uris)
	}
	m = append(append(m, `},"_meta":{"io.modelcontextprotocol/subscriptionId":`...), id...)
	return appendEvent(b, append(m, "}}}"...))
}

// appendEnded appends the last event of a stream: the answer to the request that opened it.
func (s *server) appendEnded(b []byte, q *request) []byte {
	end := beginResult(q, 128)
	end.body = append(append(end.body, `{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":`...), q.id...)
	end.body = append(append(end.body, `,"io.modelcontextprotocol/serverInfo":`...), s.identity...)
	end.body = append(end.body, "}}"...)
	return appendEvent(b, end.finish().body)
}

// changes reports whether the changes of at least one resource are reported.
func (c *catalog) changes() bool {
	return slices.ContainsFunc(c.resources.entries, func(e *entry) bool { return len(e.resource.changes) > 0 })
}

// send sends events at once; false: the client is gone.
func send(w http.ResponseWriter, events []byte) bool {
	_, err := w.Write(events)
	return err == nil && http.NewResponseController(w).Flush() == nil
}
