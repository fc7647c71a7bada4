package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"
)

// gin matches routes by the decoded path, in which an escaped slash (%2F) can't be distinguished from the end of
// a segment. So no route of gin answers a request with such a slash. This function matches the routes with
// Slashes, segment by segment, and passes all other requests to the gateway.
func (c *Call) answerSlashes() {
	c.Writer.Header().Del("Allow")
	c.route, c.template = nil, noTemplate
	var allowed []string
	for _, r := range c.kernel.slashes {
		params, ok := r.match(c.Request.URL.EscapedPath())
		if !ok {
			continue
		}
		if c.Request.Method == r.Method || c.Request.Method == http.MethodHead && r.Method == http.MethodGet {
			c.gin.Params, c.route, c.template = params, r, r.Path
			c.serve()
			return
		}
		allowed = append(allowed, r.Method)
		if r.Method == http.MethodGet {
			allowed = append(allowed, http.MethodHead)
		}
	}
	if len(allowed) == 0 {
		c.passOn()
		return
	}
	slices.Sort(allowed)
	c.Writer.Header().Set("Allow", strings.Join(allowed, ", "))
	c.fail(errNoMethod)
}

func escapedSlash(u *url.URL) bool {
	return u.RawPath != "" && strings.Count(u.RawPath, "/") != strings.Count(u.Path, "/")
}

// match reports whether an escaped path has the form of the route's template, and returns the path's parameters.
func (r *route) match(escaped string) (params gin.Params, ok bool) {
	template, path := strings.Split(r.Path, "/"), strings.Split(escaped, "/")
	if len(path) != len(template) {
		return nil, false
	}
	for i, segment := range template {
		value, err := url.PathUnescape(path[i])
		if err != nil {
			return nil, false
		}
		switch name, parameter := strings.CutPrefix(segment, "{"); {
		case parameter && value != "":
			params = append(params, gin.Param{Key: strings.TrimSuffix(name, "}"), Value: value})
		case value != segment:
			return nil, false
		}
	}
	return params, true
}
