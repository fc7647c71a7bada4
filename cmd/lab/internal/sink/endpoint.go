package sink

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// maxFaults bounds the faults that an endpoint keeps; all are counted.
const maxFaults = 20

// Post is one POST as it arrived.
type Post struct {
	ID         string // webhook-id
	DeliveryID string
	Attempt    int // as Waybill counts
	Header     http.Header
	Body       []byte
	At         time.Time
	// OfID counts the POSTs of this id, OfEndpoint all of the endpoint; the first is 1.
	OfID       int
	OfEndpoint int
}

// Answer is what a POST is answered with.
type Answer struct {
	Status int // 0: 200
	Header http.Header
	Body   string
	Delay  time.Duration
	Hang   bool // until the caller gives up
}

// Receipt is what an endpoint knows of one id.
type Receipt struct {
	Posts int
	// Hash is the SHA-256 of the body. It is the same on every attempt, or else a fault.
	Hash        [sha256.Size]byte
	First, Last time.Time
	// Accepted is how many of the POSTs were answered 2xx.
	Accepted int
}

// Endpoint is one receiver.
type Endpoint struct {
	// URL is where it receives.
	URL string

	mu        sync.Mutex
	verifiers []*standardwebhooks.Webhook
	behave    func(Post) Answer
	posts     int
	receipts  map[string]*Receipt
	order     []string
	kept      map[string]Post
	keep      bool
	inside    int
	most      int
	faults    []string
	faulty    int
}

func newEndpoint(url string) *Endpoint {
	return &Endpoint{URL: url, receipts: make(map[string]*Receipt), kept: make(map[string]Post)}
}

// Trust has signatures checked: each must verify with every one of the secrets, as both
// sign during a rotation's overlap. A POST whose signature does not is a fault.
func (e *Endpoint) Trust(secrets ...string) error {
	verifiers := make([]*standardwebhooks.Webhook, 0, len(secrets))
	for _, secret := range secrets {
		v, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			return fmt.Errorf("read a webhook's secret: %w", err)
		}
		verifiers = append(verifiers, v)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.verifiers = verifiers
	return nil
}

// Behave sets what POSTs are answered with; nil: 200.
func (e *Endpoint) Behave(answer func(Post) Answer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.behave = answer
}

// Keep has the newest POST of each id kept whole.
func (e *Endpoint) Keep() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.keep = true
}

func (e *Endpoint) receive(r *http.Request, body []byte) (Post, Answer) {
	post := Post{
		ID: r.Header.Get("webhook-id"), DeliveryID: r.Header.Get("Waybill-Delivery-Id"),
		Header: r.Header, Body: body, At: time.Now(),
	}
	post.Attempt, _ = strconv.Atoi(r.Header.Get("Waybill-Attempt"))
	hash := sha256.Sum256(body)
	e.mu.Lock()
	verifiers := e.verifiers
	e.mu.Unlock()
	var fault string
	for i, v := range verifiers {
		if err := v.Verify(body, r.Header); err != nil {
			fault = fmt.Sprintf("%s: signature does not verify with secret %d: %v", post.ID, i+1, err)
		}
	}

	e.mu.Lock()
	defer e.mu.Unlock()
	e.inside++
	e.most = max(e.most, e.inside)
	e.posts++
	receipt, ok := e.receipts[post.ID]
	if !ok {
		receipt = &Receipt{Hash: hash, First: post.At}
		e.receipts[post.ID] = receipt
		e.order = append(e.order, post.ID)
	}
	receipt.Posts++
	receipt.Last = post.At
	if receipt.Hash != hash {
		fault = post.ID + ": another attempt had another body"
	}
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || post.ID == "" {
		fault = fmt.Sprintf("%q: not a callback: %s %s", post.ID, r.Method, r.Header.Get("Content-Type"))
	}
	if fault != "" {
		e.fault(fault)
	}
	post.OfID, post.OfEndpoint = receipt.Posts, e.posts
	if e.keep {
		e.kept[post.ID] = post
	}
	if e.behave == nil {
		return post, Answer{}
	}
	return post, e.behave(post)
}

func (e *Endpoint) fault(text string) {
	e.faulty++
	if len(e.faults) < maxFaults {
		e.faults = append(e.faults, text)
	}
}

func (e *Endpoint) answered(post Post, status int) {
	if status < 200 || status > 299 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.receipts[post.ID].Accepted++
}

func (e *Endpoint) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inside--
}

// Posts returns how many POSTs came.
func (e *Endpoint) Posts() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.posts
}

// Ids returns how many different ids came.
func (e *Endpoint) Ids() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.receipts)
}

// Receipt returns what is known of an id; Posts 0: it did not come.
func (e *Endpoint) Receipt(id string) Receipt {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r, ok := e.receipts[id]; ok {
		return *r
	}
	return Receipt{}
}

// Receipts returns what is known of every id.
func (e *Endpoint) Receipts() map[string]Receipt {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make(map[string]Receipt, len(e.receipts))
	for id, r := range e.receipts {
		all[id] = *r
	}
	return all
}

// Accepted returns how many of the ids were answered 2xx at least once.
func (e *Endpoint) Accepted(ids []string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, id := range ids {
		if r, ok := e.receipts[id]; ok && r.Accepted > 0 {
			n++
		}
	}
	return n
}

// Order returns the ids in the order of their first arrival.
func (e *Endpoint) Order() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.order)
}

// Newest returns the newest POST of an id, when Keep was called before it came.
func (e *Endpoint) Newest(id string) (Post, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	post, ok := e.kept[id]
	return post, ok
}

// Kept returns the newest POST of every id.
func (e *Endpoint) Kept() map[string]Post {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.kept)
}

// MostAtOnce returns how many POSTs were being answered at the same time at most.
func (e *Endpoint) MostAtOnce() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.most
}

// Faults returns how many POSTs were wrong in themselves (signature, body, form), with
// the first of them.
func (e *Endpoint) Faults() (n int, first []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.faulty, slices.Clone(e.faults)
}
