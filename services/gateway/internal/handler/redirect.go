package handler

import (
	"net/http"
	"net/url"
	"strings"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/input"
)

// newRedirect makes the handler that redirects callers. Nothing of the target comes from callers.
func newRedirect(options *input.Form, _ *routefile.Operation, env *Env) route.Handler {
	location := readSetting(options, "location", env)
	if location != "" && !isLocation(location) {
		options.Fault("must be an http or https URL, or a path that begins with a slash", "location")
	}
	status, given := options.Integer("status", 300, 399)
	switch {
	case !given:
		status = http.StatusFound
	case status != 301 && status != 302 && status != 303 && status != 307 && status != 308:
		options.Fault("must be 301, 302, 303, 307 or 308", "status")
	}
	return &fixedAnswer{route.Response{Status: status, Header: http.Header{"Location": {location}}}}
}

func isLocation(text string) bool {
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }) {
		return false
	}
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	return u.Scheme == "" && strings.HasPrefix(text, "/") || (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// readSetting reads a required text in which `${env.NAME}` stands for a value of the environment.
// No other expressions are allowed.
func readSetting(options *input.Form, option string, env *Env) string {
	options.Require(option)
	text, _ := options.Text(option, 1, 2048)
	tokens, err := tokenize(text)
	if err != nil {
		options.Fault(err.Error(), option)
		return ""
	}
	var b strings.Builder
	for _, t := range tokens {
		if t.expression && t.root != rootEnv {
			options.Fault("may have ${env.NAME}, and nothing of a request", option)
			return ""
		}
		value, err := t.constant(env.Getenv)
		if err != nil {
			options.Fault(err.Error(), option)
			return ""
		}
		b.WriteString(value)
	}
	return b.String()
}
