package body

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"waybill.dev/shared/problem"
)

// The pace of a sender: each windowBytes within windowTime, which is 3.2 KB/s and lets one
// of 4 KB/s stand still for two seconds; the whole within wholeTime.
const (
	windowBytes = 32 << 10
	windowTime  = 10 * time.Second
	wholeTime   = 60 * time.Second
)

// answerTime is what is left for the answer after a body that took long. The server's own
// time for writing runs from the request's header on.
const answerTime = 40 * time.Second

// A buffer begins with firstBytes, or with the size of the body as far as that is known
// and at most sizedBytes, and is doubled as it fills: memory is taken for what has come,
// not for what is promised.
const (
	firstBytes = 4 << 10
	sizedBytes = 64 << 10
)

// ErrTooLarge is returned for what is longer than its limit.
var ErrTooLarge = errors.New("too many bytes")

// Read reads the body of r, of at most limit bytes; nil when there is none. Every error is
// a problem. w is the writer of the answer to r: the connection is closed after a body that
// is not read to its end.
func (l *Lease) Read(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength == 0 {
		return nil, nil
	}
	if r.ContentLength > limit {
		return nil, refuse(w, ErrTooLarge)
	}
	sender := sender{body: r.Body, control: http.NewResponseController(w), begun: time.Now()}
	read, err := l.ReadAll(&sender, r.ContentLength, limit)
	sender.done(err)
	if err != nil {
		return nil, refuse(w, err)
	}
	return read, nil
}

// refuse returns the problem that err stands for, and has the connection closed.
func refuse(w http.ResponseWriter, err error) error {
	w.Header().Set("Connection", "close")
	return problemOf(err)
}

// problemOf returns the problem that an error of reading a body stands for.
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

// ReadAll reads source to its end. size is how much will come; below zero: unknown. What
// has more than limit bytes is ErrTooLarge.
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
			if err := l.take(grown - int64(cap(buffer))); err != nil {
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

// sender reads a request's body and holds who sends it to the pace.
type sender struct {
	body    io.Reader
	control deadlines
	answer  time.Duration // that is left for the answer after a body; 0: answerTime after one that took long
	begun   time.Time
	now     time.Time // when the window began; zero: none has
	got     int       // in the window
}

// deadlines are those of a connection.
type deadlines interface {
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// Read implements io.Reader.
func (s *sender) Read(p []byte) (int, error) {
	if s.now.IsZero() || s.got >= windowBytes {
		s.now, s.got = time.Now(), 0
		s.limit()
	}
	// One chunk is read whole, as far as p has room for it.
	n, err := s.body.Read(p[:min(len(p), windowBytes-s.got)])
	s.got += n
	return n, err
}

// limit sets until when something must come.
func (s *sender) limit() {
	deadline := s.now.Add(windowTime)
	if end := s.begun.Add(wholeTime); end.Before(deadline) {
		deadline = end
	}
	_ = s.control.SetReadDeadline(deadline) // what is no connection can't be slow
}

// postpone grants the sender a time in which nobody has listened to it.
func (s *sender) postpone(d time.Duration) {
	s.begun = s.begun.Add(d)
	if !s.now.IsZero() {
		s.now = s.now.Add(d)
		s.limit()
	}
}

// done ends the deadlines of a body that has come whole: while the request is worked on, a
// deadline that passes would look as if the caller had hung up. The server sets its own for
// the next one. After one that was refused, the server goes on to read for a moment.
func (s *sender) done(err error) {
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
