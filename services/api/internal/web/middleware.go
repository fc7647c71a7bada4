package web

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/gin-gonic/gin"

	"waybill.dev/shared/edge"
	"waybill.dev/shared/requestid"
)

const (
	keyRequestID = "waybill.requestID"
	keyTemplate  = "waybill.template" // of a gateway route, or noTemplate
	noTemplate   = "none"
)

// identify gives each request an id: the caller's own when it is 1 to 128 visible ASCII
// characters, else a fresh one. It also finds out how the request is seen from outside, and
// sets what every answer carries.
func (s *server) identify(c *gin.Context) {
	id := requestid.Of(c.Request.Header)
	c.Set(keyRequestID, id)
	header := c.Writer.Header()
	header.Set(requestid.Header, id)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	if s.Edge != nil && !s.Edge.Plain() && !edge.Known(c.Request.Context()) {
		c.Request = c.Request.WithContext(edge.With(c.Request.Context(), s.Edge.See(c.Request)))
	}
	c.Next()
}

// observe counts the request by its route, never by its path.
func (s *server) observe(c *gin.Context) {
	started := time.Now()
	c.Next()
	template := s.template(c)
	took, status := time.Since(started), c.Writer.Status()
	s.metrics.request(c.Request.Method, template, status, took)
	s.Logger.Debug("request", "method", c.Request.Method, "route", template, "status", status,
		"duration", took, "requestId", c.GetString(keyRequestID))
}

// recover answers a panic with a problem that tells nothing of the inside. The value of
// the panic is logged only when the runtime made it: any other may hold a secret.
func (s *server) recover(c *gin.Context) {
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		if err, ok := value.(error); ok && err == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so, too
			panic(value)
		}
		text := fmt.Sprintf("%T", value)
		if err, ok := value.(runtime.Error); ok {
			text = err.Error()
		}
		s.Logger.Error("panic while serving a request", "panic", text, "route", s.template(c),
			"requestId", c.GetString(keyRequestID), "stack", string(debug.Stack()))
		if c.Writer.Written() {
			panic(http.ErrAbortHandler) // a cut answer must not look like a whole one
		}
		s.fail(c, errInternal)
	}()
	c.Next()
}

// knownMethod bounds what the method label of a metric can be.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}
