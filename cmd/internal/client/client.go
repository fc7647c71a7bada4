// Package client calls Waybill's REST API for the command line.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"waybill.dev/shared/domain"
)

const (
	timeout   = 30 * time.Second
	maxAnswer = 64 << 20
	// connections is how many requests the busiest command has open at once.
	connections = 32
)

// Client calls one installation.
type Client struct {
	base string
	key  domain.Secret
	http *http.Client
}

// New returns a client of the installation at base, such as http://127.0.0.1:8080.
func New(base string, key domain.Secret) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the installation's URL must be like http://127.0.0.1:8080")
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: connections, IdleConnTimeout: time.Minute}
	return &Client{
		base: strings.TrimSuffix(base, "/"), key: key,
		http: &http.Client{Transport: transport, Timeout: timeout},
	}, nil
}

// Close closes the connections that are not in use.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Published is what became of one event.
type Published struct {
	ID        string `json:"id"`
	Duplicate bool   `json:"duplicate"`
}

// Publish publishes body, which is one event or an array of them.
func (c *Client) Publish(ctx context.Context, body []byte) ([]Published, error) {
	var answer struct {
		Events []Published `json:"events"`
	}
	err := c.call(ctx, http.MethodPost, "/v1/events", body, &answer)
	return answer.Events, err
}

// Webhook is a registration.
type Webhook struct {
	ID                   string             `json:"id,omitempty"`
	URL                  string             `json:"url"`
	Events               []domain.EventType `json:"events"`
	Description          string             `json:"description,omitempty"`
	Secret               string             `json:"secret,omitempty"`
	RetryScheduleSeconds []float64          `json:"retryScheduleSeconds,omitempty"`
}

// Register registers a webhook and returns it with its id and secret.
func (c *Client) Register(ctx context.Context, w Webhook) (Webhook, error) {
	body, err := json.Marshal(w)
	if err != nil {
		return Webhook{}, fmt.Errorf("encode webhook: %w", err)
	}
	var made Webhook
	err = c.call(ctx, http.MethodPost, "/v1/webhooks", body, &made)
	return made, err
}

// Delete deletes a webhook.
func (c *Client) Delete(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/v1/webhooks/"+url.PathEscape(id), nil, nil)
}

// Delivery is a line of the delivery log.
type Delivery struct {
	ID       string        `json:"id"`
	EventID  string        `json:"eventId"`
	Status   domain.Status `json:"status"`
	Attempts int           `json:"attemptCount"`
}

// Deliveries lists the newest deliveries to a webhook.
func (c *Client) Deliveries(ctx context.Context, webhook string) ([]Delivery, error) {
	var answer struct {
		Data []Delivery `json:"data"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/deliveries?webhookId="+url.QueryEscape(webhook), nil, &answer)
	return answer.Data, err
}

// Account returns the account that the key works in.
func (c *Client) Account(ctx context.Context) (string, error) {
	var answer struct {
		Account string `json:"account"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/who-am-i", nil, &answer)
	return answer.Account, err
}

// call sends body, unless it is nil, and reads the answer into result, unless that is nil.
func (c *Client) call(ctx context.Context, method, path string, body []byte, result any) error {
	answer, err := c.Do(ctx, method, path, body)
	if err != nil || result == nil {
		return err
	}
	if err := json.Unmarshal(answer, result); err != nil {
		return fmt.Errorf("read answer of %s: %w", c.base, err)
	}
	return nil
}

// Do sends body, unless it is nil, and returns the body of a good answer; any other answer
// is a *Problem. path begins with / and may have a query.
func (c *Client) Do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	request.Header.Set("User-Agent", "waybill") // for the audit log
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key.Reveal())
	}
	response, err := c.http.Do(request)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err
		}
		return nil, fmt.Errorf("no answer from %s: %w", c.base, err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err == nil && len(answer) > maxAnswer {
		err = fmt.Errorf("it is larger than %d MiB", maxAnswer>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("read answer of %s: %w", c.base, err)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return nil, problemOf(response, answer)
	}
	return answer, nil
}
