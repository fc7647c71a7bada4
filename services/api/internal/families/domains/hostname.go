package domains

import (
	"errors"
	"net/netip"
	"strings"

	"golang.org/x/net/idna"
)

// errHostname is the reason why a text can't be the hostname of a custom domain.
var errHostname = errors.New("must be a hostname with at least two labels, such as api.example.com")

// longestName is the maximum length of a name in DNS.
const longestName = 253

// parseHostname returns a hostname in the form of DNS: in lower case, without the dot at its end,
// other letters in punycode.
func parseHostname(text string) (string, error) {
	name, err := idna.Lookup.ToASCII(strings.TrimSuffix(text, "."))
	if err != nil || name == "" || len(name) > longestName {
		return "", errHostname
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return "", errHostname
	}
	labels := strings.Split(name, ".")
	if len(labels) < 2 || strings.Trim(labels[len(labels)-1], "0123456789") == "" {
		return "", errHostname
	}
	for _, label := range labels {
		if !validLabel(label) {
			return "", errHostname
		}
	}
	return name, nil
}

// validLabel reports whether a label consists of letters, digits and hyphens, as in host names.
func validLabel(label string) bool {
	if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	return strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}
