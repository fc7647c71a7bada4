package stack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Client calls a stack's API as a customer would.
type Client struct {
	base string
	key  string
	http *http.Client
	see  func(method, path string, a Answer)
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 20

// Client returns a client of the first API, with the bootstrap key.
func (s *Stack) Client() *Client { return s.client(s.URL) }

// Clients returns a client of each API, with the bootstrap key.
func (s *Stack) Clients() []*Client {
	var list []*Client
	for _, url := range s.URLs {
		list = append(list, s.client(url))
	}
	return list
}

func (s *Stack) client(base string) *Client {
	return &Client{base: base, key: s.Key, http: &http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 30 * time.Second},
	}}
}

// As returns a client like this one with another key; empty: it sends none.
func (c *Client) As(key string) *Client {
	other := *c
	other.key = key
	return &other
}

// Watch lets see look at every answer from now on. Call it before anything is asked.
func (c *Client) Watch(see func(method, path string, a Answer)) { c.see = see }

// Close ends the client's idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Answer is what the API answered.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Problem is an error as the API answers it.
type Problem struct {
	Status int
	Code   string
	Detail string
	Errors []struct{ Pointer, Parameter, Detail string }
}

// Error implements error.
func (p *Problem) Error() string {
	return fmt.Sprintf("%d %s: %s %v", p.Status, p.Code, p.Detail, p.Errors)
}

// Do sends a request; a body is sent as JSON. A nil header adds none.
func (c *Client) Do(ctx context.Context, method, path string, body []byte, header http.Header) (Answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return Answer{}, fmt.Errorf("make request: %w", err)
	}
	if len(body) > 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	maps.Copy(request.Header, header)
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return Answer{}, fmt.Errorf("call the API: %w", err)
	}
	defer response.Body.Close()
	read, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return Answer{}, fmt.Errorf("read the API's answer: %w", err)
	}
	answer := Answer{Status: response.StatusCode, Header: response.Header, Body: read}
	if c.see != nil {
		c.see(method, path, answer)
	}
	return answer, nil
}

// call sends in, if any, and reads the answer into out, if any. An answer that is not a
// good one is returned as a *Problem.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
	}
	answer, err := c.Do(ctx, method, path, body, nil)
	if err != nil {
		return err
	}
	if answer.Status > 299 {
		return answer.Problem()
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer.Body, out); err != nil {
		return fmt.Errorf("decode answer to %s %s: %w", method, path, err)
	}
	return nil
}

// Problem reads the answer as an error.
func (a Answer) Problem() *Problem {
	p := &Problem{}
	if err := json.Unmarshal(a.Body, p); err != nil {
		p.Detail = string(a.Body)
	}
	p.Status = a.Status
	return p
}

// IsStatus reports whether err is the API's answer with that status.
func IsStatus(err error, status int) bool {
	var p *Problem
	return errors.As(err, &p) && p.Status == status
}

// Webhook is a webhook as the API shows it, and as it is registered.
type Webhook struct {
	ID                   string            `json:"id,omitempty"`
	URL                  string            `json:"url,omitempty"`
	Events               []string          `json:"events,omitempty"`
	Active               *bool             `json:"active,omitempty"`
	Secret               string            `json:"secret,omitempty"`
	Headers              map[string]string `json:"headers,omitempty"`
	RetryScheduleSeconds []float64         `json:"retryScheduleSeconds,omitzero"`
	TimeoutSeconds       float64           `json:"timeoutSeconds,omitempty"`
	MaxInFlight          int               `json:"maxInFlight,omitempty"`
	RatePerSecond        *float64          `json:"ratePerSecond,omitempty"`
	DisabledReason       *string           `json:"disabledReason,omitempty"`
	Delivery             string            `json:"delivery,omitempty"`
	Ordering             string            `json:"ordering,omitempty"`
}

// Delivery is a delivery as the API shows it; Attempts only when it was asked for alone.
type Delivery struct {
	ID            string
	WebhookID     string
	EventID       string
	EventType     string
	Status        string
	AttemptCount  int
	Sequence      int64
	NextAttemptAt *time.Time
	Reason        *string
	Test          bool
	Attempts      []Attempt
}

// Attempt is one attempt of a delivery.
type Attempt struct {
	Number       int
	StartedAt    time.Time
	DurationMs   int64
	Status       int
	Error        string
	ResponseBody string
}

// Published is the API's answer for one event.
type Published struct {
	ID        string
	Duplicate bool
}

// Rejected is a message on the bus that was not a valid event.
type Rejected struct {
	Subject string
	Time    time.Time
	Reason  string
	Body    string
}

// Account makes an account. It returns a client for the account with its key, and the key.
func (c *Client) Account(ctx context.Context, name string) (*Client, string, error) {
	var made struct {
		Key string `json:"key"`
	}
	err := c.call(ctx, http.MethodPost, "/v1/accounts", map[string]string{"name": name}, &made)
	return c.As(made.Key), made.Key, err
}

// Register registers a webhook.
func (c *Client) Register(ctx context.Context, w Webhook) (Webhook, error) {
	var made Webhook
	err := c.call(ctx, http.MethodPost, "/v1/webhooks", w, &made)
	return made, err
}

// Webhook returns a webhook.
func (c *Client) Webhook(ctx context.Context, id string) (Webhook, error) {
	var w Webhook
	err := c.call(ctx, http.MethodGet, "/v1/webhooks/"+id, nil, &w)
	return w, err
}

// SetActive makes a webhook active or inactive.
func (c *Client) SetActive(ctx context.Context, id string, active bool) error {
	return c.call(ctx, http.MethodPatch, "/v1/webhooks/"+id, map[string]bool{"active": active}, nil)
}

// Delete deletes a webhook.
func (c *Client) Delete(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/v1/webhooks/"+id, nil, nil)
}

// Rotate gives a webhook a new secret; the old one signs too for overlap.
func (c *Client) Rotate(ctx context.Context, id string, overlap time.Duration) (secret string, err error) {
	var out struct{ Secret string }
	err = c.call(ctx, http.MethodPost, "/v1/webhooks/"+id+"/rotate-secret",
		map[string]float64{"overlapSeconds": overlap.Seconds()}, &out)
	return out.Secret, err
}

// Test sends a sample event to a webhook.
func (c *Client) Test(ctx context.Context, id string) (delivery string, err error) {
	var out struct{ DeliveryID string }
	err = c.call(ctx, http.MethodPost, "/v1/webhooks/"+id+"/test", nil, &out)
	return out.DeliveryID, err
}

// Replay sends deliveries since then again; an empty status takes the undelivered ones.
func (c *Client) Replay(ctx context.Context, id string, since time.Time, status string) (matched int, err error) {
	in := map[string]string{"since": since.UTC().Format(time.RFC3339Nano)}
	if status != "" {
		in["status"] = status
	}
	var out struct{ Matched int }
	err = c.call(ctx, http.MethodPost, "/v1/webhooks/"+id+"/replay", in, &out)
	return out.Matched, err
}

// Retry sends a delivery again.
func (c *Client) Retry(ctx context.Context, delivery string) error {
	return c.call(ctx, http.MethodPost, "/v1/deliveries/"+delivery+"/retry", nil, nil)
}

// Publish publishes a body: one event or an array of them.
func (c *Client) Publish(ctx context.Context, body []byte) ([]Published, error) {
	answer, err := c.Do(ctx, http.MethodPost, "/v1/events", body, nil)
	if err != nil {
		return nil, err
	}
	if answer.Status != http.StatusAccepted {
		return nil, answer.Problem()
	}
	var out struct{ Events []Published }
	if err := json.Unmarshal(answer.Body, &out); err != nil {
		return nil, fmt.Errorf("decode answer to a publication: %w", err)
	}
	return out.Events, nil
}

// Delivery returns a delivery with its attempts.
func (c *Client) Delivery(ctx context.Context, id string) (Delivery, error) {
	var d Delivery
	err := c.call(ctx, http.MethodGet, "/v1/deliveries/"+id, nil, &d)
	return d, err
}

// Deliveries calls visit with every delivery that the filter selects, newest first.
func (c *Client) Deliveries(ctx context.Context, filter url.Values, visit func(Delivery)) error {
	query := url.Values{"limit": {"1000"}}
	maps.Copy(query, filter)
	for {
		var page struct {
			Data       []Delivery
			NextCursor *string
		}
		if err := c.call(ctx, http.MethodGet, "/v1/deliveries?"+query.Encode(), nil, &page); err != nil {
			return err
		}
		for _, d := range page.Data {
			visit(d)
		}
		if page.NextCursor == nil {
			return nil
		}
		query.Set("cursor", *page.NextCursor)
	}
}

// DeliveryOf returns the delivery of an event to a webhook; ok is false while there is none.
func (c *Client) DeliveryOf(ctx context.Context, webhook, event string) (found Delivery, ok bool, err error) {
	err = c.Deliveries(ctx, url.Values{"webhookId": {webhook}, "eventId": {event}}, func(d Delivery) { found, ok = d, true })
	if err != nil || !ok {
		return Delivery{}, false, err
	}
	found, err = c.Delivery(ctx, found.ID)
	return found, err == nil, err
}

// FeedPage is a part of a webhook's feed.
type FeedPage struct {
	Data   []struct{ ID string }
	Cursor string
	Done   bool
}

// Feed reads a page of a webhook's feed.
func (c *Client) Feed(ctx context.Context, webhook string, query url.Values) (FeedPage, error) {
	var page FeedPage
	err := c.call(ctx, http.MethodGet, "/v1/webhooks/"+webhook+"/feed?"+query.Encode(), nil, &page)
	return page, err
}

// SetCursor keeps a cursor of a webhook's feed under a name.
func (c *Client) SetCursor(ctx context.Context, webhook, name, cursor string) error {
	return c.call(ctx, http.MethodPut, "/v1/webhooks/"+webhook+"/cursors/"+name, map[string]string{"cursor": cursor}, nil)
}

// Cursor returns the cursor that is kept under a name; empty: none is.
func (c *Client) Cursor(ctx context.Context, webhook, name string) (string, error) {
	var kept struct{ Cursor string }
	err := c.call(ctx, http.MethodGet, "/v1/webhooks/"+webhook+"/cursors/"+name, nil, &kept)
	if IsStatus(err, http.StatusNotFound) {
		return "", nil
	}
	return kept.Cursor, err
}

// HasEvent reports whether the API knows an event.
func (c *Client) HasEvent(ctx context.Context, id string) (bool, error) {
	err := c.call(ctx, http.MethodGet, "/v1/events/"+id, nil, nil)
	if IsStatus(err, http.StatusNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Rejected returns the newest messages on the bus that were not valid events.
func (c *Client) Rejected(ctx context.Context, limit int) ([]Rejected, error) {
	var page struct{ Data []Rejected }
	err := c.call(ctx, http.MethodGet, "/v1/rejected?limit="+strconv.Itoa(limit), nil, &page)
	return page.Data, err
}

// Await asks done every 10 ms until it returns true; it fails when ctx is done first or
// done fails.
func Await(ctx context.Context, done func() (bool, error)) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
