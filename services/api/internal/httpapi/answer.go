package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"

	"waybill.dev/services/api/internal/auth"
	"waybill.dev/services/api/internal/edge"
	"waybill.dev/services/api/internal/problem"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

const contentJSON = "application/json; charset=utf-8"

// retryAfter is what callers are told to wait while the store is away.
const retryAfter = 2 * time.Second

// The problems that have nothing to tell but their kind. They are never changed.
var (
	errNoRoute         = problem.New(problem.NotFound, "There is nothing at this path.")
	errNoAccount       = problem.New(problem.NotFound, "There is no such account.")
	errNoMethod        = problem.New(problem.MethodNotAllowed, "This resource does not know the method; see Allow.")
	errUnauthenticated = problem.New(problem.Unauthenticated, "A valid API key is required, as Authorization: Bearer or X-API-Key.")
	errForbidden       = problem.New(problem.Forbidden, "The key lacks the permission for this.")
	errInternal        = problem.New(problem.Internal, "Something went wrong on our side.")
)

func tooMany(wait time.Duration, detail string) *problem.Problem {
	p := problem.New(problem.RateLimited, detail)
	p.RetryAfter = wait
	return p
}

func unavailable(detail string) *problem.Problem {
	p := problem.New(problem.Unavailable, detail)
	p.RetryAfter = retryAfter
	return p
}

// fail answers with the problem that err stands for. What no caller can do anything about
// is logged, and answered with 500.
func (s *server) fail(c *gin.Context, err error) {
	p := toProblem(err)
	if p.Code == problem.NotFound && errors.Is(err, domain.ErrNotFound) {
		p = missing(s.template(c))
	}
	if p.Code == problem.Internal && !errors.Is(err, errInternal) {
		s.Logger.Error("request failed", "error", err, "route", s.template(c), "requestId", c.GetString(keyRequestID))
	}
	if p.Code == problem.Unavailable && c.Request.Context().Err() == nil {
		s.Logger.Debug("request could not be served", "error", err, "route", s.template(c), "requestId", c.GetString(keyRequestID))
	}
	c.Abort()
	p.Write(c.Writer, c.Request, c.GetString(keyRequestID))
	c.Writer.WriteHeaderNow() // else the answer to HEAD gets gin's own text
}

// missing is the answer for what a route has not found, and for what belongs to another
// account. It names the kind of thing that the route's path ends at.
func missing(template string) *problem.Problem {
	name := template[strings.LastIndexByte(template, '{')+1:]
	name, _, _ = strings.Cut(name, "}")
	kind := "resource"
	switch name {
	case "accountName", "bucketName", "consumerName", "projectName":
		kind = strings.TrimSuffix(name, "Name")
	case "keyId", "managerId":
		kind = strings.TrimSuffix(name, "Id")
	case "id": // of /v1/webhooks/{id}, events, deliveries
		if family := strings.Split(template, "/")[2]; family == "deliveries" {
			kind = "delivery"
		} else {
			kind = strings.TrimSuffix(family, "s")
		}
	}
	return problem.New(problem.NotFound, "There is no such "+kind+".")
}

func toProblem(err error) *problem.Problem {
	var p *problem.Problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, domain.ErrNotFound):
		return problem.Missing()
	case errors.Is(err, domain.ErrConflict):
		return problem.New(problem.Conflict, "The request is at odds with the state of the resource.")
	case errors.Is(err, domain.ErrUnreadable):
		return problem.New(problem.Conflict, "The webhook can't be read, so it can't be changed. Its fault says why.")
	case errors.Is(err, domain.ErrLimit):
		return problem.New(problem.Conflict, "The limit is reached.")
	case errors.Is(err, auth.ErrUnauthenticated):
		return errUnauthenticated
	case errors.Is(err, domain.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return unavailable("The store can't be reached now. Try again, with the same ids.")
	}
	return errInternal
}

// answer writes value as JSON.
func (c *call) answer(status int, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	c.send(status, body)
	return nil
}

func (c *call) send(status int, body []byte) {
	c.Header("Content-Length", strconv.Itoa(len(body)))
	c.Data(status, contentJSON, body)
}

// repeat sends a stored answer once more.
func (c *call) repeat(stored *store.StoredResponse) error {
	c.send(stored.Status, stored.Body)
	return nil
}

// link returns the URL of a path of ours.
func (c *call) link(path string) string { return edge.Of(c.Request).Base + path }

func (c *call) noContent() error {
	c.Status(http.StatusNoContent)
	c.Writer.WriteHeaderNow()
	return nil
}

// stamp writes a time as all answers have it; nil for none.
func stamp(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	return &text
}

// optional is nil for empty text, which is then written as null.
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
