package web

import (
	"context"
	"errors"
	"fmt"
	"time"

	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/problem"
	"waybill.dev/shared/store"
)

// retryAfter is the wait that callers are told while the store is away.
const retryAfter = 2 * time.Second

// The problems without details. They are never changed.
var (
	errNoRoute   = problem.New(problem.NotFound, "There is nothing at this path.")
	errNoAccount = problem.New(problem.NotFound, "There is no such account.")
	errNoMethod  = problem.New(problem.MethodNotAllowed, "This resource does not know the method; see Allow.")
	errInternal  = problem.New(problem.Internal, "Something went wrong on our side.")
)

// Conflict returns the problem of a request that conflicts with the present state.
func Conflict(detail string) error { return problem.New(problem.Conflict, detail) }

// ReadByPull is the reason why a webhook with delivery pull gets no test and no replay.
const ReadByPull = "The webhook is read by pull: nothing is sent to it. Its feed has its events."

// Taken turns the error for a name in use into a problem. It returns other errors unchanged.
func Taken(err error, detail string) error {
	if errors.Is(err, domain.ErrConflict) {
		return Conflict(detail)
	}
	return err
}

// KeyReused turns the error for an idempotency key that was used with another body into a problem.
// It returns other errors unchanged.
func KeyReused(err error) error { return Taken(err, "The idempotency key was used with another body.") }

// CursorFault turns the error for a cursor that the store did not make into a fault. It returns
// other errors unchanged.
func CursorFault(err error) error {
	if errors.Is(err, store.ErrCursor) {
		return problem.Invalid(problem.Fault{Parameter: "cursor", Detail: BadCursor})
	}
	return err
}

// BadCursor is the fault of a cursor that does not come from the list.
const BadCursor = "is not a cursor of this list"

// Unavailable returns the problem for a request that can't be served now.
func Unavailable(detail string) *problem.Problem {
	p := problem.New(problem.Unavailable, detail)
	p.RetryAfter = retryAfter
	return p
}

// TooMany refuses a request, and says when it may be tried again.
func TooMany(wait time.Duration, detail string) *problem.Problem {
	p := problem.New(problem.RateLimited, detail)
	p.RetryAfter = wait
	return p
}

// lacks returns the problem for a caller without the rights for the route.
func (c *Call) lacks() error {
	r := c.route
	required, takes := []domain.Scope{r.Scope}, string(r.Scope)
	if r.Or != "" {
		required, takes = append(required, r.Or), takes+" or "+string(r.Or)
	}
	if r.And != "" {
		required, takes = append(required, r.And), takes+" and "+string(r.And)
	}
	return problem.Lacking(takes, problem.Scopes{Required: required, Granted: c.Principal.Scopes})
}

// BootstrapOnly refuses all keys but the bootstrap key.
func (c *Call) BootstrapOnly() {
	if !c.Bootstrap() {
		c.Refuse(problem.Lacking("the bootstrap key", problem.Scopes{Granted: c.Principal.Scopes}))
	}
}

// refusal reports whether err says for certain that nothing was changed.
func refusal(err error) bool {
	var p *problem.Problem
	return errors.Is(err, domain.ErrNotFound) || errors.Is(err, domain.ErrConflict) || errors.As(err, &p)
}

// fail answers with the problem for err. An error that no caller can fix is logged, and answered
// with 500.
func (c *Call) fail(err error) {
	p := toProblem(err)
	if p.Code == problem.NotFound && c.route != nil && errors.Is(err, domain.ErrNotFound) {
		p = c.route.missing
	}
	if p.Code == problem.Internal && !errors.Is(err, errInternal) {
		c.kernel.Logger.Error("request failed", "error", err, "route", c.template, "requestId", c.id)
	}
	if p.Code == problem.Unavailable && c.Request.Context().Err() == nil {
		c.kernel.Logger.Debug("request could not be served", "error", err, "route", c.template, "requestId", c.id)
	}
	p.Write(c.Writer, c.Request, c.id)
	c.gin.Writer.WriteHeaderNow() // otherwise gin adds its own text to the answer to HEAD
}

func toProblem(err error) *problem.Problem {
	var p *problem.Problem
	var limit *domain.LimitError
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, domain.ErrNotFound):
		return problem.Missing()
	case errors.Is(err, domain.ErrConflict):
		return problem.New(problem.Conflict, "The request is at odds with the state of the resource.")
	case errors.Is(err, domain.ErrUnreadable):
		return problem.New(problem.Conflict, "The webhook can't be read, so it can't be changed. Its fault says why.")
	case errors.As(err, &limit):
		return problem.New(problem.Conflict, fmt.Sprintf("The account would have %d %s. It may have %d (%s).", limit.Count, limit.What, limit.Most, limit.Setting))
	case errors.Is(err, domain.ErrLimit):
		return problem.New(problem.Conflict, "The limit is reached.")
	case errors.Is(err, apikey.ErrUnauthenticated):
		return problem.KeyRequired()
	case errors.Is(err, domain.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return Unavailable("The store can't be reached now. Try again, with the same ids.")
	}
	return errInternal
}
