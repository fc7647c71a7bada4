package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

const (
	// maxShortBody is the largest request that is written before its answer is read. The system accepts that
	// many bytes even if the receiver reads nothing. The rest of a larger request is written while the
	// client waits for the answer, because a receiver may answer before it has the whole request.
	maxShortBody = 8 << 10
	// readBuffer is the size of a connection's buffer: few answers to callbacks are longer.
	readBuffer = 2 << 10
	// afterHeader is how many bytes may be read after the header; the body has bounds of its own.
	afterHeader = math.MaxInt
)

var (
	errHeaderTooLarge = errors.New("response headers exceeded the limit")
	errField          = errors.New("header field is not valid")
	past              = time.Unix(1, 0) //nolint:gochecknoglobals // a constant
)

// wire is a connection to a receiver. One attempt at a time uses it, and does all of its work on
// the caller's goroutine. net/http's transport has two goroutines for each connection, and handing
// an attempt to them and back costs as much as everything else of a POST except the system's own
// part. The answer is still parsed by net/http.
type wire struct {
	conn       net.Conn
	place      poolKey
	reader     *bufio.Reader
	headerLeft int   // bytes that may be read until the header is complete
	failure    error // of the last read; nil: there was none
	since      time.Time
	remote     netip.AddrPort
	expires    time.Time // when the receiver's certificate ends; zero: there is none
	first      time.Time // when the answer began; zero: it has not begun
}

func newWire(conn net.Conn, at poolKey) *wire {
	w := &wire{conn: conn, place: at}
	w.reader = bufio.NewReaderSize(w, readBuffer)
	if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		at := tcp.AddrPort()
		w.remote = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	}
	if secure, ok := conn.(*tls.Conn); ok {
		if chain := secure.ConnectionState().PeerCertificates; len(chain) > 0 {
			w.expires = chain[0].NotAfter
		}
	}
	return w
}

// Read implements io.Reader for the buffer. It reads no more than the header may have.
func (w *wire) Read(p []byte) (int, error) {
	if w.headerLeft <= 0 {
		w.failure = errHeaderTooLarge
		return 0, w.failure
	}
	n, err := w.conn.Read(p[:min(len(p), w.headerLeft)])
	if w.first.IsZero() && n > 0 {
		w.first = time.Now()
	}
	w.headerLeft -= n
	w.failure = err
	return n, err
}

// sinceFirst returns how long it took until the answer began; 0: no answer began.
func (w *wire) sinceFirst(began time.Time) time.Duration {
	if w.first.IsZero() {
		return 0
	}
	return w.first.Sub(began)
}

// posting is the request that http.ReadResponse needs; it is only read.
var posting = &http.Request{Method: http.MethodPost} //nolint:gochecknoglobals // a constant

// exchange sends a request and reads the header of its answer, until the deadline. rest, if there
// is one, is written while exchange waits for the answer. whole reports whether the whole request
// was sent: if not, the connection can't be used again.
func (w *wire) exchange(ctx context.Context, deadline time.Time, first, rest []byte) (answer *http.Response, whole bool, err error) {
	w.first = time.Time{}
	if err := w.conn.SetDeadline(deadline); err != nil {
		return nil, false, err
	}
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() { _ = w.conn.SetDeadline(past) })
		// If it was running, it would cut a later attempt short.
		defer func() { whole = stop() && whole }()
	}
	if len(rest) == 0 {
		if _, err := w.conn.Write(first); err != nil {
			return nil, false, err
		}
		answer, err = w.readHeader()
		return answer, err == nil, err
	}
	written := make(chan bool, 1)
	go func() {
		buffers := net.Buffers{first, rest}
		_, err := buffers.WriteTo(w.conn)
		written <- err == nil
	}()
	answer, err = w.readHeader()
	select {
	case all := <-written:
		return answer, all && err == nil, err
	default:
	}
	// The receiver has answered, or failed, before it had the whole request.
	_ = w.conn.SetWriteDeadline(past)
	<-written
	return answer, false, err
}

// readHeader reads the header of the answer and skips 1xx answers.
func (w *wire) readHeader() (*http.Response, error) {
	w.headerLeft = maxHeaderBytes
	for {
		answer, err := http.ReadResponse(w.reader, posting)
		if err != nil {
			// For a line that is cut off, net/http says only that it is not valid.
			if w.failure != nil && !errors.Is(w.failure, io.EOF) {
				err = w.failure
			}
			return nil, err
		}
		if answer.StatusCode >= 200 || answer.StatusCode < 100 || answer.StatusCode == http.StatusSwitchingProtocols {
			w.headerLeft = afterHeader
			return answer, nil
		}
	}
}

// isClean reports whether no unexpected bytes have come.
func (w *wire) isClean() bool { return w.reader.Buffered() == 0 }

// Field is one line of a request's header.
type Field struct{ Name, Value string }

// request appends the request line, the header, and the body if it is short; a long body is
// returned as rest. It leaves out fields by which others may conclude that a POST may be repeated.
func (t *target) request(to []byte, r *Request) (first, rest []byte, err error) {
	to = append(to, t.start...)
	to = strconv.AppendInt(to, int64(len(r.Body)), 10)
	to = append(to, "\r\n"...)
	for _, f := range r.Header {
		if strings.EqualFold(f.Name, "Idempotency-Key") || strings.EqualFold(f.Name, "X-Idempotency-Key") {
			continue
		}
		if !httpguts.ValidHeaderFieldName(f.Name) || !httpguts.ValidHeaderFieldValue(f.Value) {
			return nil, nil, errField
		}
		to = append(to, f.Name...)
		to = append(to, ": "...)
		to = append(to, f.Value...)
		to = append(to, "\r\n"...)
	}
	to = append(to, "\r\n"...)
	if len(to)+len(r.Body) > maxShortBody {
		return to, r.Body, nil
	}
	return append(to, r.Body...), nil, nil
}

// drain reads the body within its bounds, and puts as much of it as fits into buffer. cut reports
// whether the body may be longer, done whether it has ended. An error while reading is no error of
// the attempt, because the receiver has answered.
func drain(body io.Reader, buffer []byte) (n int, cut, done bool) {
	var err error
	for n < len(buffer) && err == nil {
		var more int
		more, err = body.Read(buffer[n:])
		n += more
	}
	if err != nil {
		return n, false, errors.Is(err, io.EOF)
	}
	// The connection is used again only if the body ends within the bytes that may be read.
	var rest [1 << 10]byte
	read := n
	for read < MaxRead && err == nil {
		var more int
		more, err = body.Read(rest[:min(len(rest), MaxRead-read)])
		read += more
	}
	done = errors.Is(err, io.EOF)
	return n, read > n || !done, done
}
