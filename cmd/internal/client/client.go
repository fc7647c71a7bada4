// Package client calls Waybill's REST API, for the command line and for programs that test Waybill.
package client

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
	"strings"
	"time"

	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/shared/domain"
)

const (
	timeout   = 30 * time.Second
	maxAnswer = 64 << 20
	// connections is the maximum number of requests that a program has open at once.
	connections = 64
	pageSize    = 1000
)

// Client calls one installation.
type Client struct {
	Access

	base string
	http *http.Client
}

// Access is the address of an installation, with its key.
type Access struct {
	URL  string // such as http://127.0.0.1:8080
	Key  domain.Secret
	From string // where the key comes from, for the message when it is refused
	Hint string // another possible installation, for the message when nothing answers or the key is refused

	See func(method, path string, a Answer) // gets each answer of Ask; may be nil
}

// New returns a client of an installation. The key is sent only there: redirects are not
// followed.
func New(access Access) (*Client, error) {
	u, err := url.Parse(access.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the installation's URL must be like http://127.0.0.1:8080")
	}
	transport := NewTransport()
	transport.MaxIdleConnsPerHost = connections
	return &Client{
		Access: access, base: strings.TrimSuffix(access.URL, "/"),
		http: &http.Client{
			Transport: transport, Timeout: timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Close closes the connections that are not in use.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Published is the result for one event.
type Published struct {
	ID        string `json:"id"`
	Duplicate bool   `json:"duplicate"`
}

// Publish publishes body, which is one event or an array of them.
func (c *Client) Publish(ctx context.Context, body []byte) ([]Published, error) {
	var answer struct {
		Events []Published `json:"events"`
	}
	err := c.Call(ctx, http.MethodPost, "/v1/events", body, &answer)
	if err == nil && len(answer.Events) == 0 {
		err = c.stranger("it has no events")
	}
	return answer.Events, err
}

// Webhook is a registration.
type Webhook struct {
	ID                   string             `json:"id,omitempty"`
	URL                  string             `json:"url,omitempty"`
	Events               []domain.EventType `json:"events,omitempty"`
	Description          string             `json:"description,omitempty"`
	Secret               string             `json:"secret,omitempty"`
	Headers              map[string]string  `json:"headers,omitempty"`
	RetryScheduleSeconds []float64          `json:"retryScheduleSeconds,omitzero"`
	TimeoutSeconds       float64            `json:"timeoutSeconds,omitempty"`
	MaxInFlight          int                `json:"maxInFlight,omitempty"`
	RatePerSecond        *float64           `json:"ratePerSecond,omitempty"`
	Active               *bool              `json:"active,omitempty"`
	DisabledReason       *string            `json:"disabledReason,omitempty"`
	Delivery             string             `json:"delivery,omitempty"`
	Ordering             string             `json:"ordering,omitempty"`
}

// Register registers a webhook and returns it with its id and secret.
func (c *Client) Register(ctx context.Context, w Webhook) (Webhook, error) {
	var made Webhook
	err := c.Call(ctx, http.MethodPost, "/v1/webhooks", w, &made)
	if err == nil && made.ID == "" {
		err = c.stranger("it has no webhook")
	}
	return made, err
}

// Webhooks lists the webhooks of the account, without their secrets.
func (c *Client) Webhooks(ctx context.Context) ([]Webhook, error) {
	var all []Webhook
	for {
		var page []Webhook
		path := fmt.Sprintf("/v1/webhooks?limit=%d&offset=%d", pageSize, len(all))
		if err := c.Call(ctx, http.MethodGet, path, nil, &page); err != nil {
			return nil, err
		}
		if all = append(all, page...); len(page) == 0 {
			return all, nil
		}
	}
}

// Update changes the events of a webhook, and makes it active.
func (c *Client) Update(ctx context.Context, id string, events []domain.EventType) (Webhook, error) {
	var changed Webhook
	err := c.Call(ctx, http.MethodPatch, "/v1/webhooks/"+url.PathEscape(id), map[string]any{"events": events, "active": true}, &changed)
	return changed, err
}

// Rotate gives a webhook a new signing secret. For the overlap, callbacks carry the
// signature of the former one too.
func (c *Client) Rotate(ctx context.Context, id string, overlap time.Duration) (domain.Secret, error) {
	body := map[string]int{"overlapSeconds": int(overlap.Seconds())}
	var answer struct {
		Secret string `json:"secret"`
	}
	err := c.Call(ctx, http.MethodPost, "/v1/webhooks/"+url.PathEscape(id)+"/rotate-secret", body, &answer)
	if err == nil && answer.Secret == "" {
		err = c.stranger("it has no secret")
	}
	return domain.Secret(answer.Secret), err
}

// Delete deletes a webhook.
func (c *Client) Delete(ctx context.Context, id string) error {
	return c.Call(ctx, http.MethodDelete, "/v1/webhooks/"+url.PathEscape(id), nil, nil)
}

// Delivery is a line of the delivery log. Only Delivery has its attempts.
type Delivery struct {
	ID            string        `json:"id"`
	WebhookID     string        `json:"webhookId"`
	EventID       string        `json:"eventId"`
	Status        domain.Status `json:"status"`
	Reason        *string       `json:"reason"`
	Sequence      int64         `json:"sequence"`
	Test          bool          `json:"test"`
	AttemptCount  int           `json:"attemptCount"`
	NextAttemptAt time.Time     `json:"nextAttemptAt"`
	Attempts      []Attempt     `json:"attempts"`
}

// Attempt is one POST to a receiver.
type Attempt struct {
	Number       int    `json:"number"`
	DurationMS   int    `json:"durationMs"`
	Status       int    `json:"status"`
	Error        string `json:"error"`
	ResponseBody string `json:"responseBody"`
}

// Deliveries returns a page of the deliveries that the query selects, newest first, and the cursor
// of the next page; empty: this is the last one.
func (c *Client) Deliveries(ctx context.Context, query url.Values) (page []Delivery, next string, err error) {
	var answer struct {
		Data       []Delivery `json:"data"`
		NextCursor string     `json:"nextCursor"`
	}
	err = c.Call(ctx, http.MethodGet, "/v1/deliveries?"+query.Encode(), nil, &answer)
	return answer.Data, answer.NextCursor, err
}

// Delivery returns a delivery with its attempts.
func (c *Client) Delivery(ctx context.Context, id string) (Delivery, error) {
	var delivery Delivery
	err := c.Call(ctx, http.MethodGet, "/v1/deliveries/"+url.PathEscape(id), nil, &delivery)
	return delivery, err
}

// Account returns the account that the key works in.
func (c *Client) Account(ctx context.Context) (string, error) {
	var answer struct {
		Account string `json:"account"`
	}
	err := c.Call(ctx, http.MethodGet, "/v1/who-am-i", nil, &answer)
	if err == nil && answer.Account == "" {
		err = c.stranger("it has no account")
	}
	return answer.Account, err
}

// Call sends in, unless it is nil: bytes as they are, anything else as JSON. Call reads the answer
// into result, unless that is nil.
func (c *Client) Call(ctx context.Context, method, path string, in, result any) error {
	body, ok := in.([]byte)
	if !ok && in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
	}
	answer, err := c.Do(ctx, method, path, body)
	if err != nil || result == nil {
		return err
	}
	if err := json.Unmarshal(answer, result); err != nil {
		return c.stranger("it has an unexpected form")
	}
	return nil
}

// stranger returns the error for an answer that does not come from Waybill.
func (c *Client) stranger(why string) error {
	return fmt.Errorf("read answer: the server at %s is not Waybill, or a proxy in between answered: %s", c.base, why)
}

// Do sends body, unless it is nil, and returns the body of a successful answer: JSON, or nothing
// at all. A refusal is returned as a *Problem. Any other answer does not come from Waybill. path
// begins with / and may have a query.
func (c *Client) Do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	answer, err := c.Ask(ctx, method, path, body, nil)
	if err != nil {
		return nil, err
	}
	return c.judge(answer)
}

// Answer is any answer of a server.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Ask sends body, unless it is nil, with additional headers, and returns the answer as it arrived.
func (c *Client) Ask(ctx context.Context, method, path string, body []byte, header http.Header) (Answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return Answer{}, fmt.Errorf("make request: %w", err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	maps.Copy(request.Header, header)
	answer, err := c.send(c.http, request)
	if err == nil && c.See != nil {
		c.See(method, path, answer)
	}
	return answer, err
}

// send sends a request with the key, by a client that follows no redirects.
func (c *Client) send(sender *http.Client, request *http.Request) (Answer, error) {
	request.Header.Set("User-Agent", "waybill") // for the audit log
	if c.Key != "" {
		request.Header.Set("Authorization", "Bearer "+c.Key.Reveal())
	}
	response, err := sender.Do(request)
	if err != nil {
		err = NoAnswer(c.base, err)
		if c.Hint != "" {
			err = fmt.Errorf("%w\n  %s", err, c.Hint)
		}
		return Answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("it is larger than %d MiB", maxAnswer>>20)
	}
	if err != nil {
		return Answer{}, fmt.Errorf("read answer of %s: %w", c.base, err)
	}
	return Answer{Status: response.StatusCode, Header: response.Header, Body: body}, nil
}

// judge distinguishes successful answers, problems, and answers that don't come from Waybill.
func (c *Client) judge(a Answer) ([]byte, error) {
	if to := a.Header.Get("Location"); a.Status >= http.StatusMultipleChoices && a.Status < http.StatusBadRequest {
		return nil, fmt.Errorf("%s answers with a redirect to %s, where the key is not sent: name the installation itself with --server", c.base, terminal.Clean(to))
	}
	if a.Status >= http.StatusBadRequest {
		if problem := c.problemOf(a); problem != nil {
			return nil, problem
		}
		return nil, c.stranger(fmt.Sprintf("%d with %s, which is no problem document", a.Status, kindOf(a.Header)))
	}
	if len(bytes.TrimSpace(a.Body)) > 0 && !isTree(a.Body) {
		return nil, c.stranger(fmt.Sprintf("%d with %s, which is neither an object nor a list in JSON", a.Status, kindOf(a.Header)))
	}
	return a.Body, nil
}

func isTree(text []byte) bool {
	text = bytes.TrimSpace(text)
	return json.Valid(text) && (text[0] == '{' || text[0] == '[')
}

func kindOf(header http.Header) string {
	if kind := header.Get("Content-Type"); kind != "" {
		return terminal.Clean(kind)
	}
	return "a body without a content type"
}
