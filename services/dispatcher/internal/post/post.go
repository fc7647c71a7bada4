package post

import (
	"context"
	"maps"
	"net/http"
	"strconv"

	"waybill.dev/services/dispatcher/internal/deliver"
	"waybill.dev/shared/egress"
)

// Client posts safely whatever the receiver does.
type Client interface {
	Post(ctx context.Context, request *egress.Request) egress.Response
}

// Poster makes callbacks.
type Poster struct{ client Client }

// New returns a poster.
func New(client Client) *Poster { return &Poster{client: client} }

// Post implements deliver.Poster. The client checks the URL again before it is used.
func (p *Poster) Post(ctx context.Context, r *deliver.Request) deliver.Response {
	prepared, ok := r.Config.Prepared.(*Prepared)
	if !ok || prepared.current == nil {
		return deliver.Response{Failure: string(egress.CodeURL), Error: egress.CodeURL.Text()}
	}
	response := p.client.Post(ctx, &egress.Request{URL: r.Config.URL, Header: p.header(prepared, r), Body: r.Body})
	result := deliver.Response{Status: response.Status, RetryAfter: response.RetryAfter, Body: response.Body}
	if response.Status == 0 {
		result.Failure, result.Error = string(response.Code), response.Code.Text()
	}
	return result
}

// header returns the headers of a callback: the webhook's own first, ours over them.
// Standard Webhooks' names are set in lower case, as its specification writes them.
func (p *Poster) header(prepared *Prepared, r *deliver.Request) http.Header {
	h := make(http.Header, len(prepared.headers)+8)
	maps.Copy(h, prepared.headers)
	h["Content-Type"] = []string{"application/json"}
	h["User-Agent"] = []string{r.UserAgent}
	h["webhook-id"] = []string{r.ID}
	h["webhook-timestamp"] = []string{strconv.FormatInt(r.At.Unix(), 10)}
	h["webhook-signature"] = []string{prepared.signer(r.At).Sign(r.ID, r.At, r.Body)}
	h["Waybill-Delivery-Id"] = []string{string(r.Delivery)}
	h["Waybill-Attempt"] = []string{r.AttemptHeader()}
	if r.TraceParent != "" {
		h["traceparent"] = []string{r.TraceParent}
	}
	return h
}
