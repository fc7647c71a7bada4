package body

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"waybill.dev/shared/problem"
)

// The pace that a sender must keep: each windowBytes within windowTime, which is 3.2 KB/s and lets
// a sender of 4 KB/s pause for two seconds; the whole body within wholeTime.
const (
	windowBytes = 32 << 10
	windowTime  = 10 * time.Second
	wholeTime   = 60 * time.Second
)

// answerTime is the time for the answer after a body that took long. The server's own time for
// writing runs from the request's header on.
const answerTime = 40 * time.Second

// A buffer begins with firstBytes, or with the size of the body if that is known, but at most
// sizedBytes. It is doubled when it is full: memory is taken for bytes that have come, not for
// bytes that are announced.
const (
	firstBytes = 4 << 10
	sizedBytes = 64 << 10
)

// ErrTooLarge is returned for a body that is longer than its limit.
var ErrTooLarge = errors.New("too many bytes")

// Read reads the body of r, of at most limit bytes; nil when there is none. Every error is a
// problem. w is the writer of the answer to r: the connection is closed after a body that was not
// read to its end.
func (l *Lease) Read(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength == 0 {
		return nil, nil
	}
	if r.ContentLength > limit {
		return nil, refuse(w, ErrTooLarge)
	}
	sender := sender{body: r.Body, control: http.NewResponseController(w), begun: time.Now()}
	read, err := l.ReadAll(&sender, r.ContentLength, limit)
	sender.endDeadlines(err)
	if err != nil {
		return nil, refuse(w, err)
	}
	return read, nil
}

// refuse returns the problem for err, and makes the server close the connection.
func refuse(w http.ResponseWriter, err error) error {
	w.Header().Set("Connection", "close")
	return problemOf(err)
}

// problemOf returns the problem for an error from reading a body.
func problemOf(err error) error {
	var p *problem.Problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, ErrTooLarge):
		return problem.New(problem.TooLarge, "The body is too large.")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problem.New(problem.RequestTimeout, "The body came too slowly: 4 KB a second are waited for, 60 seconds at most.")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return problem.Invalid(problem.Fault{Detail: "The body ended too early."})
	}
	return problem.Invalid(problem.Fault{Detail: "The body could not be read."})
}

// ReadAll reads source to its end. size is the number of bytes that will come; below zero: unknown.
// For more than limit bytes the error is ErrTooLarge.
func (l *Lease) ReadAll(source io.Reader, size, limit int64) ([]byte, error) {
	// One byte more than allowed is read, to distinguish the end from a body that is too long.
	first, most := int64(firstBytes), limit+1
	if size >= 0 {
		first, most = min(size, sizedBytes)+1, min(size, limit)+1
	}
	var buffer []byte
	for {
		if len(buffer) == cap(buffer) {
			if int64(cap(buffer)) >= most {
				return nil, ErrTooLarge
			}
			grown := min(max(first, 2*int64(cap(buffer))), most)
			if err := l.addBytes(grown - int64(cap(buffer))); err != nil {
				return nil, err
			}
			larger := make([]byte, len(buffer), grown)
			copy(larger, buffer)
			buffer = larger
		}
		n, err := source.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		switch {
		case int64(len(buffer)) > limit:
			return nil, ErrTooLarge
		case err == io.EOF:
			return buffer, nil
		case err != nil:
			return nil, err
		}
	}
}

// sender reads a request's body and makes its sender keep the pace.
type sender struct {
	body    io.Reader
	control deadlines
	answer  time.Duration // the time left for the answer after a body; 0: answerTime after a body that took long
	begun   time.Time
	now     time.Time // when the window began; zero: none has begun
	got     int       // bytes in the window
}

// deadlines sets the deadlines of a connection.
type deadlines interface {
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// Read implements io.Reader.
func (s *sender) Read(p []byte) (int, error) {
	if s.now.IsZero() || s.got >= windowBytes {
		s.now, s.got = time.Now(), 0
		s.setDeadline()
	}
	// At most the rest of the window is read, as far as p has room for it.
	n, err := s.body.Read(p[:min(len(p), windowBytes-s.got)])
	s.got += n
	return n, err
}

// setDeadline sets the deadline for the next bytes.
func (s *sender) setDeadline() {
	deadline := s.now.Add(windowTime)
	if end := s.begun.Add(wholeTime); end.Before(deadline) {
		deadline = end
	}
	_ = s.control.SetReadDeadline(deadline) // an error means that there is no connection, which can't be slow
}

// postpone gives the sender the time in which the server did not read.
func (s *sender) postpone(d time.Duration) {
	s.begun = s.begun.Add(d)
	if !s.now.IsZero() {
		s.now = s.now.Add(d)
		s.setDeadline()
	}
}

// endDeadlines ends the deadlines of a body that has come completely: a deadline that passes while the
// request is worked on would look as if the caller had hung up. The server sets its own deadlines
// for the next request. After a refused body, the server reads on for a moment.
func (s *sender) endDeadlines(err error) {
	now := time.Now()
	listen := time.Time{}
	if err != nil {
		listen = now.Add(lingerTime)
	}
	_ = s.control.SetReadDeadline(listen)
	switch {
	case s.answer > 0:
		_ = s.control.SetWriteDeadline(now.Add(s.answer))
	case now.Sub(s.begun) > time.Second:
		_ = s.control.SetWriteDeadline(now.Add(answerTime))
	}
}
