package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The answers, ready to be sent.
const (
	answerOK      = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
	answerRefused = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}"
)

// serve answers the callbacks on one connection. It knows as much of HTTP/1.1 as
// Waybill's dispatcher sends: a Content-Length, no chunks, no «Expect».
func (r *receiver) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 8<<10)
	var req request
	for n := 0; ; n++ {
		if err := req.read(in, n%checkEvery == 0); err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && req.begun {
				r.field.Load().faults.add("a request could not be read: %v", err)
			}
			return
		}
		status, delay := r.take(callback{endpoint: req.endpoint, id: req.id, body: req.body, check: req.header})
		if delay > 0 {
			time.Sleep(delay)
		}
		text := answerOK
		if status != http.StatusOK {
			text = answerRefused
		}
		if _, err := io.WriteString(conn, text); err != nil {
			return
		}
	}
}

// request is the request that a connection is at; its parts are used again for the next.
type request struct {
	begun    bool // something of it came
	endpoint int
	length   int
	id       []byte
	body     []byte
	header   http.Header
}

// read reads a request, with its headers when they are asked for.
func (q *request) read(in *bufio.Reader, headers bool) error {
	q.begun, q.length, q.id, q.header = false, -1, q.id[:0], nil
	if headers {
		q.header = make(http.Header)
	}
	line, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	q.begun = true
	if q.endpoint, err = endpointOf(line); err != nil {
		return err
	}
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			break
		}
		if err := q.headerLine(line); err != nil {
			return err
		}
	}
	if q.length < 0 {
		return errors.New("it has no Content-Length")
	}
	if cap(q.body) < q.length {
		q.body = make([]byte, q.length)
	}
	q.body = q.body[:q.length]
	_, err = io.ReadFull(in, q.body)
	return err
}

// endpointOf reads the endpoint out of a line such as «POST /7 HTTP/1.1».
func endpointOf(line []byte) (int, error) {
	rest, ok := bytes.CutPrefix(line, []byte("POST /"))
	path, _, more := bytes.Cut(rest, []byte{' '})
	n, valid := parseNumber(path)
	if !ok || !more || !valid || n < 0 {
		return 0, fmt.Errorf("%q is no POST to an endpoint", line)
	}
	return int(n), nil
}

func (q *request) headerLine(line []byte) error {
	name, value, ok := bytes.Cut(line, []byte{':'})
	if !ok {
		return fmt.Errorf("%q is no header", line)
	}
	value = bytes.TrimSpace(value)
	if q.header != nil {
		q.header.Add(string(name), string(value))
	}
	// The length distinguishes most headers before their letters are compared.
	switch len(name) {
	case len("webhook-id"):
		if bytes.EqualFold(name, []byte("webhook-id")) {
			q.id = append(q.id, value...)
		}
	case len("content-length"):
		if bytes.EqualFold(name, []byte("content-length")) {
			n, err := strconv.Atoi(string(value))
			if err != nil {
				return fmt.Errorf("%q is no length", value)
			}
			q.length = n
		}
	}
	return nil
}

// ServeHTTP implements http.Handler, for a receiver on net/http.
func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		r.field.Load().faults.add("a body could not be read: %v", err)
		return
	}
	endpoint, err := strconv.Atoi(strings.TrimPrefix(q.URL.Path, "/"))
	if err != nil || endpoint < 0 {
		r.field.Load().faults.add("%q is no endpoint", q.URL.Path)
		return
	}
	c := callback{endpoint: endpoint, id: []byte(q.Header.Get("webhook-id")), body: body}
	if n, ok := numberOf(c.id); ok && n%checkEvery == 0 {
		c.check = q.Header
	}
	status, delay := r.take(c)
	if delay > 0 {
		time.Sleep(delay)
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "{}")
}
