package tunnel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"waybill.dev/services/gateway/internal/upstream"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/tunnel"
)

const (
	// group is the one of all gateways that have a connection of a tunnel.
	group = "gateways"
	// maxAsked is how many requests of other gateways are answered at a time. One account may use half of them, so
	// that its slow services leave room for other accounts.
	maxAsked      = 512
	maxAskedShare = maxAsked / 2
	// askedTime is the longest time for such a request. No route may take longer.
	askedTime = 60 * time.Second
	// partTime is the longest wait for the next part of a body.
	partTime = 5 * time.Second
	// waitingParts is how many parts may wait to be read. No body has more.
	waitingParts = 8
)

// tunnelRequest is a request that one gateway passes to another. The request's body may have more parts.
type tunnelRequest struct {
	Method  string      `json:"method"`
	Service string      `json:"service"`
	URI     string      `json:"uri"` // path and query, escaped
	Header  http.Header `json:"header"`
	Parts   int         `json:"parts"` // number of parts of the body
	// RawURI and Raw hold the URI and the headers that are not valid UTF-8, which JSON can't represent.
	RawURI []byte `json:"rawUri,omitempty"`
	Raw    raw    `json:"raw,omitempty"`
}

// raw are headers with values that are no UTF-8.
type raw map[string][][]byte

// rawOf returns the headers with values that are not valid UTF-8; nil: there are none.
func rawOf(header http.Header) raw {
	var found raw
	for name, values := range header {
		if !slices.ContainsFunc(values, func(v string) bool { return !utf8.ValidString(v) }) {
			continue
		}
		if found == nil {
			found = make(raw)
		}
		for _, value := range values {
			found[name] = append(found[name], []byte(value))
		}
	}
	return found
}

// restore restores the headers that JSON has changed.
func (r raw) restore(header http.Header) {
	for name, values := range r {
		header[name] = make([]string, len(values))
		for i, value := range values {
			header[name][i] = string(value)
		}
	}
}

// reply is one part of the answer, or a message before it.
type reply struct {
	Go     string      `json:"go,omitempty"`    // subject for the rest of the body
	Error  string      `json:"error,omitempty"` // a code of upstream.ServiceError
	Unsent bool        `json:"unsent,omitempty"`
	Status int         `json:"status,omitempty"`
	Header http.Header `json:"header,omitempty"`
	Raw    raw         `json:"raw,omitempty"` // headers with values that are not valid UTF-8
	Parts  int         `json:"parts,omitempty"`
	Length int64       `json:"length"` // length of the body; for HEAD, the length that the answer to GET would have
}

// answers are the subjects on which this process waits for parts.
type answers struct {
	bus    Bus
	prefix string

	mu      sync.Mutex
	next    uint64
	waiting map[string]chan bus.Part // by subject
}

func (a *answers) listen() (stop func(), err error) {
	return a.bus.TakeParts(a.prefix+".*", "", func(p bus.Part) { //nolint:wrapcheck // the caller does
		a.mu.Lock()
		defer a.mu.Unlock()
		select {
		case a.waiting[p.Subject] <- p: // too late: no caller waits for it any more
		default:
		}
	})
}

// open returns a new subject for answers, and the parts that arrive there. The caller calls end after reading
// them.
func (a *answers) open() (subject string, parts <-chan bus.Part, end func()) {
	box := make(chan bus.Part, waitingParts)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next++
	subject = a.prefix + "." + strconv.FormatUint(a.next, 36)
	a.waiting[subject] = box
	return subject, box, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.waiting, subject)
	}
}

// inFlight are the running requests of other gateways.
type inFlight struct {
	mu       sync.Mutex
	running  map[string]context.CancelFunc // by the subject of the answer
	accounts map[string]int                // number of running requests of each account
}

// begin notes a request whose answer goes to box. It returns false when too many run.
func (a *inFlight) begin(account, box string, cancel context.CancelFunc) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, twice := a.running[box]; twice || len(a.running) >= maxAsked || a.accounts[account] >= maxAskedShare {
		return false
	}
	a.running[box] = cancel
	a.accounts[account]++
	return true
}

// done notes that a request is over.
func (a *inFlight) done(account, box string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.running, box)
	a.accounts[account]--
	if a.accounts[account] == 0 {
		delete(a.accounts, account)
	}
}

// askOtherGateway asks another gateway. It asks a second time if nothing of the request was sent.
func (t *Tunnels) askOtherGateway(id, name string, r *http.Request) (*http.Response, error) {
	content, err := readBody(r)
	if err != nil {
		return nil, failure(r.Context(), err)
	}
	var answer *http.Response
	for range 2 {
		var unsent bool
		answer, unsent, err = t.askBus(r, bus.SubjectTunnel+id, name, content)
		if err == nil || !unsent && !repeatable(r) || r.Context().Err() != nil {
			break
		}
		if e, ok := errors.AsType[*upstream.ServiceError](err); ok && e.Code == upstream.ServiceDown {
			break
		}
	}
	if err != nil {
		t.metrics.requests.WithLabelValues(wayNone).Inc()
		return nil, failure(r.Context(), err)
	}
	t.metrics.requests.WithLabelValues(wayBus).Inc()
	answer.Request = r
	return answer, nil
}

// readBody reads the whole body of a request.
func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	content, err := io.ReadAll(io.LimitReader(r.Body, tunnel.MaxBody+1))
	_ = r.Body.Close()
	if err == nil && len(content) > tunnel.MaxBody {
		err = &upstream.ServiceError{Code: upstream.ServiceFailed}
	}
	return content, err //nolint:wrapcheck // a reader's errors pass as they are
}

// askBus asks once. If unsent is true, the agent has seen nothing of the request.
func (t *Tunnels) askBus(r *http.Request, subject, name string, content []byte) (answer *http.Response, unsent bool, err error) {
	box, parts, end := t.answers.open()
	defer end()
	pieces := split(content)
	q := tunnelRequest{Method: r.Method, Service: name, URI: r.URL.RequestURI(), Header: r.Header, Raw: rawOf(r.Header), Parts: len(pieces)}
	if !utf8.ValidString(q.URI) {
		q.RawURI = []byte(q.URI)
	}
	head, err := json.Marshal(q)
	if err != nil {
		return nil, true, &upstream.ServiceError{Code: upstream.ServiceFailed}
	}
	if err := t.options.Bus.SendPart(bus.Part{Subject: subject, Reply: box, Head: string(head), Body: pieces[0]}); err != nil {
		return nil, true, &upstream.ServiceError{Code: upstream.ServiceDown}
	}
	for {
		part, err := wait(r.Context(), parts, askedTime)
		if err != nil {
			t.cancel(subject, box)
			return nil, false, err
		}
		said, err := t.read(part)
		switch {
		case err != nil:
			return nil, part.Nobody, err
		case said.Go != "":
			if err := t.sendAll(said.Go, "", pieces[1:]); err != nil {
				return nil, false, err
			}
		case said.Error != "":
			return nil, said.Unsent, &upstream.ServiceError{Code: said.Error}
		default:
			answer, err := gather(r.Context(), said, part.Body, parts)
			return answer, false, err
		}
	}
}

// read reads a reply of another gateway.
func (*Tunnels) read(part bus.Part) (said reply, err error) {
	if part.Nobody {
		return said, &upstream.ServiceError{Code: upstream.ServiceDown}
	}
	if err := json.Unmarshal([]byte(part.Head), &said); err != nil {
		return said, &upstream.ServiceError{Code: upstream.ServiceFailed}
	}
	return said, nil
}

// gather returns an answer with all of its body.
func gather(ctx context.Context, said reply, first []byte, parts <-chan bus.Part) (*http.Response, error) {
	content := first
	for n := 1; n < said.Parts; n++ {
		part, err := wait(ctx, parts, partTime)
		if err != nil {
			return nil, err
		}
		if len(content)+len(part.Body) > tunnel.MaxBody {
			return nil, &upstream.ServiceError{Code: upstream.ServiceFailed}
		}
		content = append(content, part.Body...)
	}
	if said.Header == nil {
		said.Header = make(http.Header)
	}
	said.Raw.restore(said.Header)
	return &http.Response{
		StatusCode: said.Status, Proto: "HTTP/2.0", ProtoMajor: 2, Header: said.Header,
		ContentLength: said.Length, Body: io.NopCloser(bytes.NewReader(content)),
	}, nil
}

// wait returns the next part.
func wait(ctx context.Context, parts <-chan bus.Part, limit time.Duration) (bus.Part, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case part := <-parts:
		return part, nil
	case <-ctx.Done():
		return bus.Part{}, egress.AsError(ctx, ctx.Err())
	case <-timer.C:
		return bus.Part{}, &upstream.ServiceError{Code: upstream.ServiceFailed}
	}
}

// split divides a body into parts, at least one.
func split(content []byte) [][]byte {
	parts := [][]byte{content[:min(len(content), bus.MaxPart)]}
	for content = content[len(parts[0]):]; len(content) > 0; {
		next := content[:min(len(content), bus.MaxPart)]
		parts, content = append(parts, next), content[len(next):]
	}
	return parts
}

// sendAll sends parts, the first with a head.
func (t *Tunnels) sendAll(subject, head string, parts [][]byte) error {
	for _, part := range parts {
		if err := t.options.Bus.SendPart(bus.Part{Subject: subject, Head: head, Body: part}); err != nil {
			return &upstream.ServiceError{Code: upstream.ServiceFailed}
		}
		head = ""
	}
	return nil
}

// cancel tells the answering gateway that the answer is no longer needed.
func (t *Tunnels) cancel(subject, box string) {
	_ = t.options.Bus.SendPart(bus.Part{Subject: subject + cancelled, Head: box})
}

// cancelled is the end of the subject for messages that an answer is no longer needed.
const cancelled = ".cancel"

// answerGateways begins to answer other gateways' questions about a tunnel. The returned function stops that. It is nil if
// the bus can't be used now. t.mu is held.
func (t *Tunnels) answerGateways(id string) (stop func()) {
	subject := bus.SubjectTunnel + id
	questions, err := t.options.Bus.TakeParts(subject, group, func(p bus.Part) { t.question(id, p) })
	if err != nil {
		t.options.Logger.Warn("other gateways can't ask for a tunnel", "tunnel", id, "error", err)
		return nil
	}
	cancels, err := t.options.Bus.TakeParts(subject+cancelled, "", func(p bus.Part) { t.inFlight.end(p.Head) })
	if err != nil {
		questions()
		return nil
	}
	return func() {
		questions()
		cancels()
	}
}

// end cancels the request with the answer subject box.
func (a *inFlight) end(box string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if cancel := a.running[box]; cancel != nil {
		cancel()
	}
}

// tunnelRequest answers another gateway.
func (t *Tunnels) question(id string, p bus.Part) {
	if p.Reply == "" || p.Nobody {
		return
	}
	account := t.accountOf(id)
	ctx, cancel := context.WithTimeout(context.Background(), askedTime)
	if !t.inFlight.begin(account, p.Reply, cancel) {
		cancel()
		t.refuse(p.Reply, upstream.ServiceBusy, true)
		return
	}
	go func() {
		defer t.inFlight.done(account, p.Reply)
		defer cancel()
		t.serveQuestion(ctx, id, p)
	}()
}

// accountOf returns the account of a tunnel; empty: the tunnel is no longer known.
func (t *Tunnels) accountOf(id string) string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if one := t.byID[id]; one != nil {
		return one.served.Account
	}
	return ""
}

func (t *Tunnels) refuse(box, code string, unsent bool) {
	t.metrics.requests.WithLabelValues(wayNone).Inc()
	if head, err := json.Marshal(reply{Error: code, Unsent: unsent}); err == nil {
		_ = t.options.Bus.SendPart(bus.Part{Subject: box, Head: string(head)})
	}
}

func (t *Tunnels) serveQuestion(ctx context.Context, id string, p bus.Part) {
	var q tunnelRequest
	uri, content, err := t.readQuestion(ctx, p, &q)
	if err != nil {
		t.refuse(p.Reply, upstream.ServiceFailed, true)
		return
	}
	c := t.pick(id, nil)
	if c == nil {
		t.refuse(p.Reply, upstream.ServiceBusy, true)
		return
	}
	request := (&http.Request{Method: q.Method, URL: uri, Header: q.Header, ContentLength: int64(len(content))}).WithContext(ctx)
	if request.Header == nil {
		request.Header = make(http.Header)
	}
	q.Raw.restore(request.Header)
	if len(content) > 0 {
		request.Body = io.NopCloser(bytes.NewReader(content))
	}
	answer, sent, err := c.ask(request, q.Service)
	if err != nil {
		code := upstream.ServiceFailed
		if e, ok := errors.AsType[*upstream.ServiceError](err); ok {
			code = e.Code
		}
		t.refuse(p.Reply, code, !sent)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.refuse(p.Reply, upstream.ServiceFailed, false)
		return
	}
	t.sendAnswer(p.Reply, q.Method, answer, body)
}

func (t *Tunnels) sendAnswer(box, method string, answer *http.Response, body []byte) {
	parts := split(body)
	length := answer.ContentLength
	if length < 0 && method != http.MethodHead {
		length = int64(len(body))
	}
	head, err := json.Marshal(reply{Status: answer.StatusCode, Header: answer.Header, Raw: rawOf(answer.Header), Parts: len(parts), Length: length})
	if err != nil {
		t.refuse(box, upstream.ServiceFailed, false)
		return
	}
	t.metrics.requests.WithLabelValues(wayOther).Inc()
	if err := t.sendAll(box, string(head), parts); err != nil {
		t.options.Logger.Debug("another gateway is not answered", "error", err)
	}
}

// readQuestion reads a request with all of its body.
func (t *Tunnels) readQuestion(ctx context.Context, p bus.Part, q *tunnelRequest) (*url.URL, []byte, error) {
	if err := json.Unmarshal([]byte(p.Head), q); err != nil {
		return nil, nil, errQuestion
	}
	if q.RawURI != nil {
		q.URI = string(q.RawURI)
	}
	uri, err := url.ParseRequestURI(q.URI)
	if err != nil || q.Parts > tunnel.MaxBody/bus.MaxPart+1 {
		return nil, nil, errQuestion
	}
	content := p.Body
	if q.Parts < 2 {
		return uri, content, nil
	}
	box, parts, end := t.answers.open()
	defer end()
	head, err := json.Marshal(reply{Go: box})
	if err != nil {
		return nil, nil, errQuestion
	}
	if err := t.options.Bus.SendPart(bus.Part{Subject: p.Reply, Head: string(head)}); err != nil {
		return nil, nil, err //nolint:wrapcheck // it is not told
	}
	for n := 1; n < q.Parts; n++ {
		part, err := wait(ctx, parts, partTime)
		if err != nil {
			return nil, nil, err
		}
		content = append(content, part.Body...)
	}
	return uri, content, nil
}

var errQuestion = errors.New("the tunnelRequest of another gateway can't be read")
