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
	maxAnswer = 16 << 20
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

// Problem is an answer that refuses.
type Problem struct {
	Status int    `json:"status"`
	Code   string `json:"code"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
	Errors []struct {
		Pointer   string `json:"pointer"`
		Parameter string `json:"parameter"`
		Detail    string `json:"detail"`
	} `json:"errors"`
}

func (p *Problem) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the API answers %d", p.Status)
	if p.Code != "" {
		fmt.Fprintf(&b, " %s", p.Code)
	}
	if p.Detail != "" {
		fmt.Fprintf(&b, ": %s", p.Detail)
	}
	for _, e := range p.Errors {
		at := e.Pointer + e.Parameter
		if at == "" {
			at = "body"
		}
		fmt.Fprintf(&b, "\n  %s: %s", at, e.Detail)
	}
	if p.Status == http.StatusUnauthorized {
		b.WriteString("\n  Give the API key with --key or WAYBILL_KEY, or the data directory of `waybill dev` with --data.")
	}
	return b.String()
}

// call sends body, unless it is nil, and reads the answer into result, unless that is nil.
func (c *Client) call(ctx context.Context, method, path string, body []byte, result any) error {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key.Reveal())
	}
	response, err := c.http.Do(request)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err
		}
		return fmt.Errorf("no answer from %s: %w", c.base, err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read answer of %s: %w", c.base, err)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		problem := &Problem{}
		_ = json.Unmarshal(answer, problem) // what is no problem document has its status alone
		problem.Status = response.StatusCode
		return problem
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(answer, result); err != nil {
		return fmt.Errorf("read answer of %s: %w", c.base, err)
	}
	return nil
}
