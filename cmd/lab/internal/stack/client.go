package stack

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/shared/domain"
)

// Client calls a stack's API as a customer would.
type Client struct{ *client.Client }

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
	c, err := client.New(client.Access{URL: base, Key: domain.Secret(s.Key)})
	if err != nil {
		panic(err) // the stack itself has made the URL
	}
	return &Client{c}
}

// As returns a client like this one with another key; empty: it sends none.
func (c *Client) As(key string) *Client {
	other := *c.Client
	other.Key = domain.Secret(key)
	return &Client{&other}
}

// Rejected is a message on the bus that was not a valid event.
type Rejected struct {
	Subject string
	Time    time.Time
	Reason  string
	Body    string
}

// NewAccount makes an account. NewAccount returns a client for the account with its key, and the key.
func (c *Client) NewAccount(ctx context.Context, name string) (*Client, string, error) {
	var made struct {
		Key string `json:"key"`
	}
	err := c.Call(ctx, http.MethodPost, "/v1/accounts", map[string]string{"name": name}, &made)
	return c.As(made.Key), made.Key, err
}

// Webhook returns a webhook.
func (c *Client) Webhook(ctx context.Context, id string) (client.Webhook, error) {
	var w client.Webhook
	err := c.Call(ctx, http.MethodGet, "/v1/webhooks/"+id, nil, &w)
	return w, err
}

// SetActive makes a webhook active or inactive.
func (c *Client) SetActive(ctx context.Context, id string, active bool) error {
	return c.Call(ctx, http.MethodPatch, "/v1/webhooks/"+id, map[string]bool{"active": active}, nil)
}

// Test sends a sample event to a webhook.
func (c *Client) Test(ctx context.Context, id string) (delivery string, err error) {
	var out struct{ DeliveryID string }
	err = c.Call(ctx, http.MethodPost, "/v1/webhooks/"+id+"/test", nil, &out)
	return out.DeliveryID, err
}

// Replay sends deliveries since then again; an empty status takes the undelivered ones.
func (c *Client) Replay(ctx context.Context, id string, since time.Time, status string) (matched int, err error) {
	in := map[string]string{"since": since.UTC().Format(time.RFC3339Nano)}
	if status != "" {
		in["status"] = status
	}
	var out struct{ Matched int }
	err = c.Call(ctx, http.MethodPost, "/v1/webhooks/"+id+"/replay", in, &out)
	return out.Matched, err
}

// Retry sends a delivery again.
func (c *Client) Retry(ctx context.Context, delivery string) error {
	return c.Call(ctx, http.MethodPost, "/v1/deliveries/"+delivery+"/retry", nil, nil)
}

// Deliveries calls visit with every delivery that the filter selects, newest first.
func (c *Client) Deliveries(ctx context.Context, filter url.Values, visit func(client.Delivery)) error {
	query := url.Values{"limit": {"1000"}}
	maps.Copy(query, filter)
	for {
		page, next, err := c.Client.Deliveries(ctx, query)
		if err != nil {
			return err
		}
		for _, d := range page {
			visit(d)
		}
		if next == "" {
			return nil
		}
		query.Set("cursor", next)
	}
}

// DeliveryOf returns the delivery of an event to a webhook; ok is false while there is none.
func (c *Client) DeliveryOf(ctx context.Context, webhook, event string) (found client.Delivery, ok bool, err error) {
	err = c.Deliveries(ctx, url.Values{"webhookId": {webhook}, "eventId": {event}}, func(d client.Delivery) { found, ok = d, true })
	if err != nil || !ok {
		return client.Delivery{}, false, err
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
	err := c.Call(ctx, http.MethodGet, "/v1/webhooks/"+webhook+"/feed?"+query.Encode(), nil, &page)
	return page, err
}

// SetCursor keeps a cursor of a webhook's feed under a name.
func (c *Client) SetCursor(ctx context.Context, webhook, name, cursor string) error {
	return c.Call(ctx, http.MethodPut, "/v1/webhooks/"+webhook+"/cursors/"+name, map[string]string{"cursor": cursor}, nil)
}

// Cursor returns the cursor that is kept under a name; empty: none is.
func (c *Client) Cursor(ctx context.Context, webhook, name string) (string, error) {
	var kept struct{ Cursor string }
	err := c.Call(ctx, http.MethodGet, "/v1/webhooks/"+webhook+"/cursors/"+name, nil, &kept)
	if client.IsStatus(err, http.StatusNotFound) {
		return "", nil
	}
	return kept.Cursor, err
}

// HasEvent reports whether the API knows an event.
func (c *Client) HasEvent(ctx context.Context, id string) (bool, error) {
	err := c.Call(ctx, http.MethodGet, "/v1/events/"+id, nil, nil)
	if client.IsStatus(err, http.StatusNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Rejected returns the newest messages on the bus that were not valid events.
func (c *Client) Rejected(ctx context.Context, limit int) ([]Rejected, error) {
	var page struct{ Data []Rejected }
	err := c.Call(ctx, http.MethodGet, "/v1/rejected?limit="+strconv.Itoa(limit), nil, &page)
	return page.Data, err
}

// Await asks done every 10 ms until it returns true; it fails when ctx is done first or
// done fails.
func Await(ctx context.Context, done func() (bool, error)) error { return Poll(ctx, pollEvery, done) }

// Poll asks done at once and then regularly until it is true or fails.
func Poll(ctx context.Context, every time.Duration, done func() (bool, error)) error {
	ticker := time.NewTicker(every)
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
