// Package forward forwards callbacks to a program on a developer's machine, with bytes and
// headers unchanged, and returns its answers. Requests that are not signed are not forwarded.
package forward

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/shared/signature"
)

const (
	maxBody   = 4 << 20
	maxAnswer = 64 << 10
	// timeout is longer than any webhook's timeoutSeconds.
	timeout = 35 * time.Second
)

// Result is what became of one callback: passed on, or refused.
type Result struct {
	At       time.Time
	EventID  string
	Type     string
	Attempt  int
	Status   int // 0: the program gave no answer
	Duration time.Duration
	Err      error // why there was no answer
	// Refused is the reason why the signature is not valid; the request was answered with 401 and not
	// forwarded.
	Refused string
	Header  http.Header
	Body    []byte
}

// Forwarder is the handler that callbacks come to.
type Forwarder struct {
	to     *url.URL // nil: callbacks are only shown
	key    signature.Key
	http   *http.Client
	notify func(Result)
}

// New returns a forwarder of callbacks that are signed with the key. It forwards to the URL; nil: each
// callback is answered 200. notify is called after each callback, from several goroutines.
func New(to *url.URL, key signature.Key, notify func(Result)) *Forwarder {
	return &Forwarder{
		to: to, key: key, notify: notify,
		http: &http.Client{
			Timeout: timeout,
			Transport: &http.Transport{
				DialContext:        client.Dial,
				DisableCompression: true, // compression would add a header
				IdleConnTimeout:    time.Minute,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Close closes the connections that are not in use.
func (f *Forwarder) Close() { f.http.CloseIdleConnections() }

// ServeHTTP forwards the request if its signature is valid; otherwise the caller gets 401. If the
// program does not answer, the caller gets 502.
func (f *Forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the body is incomplete", http.StatusBadRequest)
		return
	}
	p := Result{At: time.Now(), EventID: r.Header.Get(signature.HeaderID), Type: eventType(body), Header: r.Header, Body: body}
	if err := signature.Verify(r.Header, body, p.At, f.key); err != nil {
		p.Refused = err.Error()
		f.notify(p)
		http.Error(w, "the signature does not verify", http.StatusUnauthorized)
		return
	}
	p.Attempt, _ = strconv.Atoi(r.Header.Get("Waybill-Attempt"))
	if f.to == nil {
		p.Status = http.StatusOK
		f.notify(p)
		return
	}
	answer, err := f.pass(r, body)
	p.Duration = time.Since(p.At)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err
		}
		p.Err = err
		f.notify(p)
		http.Error(w, "no answer from the program behind waybill listen", http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	p.Status = answer.StatusCode
	f.notify(p)
	for name, values := range answer.Header {
		if !hopByHop(name) {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, io.LimitReader(answer.Body, maxAnswer)) // callers read no more than that
}

func (f *Forwarder) pass(r *http.Request, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(r.Context(), r.Method, f.to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, values := range r.Header {
		if !hopByHop(name) {
			request.Header[asSent(name)] = values
		}
	}
	if _, ok := request.Header["User-Agent"]; !ok {
		request.Header["User-Agent"] = []string{""} // otherwise a default one would be added
	}
	return f.http.Do(request)
}

// asSent returns the name as Waybill writes it: net/http has capitalized it.
func asSent(name string) string {
	switch name {
	case "Webhook-Id", "Webhook-Timestamp", "Webhook-Signature", "Traceparent":
		return strings.ToLower(name)
	}
	return name
}

// hopByHop reports whether a header is about one connection, not about the message.
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length":
		return true
	}
	return false
}

func eventType(body []byte) string {
	var event struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(body, &event) // a body that is not an event has no type
	return event.Type
}
