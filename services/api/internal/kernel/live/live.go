// Package live streams the changes in an account as server-sent events: the kind and the id of each
// changed thing, never its data. News may be lost. It says when to read again, not what has
// changed.
package live

import (
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/news"
)

// Path is the path of the stream.
const Path = "/v1/live"

const (
	// heartbeat is the time between two comments on a stream: proxies close streams that are silent
	// for a minute.
	heartbeat = 15 * time.Second
	// recheck is how often the stream checks whether its key is still valid.
	recheck = time.Second
	// patience is how long a reader may leave bytes unread before it is dropped.
	patience = 10 * time.Second
)

// Routes returns the operations.
func Routes(streams *Streams) []web.Route {
	h := &handlers{streams}
	return []web.Route{{
		Method: http.MethodGet, Path: Path, Operation: "streamNews",
		Scope: domain.ScopeEventsRead, Stream: true, Handle: h.stream,
	}}
}

type handlers struct{ streams *Streams }

func (h *handlers) stream(c *web.Call) error {
	if err := c.Check(); err != nil {
		return err
	}
	if c.Request.Method == http.MethodHead {
		header(c.Writer.Header())
		return nil
	}
	account := c.Principal.Account
	in, err := h.streams.join(account)
	if err != nil {
		return err
	}
	defer h.streams.leave(account, in)
	header(c.Writer.Header())
	w := &writer{to: c.Writer, control: http.NewResponseController(c.Writer)}
	// The client comes again 2 s after the end.
	if w.write([]byte("retry: 2000\n\n")) != nil {
		return nil // the client is gone
	}
	beats, checks := time.NewTicker(heartbeat), time.NewTicker(recheck)
	defer beats.Stop()
	defer checks.Stop()
	for {
		var frames []byte
		select {
		case <-c.Context().Done():
			return nil
		case <-h.streams.ended:
			return nil
		case <-checks.C:
			if !c.Holds() {
				return nil
			}
			continue
		case <-beats.C:
			frames = []byte(": alive\n\n")
		case <-in.wake:
			frames = encode(in.take())
		}
		if w.write(frames) != nil {
			return nil
		}
	}
}

func header(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // otherwise nginx would buffer the news
}

// encode writes news as server-sent events.
func encode(changes news.Changes) []byte {
	var frames []byte
	for _, kind := range news.Kinds() {
		ids, ok := changes[kind]
		if ok && len(ids) == 0 {
			ids = []string{""} // an empty id means many
		}
		for _, id := range ids {
			frames = append(frames, `data: {"kind":"`+string(kind)+`","id":`...)
			frames, _ = jsontext.AppendQuote(frames, id) // on one line: quoting escapes all control characters
			frames = append(frames, "}\n\n"...)
		}
	}
	return frames
}

// writer writes to a client that has to keep up.
type writer struct {
	to      http.ResponseWriter
	control *http.ResponseController
}

func (w *writer) write(frames []byte) error {
	// The server's own deadline is meant for a finite answer, and would end the stream. In tests
	// and calls within the process there is no connection and no deadline.
	_ = w.control.SetWriteDeadline(time.Now().Add(patience))
	if _, err := w.to.Write(frames); err != nil {
		return err
	}
	return w.control.Flush()
}
