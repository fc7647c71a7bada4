package tunnel

import (
	"encoding/binary"
	"errors"
	"net"
	"time"
)

// HTTP/2 frames begin with 9 bytes: the length in 3, the type, flags, and the stream in 4.
const (
	frameHeader   = 9
	frameData     = 0
	frameSettings = 4
	framePing     = 6
	frameWindow   = 8
	flagAck       = 1
)

// In a second, an agent may send maxControl frames without content. At most maxAnswered of them may be frames that
// this gateway has to answer. A normal agent sends about two frames without content for a request. It sends some
// that need an answer at the beginning, and then one in 15 seconds. A busy gateway may not be able to answer 20,000
// in a second, so frames with an answer have a bound of their own.
const (
	maxControl  = 20_000
	maxAnswered = 1_000
)

var errFlood = errors.New("the agent sends too many frames that carry nothing")

// watchedConn counts the frames that an agent sends. Only one goroutine may read from it.
type watchedConn struct {
	net.Conn

	head       [frameHeader]byte
	have       int   // bytes of head that have arrived
	skip       int64 // remaining bytes of the frame's content
	count      int
	needAnswer int       // those that need an answer
	countBegan time.Time // when the count began
}

// Read implements io.Reader.
func (w *watchedConn) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if !w.countFrames(p[:n]) {
		return n, errFlood
	}
	return n, err //nolint:wrapcheck // a reader's errors pass as they are
}

// countFrames counts the frames in p. It returns false if there are too many.
func (w *watchedConn) countFrames(p []byte) bool {
	for len(p) > 0 {
		if w.skip > 0 {
			n := min(w.skip, int64(len(p)))
			w.skip -= n
			p = p[n:]
			continue
		}
		n := copy(w.head[w.have:], p)
		w.have += n
		p = p[n:]
		if w.have < frameHeader {
			return true
		}
		w.have = 0
		length := binary.BigEndian.Uint32([]byte{0, w.head[0], w.head[1], w.head[2]})
		w.skip = int64(length)
		if kind := w.head[3]; (kind != frameData || length == 0) && kind != frameWindow && !w.allow(kind, w.head[4]) {
			return false
		}
	}
	return true
}

// allow counts a frame.
func (w *watchedConn) allow(kind, flags byte) bool {
	now := time.Now()
	if now.Sub(w.countBegan) >= time.Second {
		w.count, w.needAnswer, w.countBegan = 0, 0, now
	}
	w.count++
	if (kind == framePing || kind == frameSettings) && flags&flagAck == 0 {
		w.needAnswer++
	}
	return w.count <= maxControl && w.needAnswer <= maxAnswered
}
