package site

import (
	"net/http"
	"time"

	"waybill.dev/services/gateway/internal/route"
)

// stalled is how long a client may leave a part of a stream unread.
const stalled = 30 * time.Second

// streamWriter writes an answer that may last as long as its client listens: the server's
// limits do not hold for the whole, but each part must be taken in time.
type streamWriter struct {
	http.ResponseWriter

	control *http.ResponseController
	record  *route.Record
}

func newStreamWriter(w http.ResponseWriter, record *route.Record) *streamWriter {
	return &streamWriter{w, http.NewResponseController(w), record}
}

// unread ends the server's time limit for reading, when nothing more of the request will arrive.
// The end of the connection is noticed without it. An error here comes back when the answer is
// written.
func (s *streamWriter) unread() { _ = s.control.SetReadDeadline(time.Time{}) }

// WriteHeader implements http.ResponseWriter.
func (s *streamWriter) WriteHeader(status int) {
	s.record.Answered(status, 0)
	s.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (s *streamWriter) Write(p []byte) (int, error) {
	_ = s.control.SetWriteDeadline(time.Now().Add(stalled))
	n, err := s.ResponseWriter.Write(p)
	s.record.Answered(http.StatusOK, n)
	return n, err
}

// Flush implements http.Flusher.
func (s *streamWriter) Flush() { _ = s.FlushError() }

// FlushError is what http.ResponseController calls.
func (s *streamWriter) FlushError() error {
	_ = s.control.SetWriteDeadline(time.Now().Add(stalled))
	return s.control.Flush()
}

// Unwrap is for http.ResponseController.
func (s *streamWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }
