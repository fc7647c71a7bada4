package mcpserver

import (
	"context"
	"maps"
	"math"
	"net/http"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/route"
)

// streams reports whether the client asks for the progress of a tool.
func (s *server) streams(r *route.Request, q *request) bool {
	if q == nil || q.method != methodCallTool || len(q.id) == 0 {
		return false
	}
	kind := q.meta.ProgressToken.Kind()
	return len(q.meta.ProgressToken) <= maxID && (kind == kindText || kind == kindNumber) && acceptsStream(r.Header["Accept"])
}

// stream answers a tool's call with a stream of events, which begins with the first progress
// report. A call without progress is answered like others, so that errors have their status.
func (s *server) stream(r *route.Request, q *request) *route.Response {
	return &route.Response{
		Status: http.StatusOK,
		Header: make(http.Header),
		Stream: func(ctx context.Context, w http.ResponseWriter) {
			p := &progress{w: w, token: q.meta.ProgressToken, last: math.Inf(-1)}
			q.progress = p.report
			p.end(s.answer(ctx, r, q))
		},
	}
}

// progress writes the progress reports of a route.
type progress struct {
	mu    sync.Mutex
	w     http.ResponseWriter
	token jsontext.Value // as the client wrote it
	last  float64
	began bool
	ended bool
}

// report sends a notification. Progress must grow; a report with a smaller value is left out.
func (p *progress) report(done, total float64, message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || math.IsNaN(done) || math.IsInf(done, 0) || done <= p.last {
		return
	}
	p.last = done
	if !p.began {
		p.began = true
		header := p.w.Header()
		header.Set("Content-Type", eventStream)
		header.Set("Cache-Control", "no-store")
		header.Set("X-Accel-Buffering", "no")
		p.w.WriteHeader(http.StatusOK)
	}
	b := append([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`), p.token...)
	b = strconv.AppendFloat(append(b, `,"progress":`...), done, 'f', -1, 64)
	if total > 0 && !math.IsInf(total, 0) {
		b = strconv.AppendFloat(append(b, `,"total":`...), total, 'f', -1, 64)
	}
	if message != "" {
		b = appendText(append(b, `,"message":`...), message)
	}
	p.send(append(b, "}}"...))
}

// end sends the answer.
func (p *progress) end(a *messageAnswer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.began {
		p.send(a.body)
		return
	}
	response := a.response()
	maps.Copy(p.w.Header(), response.Header)
	p.w.WriteHeader(response.Status)
	_, _ = p.w.Write(response.Body)
}

// send writes an event immediately. If the client is gone, the event is lost.
func (p *progress) send(data []byte) {
	_ = send(p.w, appendEvent(nil, data))
}

// appendEvent appends a message as a server-sent event.
func appendEvent(b, data []byte) []byte {
	b = append(b, "event: message\ndata: "...)
	b = append(b, data...)
	return append(b, "\n\n"...)
}
