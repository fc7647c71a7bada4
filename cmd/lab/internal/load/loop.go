package load

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"waybill.dev/shared/domain"
)

// Bare is what a bare loop does: it signs events and posts them to an endpoint, with
// net/http's client, without a queue and without a store. No server that delivers
// signed events with net/http on this machine can be faster.
type Bare struct {
	URL     string        `json:"url"`
	Secret  string        `json:"secret"`
	Workers int           `json:"workers"`
	First   int64         `json:"first"`
	Events  int           `json:"events"`
	For     time.Duration `json:"for"`
	Size    int           `json:"size"`
}

// Loop has a bare loop run to its end.
func (c *Child) Loop(b Bare) (Published, error) {
	var p Published
	err := c.call(b, &p)
	return p, err
}

func loop(ctx context.Context, b Bare) (Published, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(b.Secret, "whsec_"))
	if err != nil {
		return Published{}, fmt.Errorf("read the secret: %w", err)
	}
	w := &work{
		Job:      Job{First: b.First, Events: b.Events, For: b.For},
		template: newTemplate(domain.ShipmentInTransit, b.Size),
	}
	transport := &http.Transport{MaxIdleConnsPerHost: b.Workers, DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	w.source = newSource(w.Job)
	err = each(b.Workers, func(int) error {
		var body []byte
		for {
			offset, count, due := w.source.take(ctx, 1)
			if count == 0 {
				return nil
			}
			body = w.template.append(body[:0], b.First+offset, due)
			status, err := post(ctx, client, b.URL, key, eventID(b.First+offset), body)
			if err != nil {
				return err
			}
			if status != http.StatusOK {
				w.refused.Add(1)
				w.faults.add("the receiver answers %d", status)
				continue
			}
			w.accepted.Add(1)
			w.latency.Add(time.Since(due))
		}
	})
	if err != nil {
		return Published{}, err
	}
	return w.published(), nil
}

// post sends one signed callback.
func post(ctx context.Context, client *http.Client, url string, key []byte, id string, body []byte) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("make request: %w", err)
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, key)
	_, _ = io.WriteString(mac, id+"."+at+".")
	_, _ = mac.Write(body)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Webhook-Id", id)
	request.Header.Set("Webhook-Timestamp", at)
	request.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	response, err := client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("post: %w", err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return 0, fmt.Errorf("read the answer: %w", err)
	}
	return response.StatusCode, nil
}
