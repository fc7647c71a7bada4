package post

import (
	"context"
	"strconv"

	"waybill.dev/services/dispatcher/internal/deliver"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/transcript"
)

// Client sends a POST and stays within its limits whatever the receiver does.
type Client interface {
	Post(ctx context.Context, request *egress.Request) egress.Response
}

// Poster makes callbacks.
type Poster struct{ client Client }

// New returns a poster.
func New(client Client) *Poster { return &Poster{client: client} }

// Post implements deliver.Poster. The client checks the URL again before it is used.
func (p *Poster) Post(ctx context.Context, r *deliver.Request) deliver.Response {
	prepared, ok := r.Config.Preparation.(*CallbackParts)
	if !ok || prepared.current == nil {
		return deliver.Response{Class: domain.ClassRefused, Failure: string(egress.CodeURL), Error: egress.CodeURL.Text()}
	}
	signer := prepared
	if r.WrongSecret {
		var err error
		if signer, err = prepared.withUnknownKeys(); err != nil {
			return deliver.Response{Class: domain.ClassRefused, Error: err.Error()}
		}
	}
	signature := signer.sign(r.ID, r.At, r.Body)
	request := &egress.Request{URL: r.Config.URL, Header: p.header(prepared, r, signature), Body: r.Body, Timeout: r.Config.Timeout}
	var response egress.Response
	var unauthenticated error
	if prepared.auth == nil {
		response = p.client.Post(ctx, request)
	} else {
		response, unauthenticated = p.exchange(ctx, prepared.auth, request, r.UserAgent)
	}
	result := deliver.Response{
		Status: response.Status, Class: domain.ClassOf(response.Status), RetryAfter: response.RetryAfter, Body: response.Body,
		CertificateExpires: response.CertificateExpires,
	}
	result.Transcript = transcript.Encode(&transcript.SentRequest{
		URL: r.Config.URL, UserAgent: r.UserAgent, Signature: signature, TraceParent: r.TraceParent,
		Own: prepared.names, BodySize: len(r.Body),
	}, &transcript.Got{Remote: response.Remote, Header: response.Header, Truncated: response.Truncated, Phases: response.Phases})
	switch {
	case unauthenticated != nil:
		result.Status, result.Class = 0, domain.ClassAuth
		result.Failure, result.Error = string(domain.ClassAuth), unauthenticated.Error()
	case response.Status == 0:
		result.Class = response.Code.Class()
		result.Failure, result.Error = string(response.Code), response.Err.Text()
	}
	return result
}

// header returns the headers of a callback: first Waybill's, then the webhook's own, which can't
// have the name of one of Waybill's.
func (p *Poster) header(prepared *CallbackParts, r *deliver.Request, signature string) []egress.Field {
	h := make([]egress.Field, 0, 8+len(prepared.headers))
	h = egress.Callback{
		UserAgent: r.UserAgent, ID: r.ID, At: r.At, Signature: signature, Delivery: string(r.Delivery), Attempt: r.Attempt,
	}.AppendTo(h)
	if r.TraceParent != "" {
		h = append(h, egress.Field{Name: "traceparent", Value: r.TraceParent})
	}
	if r.Sequence > 0 {
		h = append(h, egress.Field{Name: "Waybill-Sequence", Value: strconv.FormatInt(r.Sequence, 10)})
	}
	if r.Gap {
		h = append(h, egress.Field{Name: "Waybill-Gap", Value: "1"})
	}
	if r.Replayed {
		h = append(h, egress.Field{Name: "Waybill-Replayed", Value: "1"})
	}
	return append(h, prepared.headers...)
}
