package mcpserver

import (
	"net/url"
	"strings"
)

// normalURI returns the normal spelling of a URI, which is the same for all URIs with the same
// meaning: the URL libraries of clients rewrite the URIs of a list. In the normal spelling, the
// scheme is in lower case, a character is escaped only if it must be, and URIs of the web's own
// schemes have the host in lower case, no default port, and a path.
func normalURI(uri string) string {
	uri = lowerScheme(escape(uri))
	if !strings.HasPrefix(uri, "http://") && !strings.HasPrefix(uri, "https://") {
		return uri
	}
	u, err := url.Parse(uri)
	if err != nil || u.User != nil {
		return uri
	}
	rest := uri[len(u.Scheme)+len("://"):]
	if at := strings.IndexAny(rest, "/?#"); at >= 0 {
		rest = rest[at:]
	} else {
		rest = ""
	}
	host := strings.ToLower(u.Host)
	if port := u.Port(); port == "" || u.Scheme == "http" && port == "80" || u.Scheme == "https" && port == "443" {
		host = strings.TrimSuffix(host, ":"+port)
	}
	if !strings.HasPrefix(rest, "/") {
		rest = "/" + rest
	}
	return u.Scheme + "://" + host + rest
}

func lowerScheme(uri string) string {
	scheme, rest, ok := strings.Cut(uri, ":")
	if !ok {
		return uri
	}
	return strings.ToLower(scheme) + ":" + rest
}

// escape writes the escapes of a part of a URI in one way. A percent sign that begins none stays.
func escape(part string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(part))
	for i := 0; i < len(part); i++ {
		c := part[i]
		if c == '%' {
			decoded, err := url.PathUnescape(part[i:min(i+len("%00"), len(part))])
			if err != nil {
				b.WriteByte(c)
				continue
			}
			i += len("00")
			if c = decoded[0]; !isUnreserved(c) {
				b.Write([]byte{'%', digits[c>>4], digits[c&15]})
				continue
			}
		}
		if isUnreserved(c) || strings.IndexByte("%:/?#[]@!$&'()*+,;=", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', digits[c>>4], digits[c&15]})
	}
	return b.String()
}

func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}
