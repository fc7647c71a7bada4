// Package receiver is a receiver of callbacks for trying Waybill: it records callbacks, shows header by header
// whether the signature is valid, and gives the answers that are set, including failures and delays. It is not
// for production.
package receiver

import (
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"waybill.dev/shared/look"
	"waybill.dev/shared/signature"
)

const (
	maxCallbacks = 200
	// maxBytes bounds the bodies in memory, in bytes; the oldest callbacks are removed first.
	maxBytes = 32 << 20
	maxBody  = 2 << 20
	// maxPaths is how many paths may have a secret or an answer of their own. maxCounted is for how
	// many events the attempts are counted.
	maxPaths   = 1000
	maxCounted = 10_000
	maxSecrets = 8
	maxDelay   = 30 * time.Second
	// learning is how long the secret of a new webhook may take to get here.
	learning = 250 * time.Millisecond
)

// Answer is the answer to callbacks.
type Answer struct {
	Status int           // 200..599
	Delay  time.Duration // wait before the answer; at most 30 s
	// Times is the number of attempts of each event for which the answer holds; later attempts get 200 at once.
	// 0: for all.
	Times int
}

// Callback is one request as it arrived, with its answer.
type Callback struct {
	Number     int
	ReceivedAt time.Time
	Path       string
	Query      string
	Header     http.Header
	Body       []byte
	Status     int // of the answer
	Delay      time.Duration
}

// EventID returns the event's id, the same on every attempt.
func (c Callback) EventID() string { return c.Header.Get(signature.HeaderID) }

// Delivery returns the delivery's id, which is also the same on every attempt; if the sender sends none, it
// returns the event's id.
func (c Callback) Delivery() string {
	if id := c.Header.Get("Waybill-Delivery-Id"); id != "" {
		return id
	}
	return c.EventID()
}

// Attempt returns the number of the attempt as Waybill counts; 0: unknown.
func (c Callback) Attempt() int {
	n, _ := strconv.Atoi(c.Header.Get("Waybill-Attempt"))
	return n
}

type path struct {
	given  []signature.Key
	answer Answer
}

// Receiver keeps the newest callbacks and the settings of each path.
type Receiver struct {
	now    func() time.Time
	assets *look.Assets
	layout *template.Template

	mu        sync.Mutex
	last      int
	callbacks []Callback // oldest first
	bytes     int
	paths     map[string]*path
	found     map[string]Known
	counted   map[string]int // attempts of a delivery on a path that got an answer of their own
	listeners map[chan Callback]struct{}
}

// New returns an empty receiver.
func New() *Receiver {
	files, layout := newPage()
	return &Receiver{
		now: time.Now, assets: files, layout: layout,
		paths: make(map[string]*path), counted: make(map[string]int),
		listeners: make(map[chan Callback]struct{}),
	}
}

// Trust adds a secret, or a public key (whpk_), with which callbacks to p may be signed. The newest eight of a
// path are kept, and one of them must match; the empty text removes them.
func (r *Receiver) Trust(p, secret string) error {
	if secret == "" {
		return r.tell(p, func(known *path) { known.given = nil })
	}
	parse := signature.ParseSecret
	if strings.HasPrefix(secret, "whpk_") {
		parse = signature.ParseKey
	}
	key, err := parse(secret)
	if err != nil {
		return fmt.Errorf("read secret: %w", err)
	}
	return r.tell(p, func(known *path) {
		known.given = append(known.given, key)
		known.given = known.given[max(0, len(known.given)-maxSecrets):]
	})
}

// Known is the data about a path from the webhooks that point to it.
type Known struct {
	Secrets []signature.Key
	// Queries are the queries of the webhooks' URLs, which may ask for an answer.
	Queries []string
}

// Found replaces the known data of paths; secrets from Trust stay.
func (r *Receiver) Found(byPath map[string]Known) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found = byPath
}

// keys returns the secrets of a path, each once. The caller holds mu.
func (r *Receiver) keys(p string) []signature.Key {
	all := r.found[p].Secrets
	if known := r.paths[p]; known != nil {
		all = slices.Concat(known.given, all)
	}
	var keys []signature.Key
	for _, key := range all {
		if !slices.ContainsFunc(keys, key.Equal) {
			keys = append(keys, key)
		}
	}
	return keys
}

// Behave sets the answer to callbacks to p.
func (r *Receiver) Behave(p string, a Answer) error {
	if err := a.check(); err != nil {
		return err
	}
	return r.tell(p, func(known *path) { known.answer = a })
}

func (a Answer) check() error {
	switch {
	case a.Status < 200 || a.Status > 599:
		return fmt.Errorf("status must be from 200 to 599, not %d", a.Status)
	case a.Delay < 0 || a.Delay > maxDelay:
		return fmt.Errorf("delay must be from 0 to %s", maxDelay)
	case a.Times < 0:
		return fmt.Errorf("times must be 0 or more, not %d", a.Times)
	}
	return nil
}

func (r *Receiver) tell(p string, change func(*path)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.paths[p]
	if !ok {
		if len(r.paths) >= maxPaths {
			return fmt.Errorf("the receiver keeps settings for at most %d paths", maxPaths)
		}
		known = &path{answer: Answer{Status: http.StatusOK}}
		r.paths[p] = known
	}
	change(known)
	for key := range r.counted { // a new setting applies from the next attempt on
		if len(key) > len(p) && key[:len(p)] == p && key[len(p)] == 0 {
			delete(r.counted, key)
		}
	}
	return nil
}

// Subscribe returns a channel that gets the callbacks from now on, until stop is called. A slow reader misses
// some.
func (r *Receiver) Subscribe() (callbacks <-chan Callback, stop func()) {
	listener := make(chan Callback, maxCallbacks)
	r.mu.Lock()
	r.listeners[listener] = struct{}{}
	r.mu.Unlock()
	return listener, func() {
		r.mu.Lock()
		delete(r.listeners, listener)
		r.mu.Unlock()
	}
}

// Callbacks returns the kept callbacks, the newest first.
func (r *Receiver) Callbacks() []Callback {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := slices.Clone(r.callbacks)
	slices.Reverse(list)
	return list
}

// verify checks the signature of c with the secrets that are now known for its path. checked is false when there are
// none; ok, whether the signature is valid, then says nothing.
func (r *Receiver) verify(c Callback) (steps []signature.Step, checked, ok bool) {
	r.mu.Lock()
	keys := r.keys(c.Path)
	r.mu.Unlock()
	steps = signature.VerifySteps(c.Header, c.Body, c.ReceivedAt, keys...)
	ok = true
	for _, step := range steps {
		ok = ok && step.OK
	}
	return steps, len(keys) > 0, ok
}

// Clear forgets the callbacks, not the settings of paths.
func (r *Receiver) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.callbacks, r.bytes = nil, 0
	clear(r.counted)
}

// decide returns the answer to a callback: the one that its query asks for, otherwise the one of its path,
// otherwise 200. A callback that is not signed with a secret of its path gets 401 instead of 2xx, unless its
// query asks for 2xx.
func (r *Receiver) decide(c Callback, query url.Values) (Answer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	answer := Answer{Status: http.StatusOK}
	if known := r.paths[c.Path]; known != nil {
		answer = known.answer
	}
	answer, err := fromQuery(query, answer)
	if err != nil {
		return Answer{}, err
	}
	if answer.Times > 0 {
		key := c.Path + "\x00" + c.Delivery()
		if len(r.counted) >= maxCounted {
			clear(r.counted)
		}
		r.counted[key]++
		if r.counted[key] > answer.Times {
			answer = Answer{Status: http.StatusOK}
		}
	}
	return answer, nil
}

// fromQuery reads status, delay and times; missing ones are taken from otherwise.
func fromQuery(query url.Values, otherwise Answer) (Answer, error) {
	answer := otherwise
	var err error
	if query.Has("status") {
		answer = Answer{}
		if answer.Status, err = strconv.Atoi(query.Get("status")); err != nil {
			return answer, fmt.Errorf("status in the query must be a number, such as 503")
		}
	}
	if query.Has("delay") {
		if answer.Delay, err = time.ParseDuration(query.Get("delay")); err != nil {
			return answer, fmt.Errorf("delay in the query must be a duration, such as 2s")
		}
	}
	if query.Has("times") {
		if answer.Times, err = strconv.Atoi(query.Get("times")); err != nil {
			return answer, fmt.Errorf("times in the query must be a number, such as 2")
		}
	}
	return answer, answer.check()
}

// keep records a callback and notifies the listeners.
func (r *Receiver) keep(c Callback) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	c.Number = r.last
	r.callbacks = append(r.callbacks, c)
	r.bytes += len(c.Body)
	for len(r.callbacks) > maxCallbacks || r.bytes > maxBytes && len(r.callbacks) > 1 {
		r.bytes -= len(r.callbacks[0].Body)
		r.callbacks = r.callbacks[1:]
	}
	for listener := range r.listeners {
		select {
		case listener <- c:
		default:
		}
	}
}
