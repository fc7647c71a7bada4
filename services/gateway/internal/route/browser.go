package route

import (
	"errors"
	"net/http"
	"slices"
	"strings"
)

var (
	errCookieName   = errors.New("must be a cookie with a name, as in name=value")
	errCookieDomain = errors.New("must not give a cookie a Domain: the deployments of others, and Waybill itself, would get it, too")
	errCookieOwn    = errors.New("must not set a cookie whose name begins with waybill: those are Waybill's own")
	errClearsSite   = errors.New("must not clear cookies: browsers clear those of neighbouring hosts, too")
)

// The headers of an answer that may reach beyond the host that sends it.
const (
	setCookie = "Set-Cookie"
	clearSite = "Clear-Site-Data"
)

// CheckUploaded reports whether an uploaded route may set name to value in an answer. An allowed
// header has no effect on other hosts in the browser. Errors continue a sentence that begins with
// the name, and never contain the value.
func CheckUploaded(name, value string) error {
	switch http.CanonicalHeaderKey(name) {
	case setCookie:
		return checkCookie(value)
	case clearSite:
		if value = strings.ToLower(value); strings.Contains(value, "cookies") || strings.Contains(value, "*") {
			return errClearsSite
		}
	}
	return nil
}

// checkCookie reads a cookie as browsers do. A cookie without a name is refused: browsers send its
// value alone, which may look like another cookie.
func checkCookie(text string) error {
	pair, attributes, _ := strings.Cut(text, ";")
	name, _, named := strings.Cut(pair, "=")
	name = strings.ToLower(strings.Trim(name, " \t"))
	if !named || name == "" || strings.ContainsFunc(name, notToken) {
		return errCookieName
	}
	for _, prefix := range []string{"__host-", "__secure-"} {
		name = strings.TrimPrefix(name, prefix)
	}
	if strings.HasPrefix(name, "waybill") {
		return errCookieOwn
	}
	for attribute := range strings.SplitSeq(attributes, ";") {
		name, _, _ := strings.Cut(attribute, "=")
		if strings.EqualFold(strings.Trim(name, " \t"), "domain") {
			return errCookieDomain
		}
	}
	return nil
}

// KeepUploaded removes the headers that CheckUploaded refuses from an uploaded route's answer.
func KeepUploaded(header http.Header) {
	for _, name := range []string{setCookie, clearSite} {
		values := header[name]
		if len(values) == 0 {
			continue
		}
		values = slices.DeleteFunc(slices.Clone(values), func(value string) bool { return CheckUploaded(name, value) != nil })
		if len(values) == 0 {
			delete(header, name)
		} else {
			header[name] = values
		}
	}
}
