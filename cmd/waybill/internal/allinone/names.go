package allinone

import (
	"net/http"
	"net/url"
	"strings"

	"waybill.dev/cmd/internal/settings"
	"waybill.dev/cmd/internal/telemetry"
	"waybill.dev/shared/problem"
	"waybill.dev/shared/requestid"
)

// errName is never changed.
var errName = problem.New(problem.Misdirected, "This name is not served here. If it is to be, set WAYBILL_PUBLIC_URL.")

// ownNames returns a handler that answers requests for the console and the documentation only under
// the names of this installation: a web page could point its own name to this machine, and read the
// answers in a browser.
func ownNames(handler http.Handler, s settings.Settings) http.Handler {
	var names []string
	if public, err := url.Parse(s.PublicURL); err == nil {
		names = append(names, strings.ToLower(public.Hostname()))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isPage(r.URL.Path) && !telemetry.IsOurs(r.Host, names) {
			id := requestid.New()
			w.Header().Set(requestid.Header, id)
			errName.Write(w, r, id)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// isPage reports whether a path is one of pages for browsers.
func isPage(path string) bool {
	for _, begin := range []string{"/console", "/docs"} {
		if rest, ok := strings.CutPrefix(path, begin); ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return path == "/"
}
