package load

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"time"
)

// rest publishes over REST on all of a job's connections.
func (w *work) rest(ctx context.Context) error {
	connections, err := dials(ctx, w.Address, false, w.Connections)
	defer func() {
		for _, c := range connections {
			c.close()
		}
	}()
	if err != nil {
		return err
	}
	heads := make([][]byte, len(w.Keys))
	for i, key := range w.Keys {
		heads[i] = fmt.Appendf(nil, "POST /v1/events HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: ",
			w.Address, key)
	}
	w.source = newSource(w.Job) // the clock starts when all are connected
	return each(len(connections), func(i int) error { return w.posts(ctx, connections[i], heads) })
}

// posts publishes on one connection until there is nothing left to publish.
func (w *work) posts(ctx context.Context, c *connection, heads [][]byte) error {
	var body []byte
	for {
		offset, count, due := w.source.take(ctx, w.Batch)
		if count == 0 {
			return nil
		}
		body = w.body(body[:0], offset, count, due)
		status, answer, err := c.post(heads[offset/int64(w.Batch)%int64(len(heads))], body)
		if err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		if status != http.StatusAccepted {
			w.refused.Add(count)
			w.faults.add("%d: %s", status, answer)
			continue
		}
		w.accepted.Add(count)
		w.latency.Add(time.Since(due))
	}
}

// body is one event, or an array of several.
func (w *work) body(dst []byte, offset, count int64, due time.Time) []byte {
	if w.Way == WayREST {
		return w.template.append(dst, w.First+offset, due)
	}
	for i := range count {
		if i == 0 {
			dst = append(dst, '[')
		} else {
			dst = append(dst, ',')
		}
		dst = w.template.append(dst, w.First+offset+i, due)
	}
	return append(dst, ']')
}

// connection is an HTTP/1.1 connection with one request at a time.
type connection struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
	kept bytes.Buffer // an answer that is read
	// whole has the bodies of all answers read, not only those of answers that are no 2xx.
	whole bool
}

// dials returns n connections; when there is an error, those that are open.
func dials(ctx context.Context, address string, secure bool, n int) (list []*connection, err error) {
	for range n {
		c, err := dial(ctx, address, secure)
		if err != nil {
			return list, err
		}
		list = append(list, c)
	}
	return list, nil
}

// dial connects to an address, with TLS if it is secure: the certificate is the bench's own, and is not checked.
func dial(ctx context.Context, address string, secure bool) (*connection, error) {
	dialer := interface {
		DialContext(ctx context.Context, network, address string) (net.Conn, error)
	}(&net.Dialer{})
	if secure {
		dialer = &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect to the API: %w", err)
	}
	return &connection{conn: conn, in: bufio.NewReaderSize(conn, 8<<10)}, nil
}

func (c *connection) close() { _ = c.conn.Close() }

// post sends a request and reads the answer, whose body is returned when it is no 2xx, or the whole answer is wanted.
func (c *connection) post(head, body []byte) (status int, answer string, err error) {
	c.out = append(c.out[:0], head...)
	c.out = strconv.AppendInt(c.out, int64(len(body)), 10)
	c.out = append(c.out, "\r\n\r\n"...)
	c.out = append(c.out, body...)
	return c.ask(c.out)
}

// ask sends a request as it stands and reads the answer, as post does.
func (c *connection) ask(request []byte) (status int, answer string, err error) {
	if _, err := c.conn.Write(request); err != nil {
		return 0, "", err
	}
	status, length, err := c.head()
	if err != nil {
		return 0, "", err
	}
	if status < 300 && length >= 0 && !c.whole {
		_, err := c.in.Discard(length)
		return status, "", err
	}
	rest := io.LimitReader(c.in, int64(length))
	if length < 0 {
		rest = httputil.NewChunkedReader(c.in)
	}
	c.kept.Reset()
	if _, err := c.kept.ReadFrom(rest); err != nil {
		return 0, "", err
	}
	if length < 0 { // the empty line behind the last chunk
		if _, err := c.in.ReadSlice('\n'); err != nil {
			return 0, "", err
		}
	}
	if status < 300 && !c.whole {
		return status, "", nil
	}
	return status, c.kept.String(), nil
}

// head reads an answer up to its body; a negative length stands for chunks.
func (c *connection) head() (status, length int, err error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return 0, 0, err
	}
	fields := bytes.Fields(line)
	if len(fields) < 2 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, 0, fmt.Errorf("%q is no answer", line)
	}
	if status, err = strconv.Atoi(string(fields[1])); err != nil {
		return 0, 0, fmt.Errorf("%q is no answer", line)
	}
	length = -1
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, 0, err
		}
		name, value, ok := bytes.Cut(bytes.TrimSpace(line), []byte{':'})
		if !ok {
			return status, length, nil
		}
		if bytes.EqualFold(name, []byte("content-length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, 0, fmt.Errorf("%q is no length", value)
			}
		}
		if bytes.EqualFold(name, []byte("connection")) && bytes.EqualFold(bytes.TrimSpace(value), []byte("close")) {
			return 0, 0, errors.New("the API closes a connection that is to be kept")
		}
	}
}
