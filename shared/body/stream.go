package body

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// streamBytes is the memory for a body while it is passed on.
const streamBytes = 32 << 10

// lingerTime is how long the server reads on after a sender was refused. If the connection was
// closed while the sender still sends, it would be reset, and the answer lost.
const lingerTime = time.Second

// errStopped is the error of reading a body that was stopped.
var errStopped = errors.New("the body is not wanted any more")

// Stream is the body of a request that is passed on as it comes. One goroutine may read it while
// another one stops it.
type Stream struct {
	size, left int64 // size of the body, below zero: unknown; bytes that may still come
	received   int64
	sender     sender
	rested     time.Time // when the last read ended

	reading sync.Mutex // held while the reader waits for the sender

	mu      sync.Mutex
	control *http.ResponseController
	stopped bool
	err     error // of the sender; io.EOF: the body has come completely
}

// Stream returns the body of r, of at most limit bytes, to be passed on as it comes. The error is a
// problem. w is the writer of the answer to r; after the body there are at least answer and
// answerTime left to write it. The body must be stopped before the handler of r returns, and the
// connection closed if the body has not come completely by then.
func (l *Lease) Stream(w http.ResponseWriter, r *http.Request, limit int64, answer time.Duration) (*Stream, error) {
	if r.ContentLength > limit {
		return nil, refuse(w, ErrTooLarge)
	}
	if err := l.addBytes(streamBytes); err != nil {
		return nil, refuse(w, err)
	}
	now := time.Now()
	s := &Stream{size: r.ContentLength, left: limit, rested: now, control: http.NewResponseController(w)}
	s.sender = sender{body: r.Body, control: bodyDeadlines{s}, begun: now, answer: max(answer, answerTime)}
	_ = s.control.SetWriteDeadline(now.Add(wholeTime + s.sender.answer))
	return s, nil
}

// Size returns how many bytes the body has; below zero: unknown.
func (s *Stream) Size() int64 { return s.size }

// Received returns how many bytes of the body have come.
func (s *Stream) Received() int64 {
	s.reading.Lock()
	defer s.reading.Unlock()
	return s.received
}

// Read implements io.Reader. After io.EOF the body has come completely; after any other error it
// has not. Only the time in which Read waits for the sender counts for the sender's pace.
func (s *Stream) Read(p []byte) (int, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	if err := s.endError(); err != nil {
		return 0, err
	}
	s.sender.postpone(time.Since(s.rested))
	n, err := s.sender.Read(p)
	s.received += int64(n)
	s.rested = time.Now()
	if s.left -= int64(n); s.left < 0 {
		n, err = 0, ErrTooLarge
	}
	if err == nil && s.received == s.size {
		err = io.EOF // a body with a known size is complete with its last byte
	}
	if err == nil {
		return n, nil
	}
	return n, s.keepEnd(err)
}

func (s *Stream) endError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && s.stopped {
		return errStopped
	}
	return s.err
}

// keepEnd keeps how the body ended, unless it ended because it was stopped.
func (s *Stream) keepEnd(err error) error {
	if err == io.EOF { //nolint:errorlint // readers return it bare
		s.sender.endDeadlines(nil)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == io.EOF: //nolint:errorlint // likewise
		s.err = err
	case s.stopped:
		return errStopped
	default:
		s.err = problemOf(err)
	}
	return s.err
}

// Complete reports whether the body has come completely.
func (s *Stream) Complete() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err == io.EOF //nolint:errorlint // kept as it was read
}

// Close ends the reading of a body that has not come completely. It does not wait for the reader.
func (s *Stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && !s.stopped {
		s.stopped = true
		_ = s.control.SetReadDeadline(time.Unix(1, 0))
	}
	return nil
}

// Stop closes the body and waits until the reader has stopped. It returns the sender's fault as a
// problem; nil: there is none.
func (s *Stream) Stop() error {
	_ = s.Close()
	s.reading.Lock()
	defer s.reading.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == io.EOF { //nolint:errorlint // kept as it was read
		return nil
	}
	_ = s.control.SetReadDeadline(time.Now().Add(lingerTime))
	return s.err
}

// bodyDeadlines sets the deadlines of a body until the body is stopped: after that they stay as they are.
type bodyDeadlines struct{ *Stream }

// SetReadDeadline makes the sender keep its pace.
func (s bodyDeadlines) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	return s.control.SetReadDeadline(t)
}

// SetWriteDeadline gives time for the answer.
func (s bodyDeadlines) SetWriteDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	return s.control.SetWriteDeadline(t)
}
