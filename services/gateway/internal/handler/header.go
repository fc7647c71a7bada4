package handler

import (
	"net/http"
	"slices"
	"strings"

	"waybill.dev/services/gateway/internal/route"
)

// requestHeader returns the header for a back end: the caller's header with the headers that policies
// have set, but without those that are secret or could be taken for the gateway's own.
func requestHeader(r *route.Request) http.Header {
	header := make(http.Header, len(r.Header)+6)
	named := connectionNames(r.Header)
	for name, values := range r.Header {
		if plain := plainName(name); !isKept(plain) && !named[plain] {
			header[http.CanonicalHeaderKey(name)] = slices.Clone(values)
		}
	}
	for name, values := range r.Outgoing {
		if !route.OfConnection(name) {
			header[name] = slices.Clone(values)
		}
	}
	set := func(name, value string) {
		if value != "" {
			header.Set(name, value)
		}
	}
	set("X-Forwarded-For", r.Remote)
	set("X-Forwarded-Host", r.Host)
	set("X-Forwarded-Proto", r.Scheme)
	set("X-Request-Id", r.ID)
	if who := r.Principal; who != nil {
		set(route.AccountHeader, who.Account)
		set(route.BucketHeader, who.Bucket)
		set(route.ConsumerHeader, who.Consumer)
	}
	if !r.Streams {
		header.Set("Accept-Encoding", "identity") // the gateway itself reads the answer
	}
	if header.Get("User-Agent") == "" {
		header.Set("User-Agent", "Waybill")
	}
	return header
}

// plainName returns a header's name as the most lenient reader sees it: many take an underscore for
// a hyphen.
func plainName(name string) string {
	return http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
}

// connectionNames returns the headers that belong to one connection because Connection
// says so.
func connectionNames(header http.Header) map[string]bool {
	named := make(map[string]bool)
	for _, value := range header.Values("Connection") {
		for name := range strings.SplitSeq(value, ",") {
			named[plainName(strings.TrimSpace(name))] = true
		}
	}
	return named
}

// isKept reports whether a caller's header is kept from back ends.
func isKept(name string) bool {
	switch name {
	case "Host", "Content-Length", "Expect", "X-Request-Id",
		"Forwarded", "Via", "X-Real-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "Fastly-Client-Ip",
		"X-Client-Ip", "X-Cluster-Client-Ip", "X-Originating-Ip",
		"X-Original-Url", "X-Original-Host", "X-Rewrite-Url", "X-Host",
		"X-Http-Method", "X-Http-Method-Override", "X-Method-Override":
		return true
	}
	return strings.HasPrefix(name, "X-Forwarded-") || route.SaysCaller(name) || route.SaysIdentity(name) || isCredential(name) || route.OfConnection(name)
}

// isCredential reports whether a header is a credential that only the gateway may see.
func isCredential(name string) bool {
	switch name {
	case "Authorization", "Proxy-Authorization", "X-Api-Key", "Cookie", "Cookie2":
		return true
	}
	return false
}

// forStrangers returns the part of a request's header that may go to another host after a redirect.
func forStrangers(header http.Header) http.Header {
	few := make(http.Header)
	for _, name := range []string{"Accept", "Accept-Encoding", "Accept-Language", "Range", "User-Agent", "X-Request-Id"} {
		if values := header.Values(name); len(values) > 0 {
			few[name] = values
		}
	}
	return few
}

// answerHeader returns the header of a back end's answer for callers: without the headers of the
// connection, and without those that would have an effect on the gateway's whole host.
func answerHeader(header http.Header) http.Header {
	passed := make(http.Header, len(header))
	named := connectionNames(header)
	for name, values := range header {
		plain := plainName(name)
		switch plain {
		case "Content-Length", "Set-Cookie", "Set-Cookie2", "Alt-Svc", "Strict-Transport-Security", "X-Request-Id":
			continue
		}
		if route.OfConnection(plain) || named[plain] || strings.HasPrefix(plain, "Access-Control-") {
			continue
		}
		passed[name] = values
	}
	return passed
}
