package site

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"

	"waybill.dev/services/gateway/internal/route"
)

// Function is a handler that a program registers. It returns a *route.Response or another value. A
// string is answered as text, any other value as JSON.
type Function func(ctx context.Context, r *route.Request) (any, error)

// Handle implements route.Handler.
func (f Function) Handle(ctx context.Context, r *route.Request) (*route.Response, error) {
	value, err := f(ctx, r)
	if err != nil {
		return nil, err
	}
	switch value := value.(type) {
	case *route.Response:
		return value, nil
	case string:
		return &route.Response{Status: http.StatusOK, Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, Body: []byte(value)}, nil
	}
	body, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode what a module's handler has returned: %w", err)
	}
	return &route.Response{Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}, nil
}

// prompt answers at the deadline even when the handler ignores its context. The handler then goes
// on with its own copy of the request, and its result is dropped.
type prompt struct{ route.Handler }

type outcome struct {
	response *route.Response
	err      error
}

// Handle implements route.Handler.
func (p prompt) Handle(ctx context.Context, r *route.Request) (*route.Response, error) {
	done := make(chan outcome, 1)
	own := *r
	go func() {
		defer func() {
			if value := recover(); value != nil {
				done <- outcome{err: caught(value)}
			}
		}()
		response, err := p.Handler.Handle(ctx, &own)
		done <- outcome{response, err}
	}()
	select {
	case o := <-done:
		return o.response, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
