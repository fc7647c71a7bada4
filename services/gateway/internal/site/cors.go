package site

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"waybill.dev/services/gateway/internal/routefile"
)

// cors holds the permissions of pages of other origins, in the form of headers.
type cors struct {
	anyOrigin                bool // every origin
	origins                  []string
	suffixes                 []originSuffix
	methods, headers, expose string
	anyMethod, anyHeader     bool
	maxAge                   string
	credentials              bool
}

// originSuffix is an allowed origin of the form https://*.example.com.
type originSuffix struct{ scheme, suffix string }

// defaultMaxAge is how long browsers may keep the answer to a preflight, in seconds.
const defaultMaxAge = 600

// anythingGoes lets every page call, without cookies: pages never see content that is only for the
// browser's user.
func anythingGoes() *cors {
	return &cors{anyOrigin: true, anyMethod: true, anyHeader: true, expose: "*", maxAge: strconv.Itoa(defaultMaxAge)}
}

// newCORS reads a policy, and returns its faults.
func newCORS(def routefile.CORSDef) (*cors, []string) {
	c := &cors{
		credentials: def.AllowCredentials, maxAge: strconv.Itoa(def.MaxAge),
		expose: strings.Join(def.ExposeHeaders, ", "),
	}
	if def.MaxAge == 0 {
		c.maxAge = strconv.Itoa(defaultMaxAge)
	}
	var faults []string
	for _, origin := range def.AllowedOrigins {
		if fault := c.allow(origin); fault != "" {
			faults = append(faults, fault)
		}
	}
	c.anyMethod = len(def.AllowedMethods) == 0 || slices.Contains(def.AllowedMethods, "*")
	c.anyHeader = slices.Contains(def.AllowedHeaders, "*")
	c.methods, c.headers = strings.Join(def.AllowedMethods, ", "), strings.Join(def.AllowedHeaders, ", ")
	return c, faults
}

func (c *cors) allow(origin string) (fault string) {
	if origin == "*" {
		c.anyOrigin = true
		return ""
	}
	plain := strings.ToLower(strings.TrimSuffix(origin, "/"))
	u, err := url.Parse(plain)
	if err != nil || u.Scheme == "" || u.Host == "" || plain != u.Scheme+"://"+u.Host {
		return strconv.Quote(origin) + " in allowedOrigins is not an origin such as https://app.example.com"
	}
	suffix, wild := strings.CutPrefix(u.Host, "*.")
	switch {
	case !wild && strings.Contains(u.Host, "*"), wild && (suffix == "" || strings.Contains(suffix, "*")):
		return strconv.Quote(origin) + " in allowedOrigins may have a * only as the first label, as in https://*.example.com"
	case wild:
		c.suffixes = append(c.suffixes, originSuffix{u.Scheme + "://", "." + suffix})
	default:
		c.origins = append(c.origins, plain)
	}
	return ""
}

// allows reports whether pages of the origin may call.
func (c *cors) allows(origin string) bool {
	if c.anyOrigin {
		return true
	}
	origin = strings.ToLower(origin)
	if slices.Contains(c.origins, origin) {
		return true
	}
	return slices.ContainsFunc(c.suffixes, func(s originSuffix) bool {
		host, ok := strings.CutPrefix(origin, s.scheme)
		return ok && len(host) > len(s.suffix) && strings.HasSuffix(host, s.suffix)
	})
}

// mark sets the headers that say whether the asking page may read the answer. It replaces those of
// a back end.
func (c *cors) mark(header http.Header, origin string) {
	for _, name := range []string{"Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Access-Control-Expose-Headers"} {
		header.Del(name)
	}
	if !c.anyOrigin {
		header.Add("Vary", "Origin")
	}
	if origin == "" || !c.allows(origin) {
		return
	}
	if c.anyOrigin {
		origin = "*"
	}
	header.Set("Access-Control-Allow-Origin", origin)
	if c.credentials {
		header.Set("Access-Control-Allow-Credentials", "true")
	}
	if c.expose != "" {
		header.Set("Access-Control-Expose-Headers", c.expose)
	}
}

// preflight answers the question whether a page may send a request. Headers for a request that is
// not allowed are left out: the browser then refuses it.
func (c *cors) preflight(header http.Header, r *http.Request) {
	origin := r.Header.Get("Origin")
	c.mark(header, origin)
	header.Del("Access-Control-Expose-Headers")
	header.Add("Vary", "Access-Control-Request-Method, Access-Control-Request-Headers")
	if !c.allows(origin) {
		return
	}
	method := r.Header.Get("Access-Control-Request-Method")
	switch {
	case c.anyMethod:
		header.Set("Access-Control-Allow-Methods", method)
	case c.methods != "":
		header.Set("Access-Control-Allow-Methods", c.methods)
	}
	// The wildcard * would not cover Authorization, so the requested names are listed instead.
	if asked := r.Header.Values("Access-Control-Request-Headers"); c.anyHeader && len(asked) > 0 {
		header.Set("Access-Control-Allow-Headers", strings.Join(asked, ", "))
	} else if !c.anyHeader && c.headers != "" {
		header.Set("Access-Control-Allow-Headers", c.headers)
	}
	header.Set("Access-Control-Max-Age", c.maxAge)
}
