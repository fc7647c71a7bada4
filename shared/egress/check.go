package egress

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

const (
	maxURL   = 2048
	maxHost  = 253
	maxLabel = 63
)

// URLError is a fault in the form of a URL. Its text is for customers and contains no part of the URL.
type URLError string

func (e URLError) Error() string { return string(e) }

// The faults of form.
const (
	errLength   URLError = "must have 1 to 2048 bytes"
	errBytes    URLError = "must not have spaces, control characters or backslashes"
	errForm     URLError = "must be an absolute http or https URL"
	errScheme   URLError = "must be an http or https URL"
	errHTTPS    URLError = "must be an https URL: http needs WAYBILL_EGRESS_HTTP"
	errUserinfo URLError = "must not have a user name or password"
	errFragment URLError = "must not have a fragment"
	errPort     URLError = "must have a port of 1 to 65535, or none"
	errLiteral  URLError = "must have a plain IPv6 address in its brackets"
	errHost     URLError = "must have a valid host name"
	errNumber   URLError = "must have an IPv4 address as four decimal numbers"
)

// CheckURL returns an error if callbacks may not be sent to raw. It does not resolve names: the
// addresses of a name are checked at each connection. The error is ErrAddress or a URLError.
func (p *Policy) CheckURL(raw string) error {
	_, err := p.target(raw, &rules)
	return err
}

// Escape returns a URL in the form in which it is sent: characters that a path or a query can't
// contain are percent-encoded, and escapes stay. The host stays as it was typed. Characters that
// CheckURL refuses anywhere in a URL stay, so that it refuses them.
func Escape(raw string) string {
	scheme, rest, ok := strings.Cut(raw, "://")
	at := strings.IndexAny(rest, "/?")
	if !ok || at < 0 {
		return raw
	}
	var b strings.Builder
	b.WriteString(scheme + "://" + rest[:at])
	for i := at; i < len(rest); i++ {
		if c := rest[i]; c >= utf8.RuneSelf || strings.IndexByte("\"<>^`{|}", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// candidate is a URL while it is being checked.
type candidate struct {
	raw     string
	url     *url.URL
	typed   string     // host as it was typed, without port and brackets
	bracket bool       // it was in brackets
	port    string     // with its colon; empty: none
	name    string     // host in ASCII without a trailing dot
	addr    netip.Addr // when the host is an address
}

// rule is one of the checks of a URL. Each refuses something that none of the others does.
type rule struct {
	name  string
	check func(*Policy, *candidate) error
}

// ruleSet has the rules in their order: those for the text, then those for its parts.
type ruleSet struct{ text, parts []rule }

// rules is never changed.
var rules = ruleSet{ //nolint:gochecknoglobals // a table
	text: []rule{
		{"length", (*Policy).checkLength},
		{"bytes", (*Policy).checkBytes},
	},
	parts: []rule{
		{"scheme", (*Policy).checkScheme},
		{"userinfo", (*Policy).checkUserinfo},
		{"fragment", (*Policy).checkFragment},
		{"port", (*Policy).checkPort},
		{"literal", (*Policy).checkLiteral},
		{"idna", (*Policy).checkIDNA},
		{"labels", (*Policy).checkLabels},
		{"number", (*Policy).checkNumber},
		{"address", (*Policy).checkAddress},
		{"names", (*Policy).checkNames},
	},
}

// target returns what to connect to for raw: the URL with its host in ASCII.
func (p *Policy) target(raw string, set *ruleSet) (*url.URL, error) {
	c := candidate{raw: raw}
	for _, r := range set.text {
		if err := r.check(p, &c); err != nil {
			return nil, err
		}
	}
	if err := c.split(); err != nil {
		return nil, err
	}
	for _, r := range set.parts {
		if err := r.check(p, &c); err != nil {
			return nil, err
		}
	}
	if !c.bracket {
		c.url.Host = c.name + c.port
	}
	return c.url, nil
}

// split takes the URL apart; it refuses what has no host at all.
func (c *candidate) split() error {
	u, err := url.Parse(Escape(c.raw))
	if err != nil || u.Opaque != "" || u.Host == "" {
		return errForm
	}
	c.url = u
	host := u.Host
	if strings.HasPrefix(host, "[") {
		end := strings.LastIndexByte(host, ']') // url.Parse has made sure of it
		c.typed, c.port, c.bracket = host[1:end], host[end+1:], true
		c.addr, _ = netip.ParseAddr(c.typed)
		c.name = c.typed
		return nil
	}
	c.typed = host
	if colon := strings.LastIndexByte(host, ':'); colon >= 0 {
		c.typed, c.port = host[:colon], host[colon:]
	}
	c.name = strings.TrimSuffix(asciiLower(c.typed), ".")
	return nil
}

func (p *Policy) checkLength(c *candidate) error {
	if c.raw == "" || len(c.raw) > maxURL {
		return errLength
	}
	return nil
}

func (p *Policy) checkBytes(c *candidate) error {
	for i := range len(c.raw) {
		if b := c.raw[i]; b <= ' ' || b == 0x7f || b == '\\' {
			return errBytes
		}
	}
	if !utf8.ValidString(c.raw) {
		return errBytes
	}
	return nil
}

func (p *Policy) checkScheme(c *candidate) error {
	switch c.url.Scheme {
	case "https":
		return nil
	case "http":
		if p.HTTP {
			return nil
		}
		return errHTTPS
	}
	if p.HTTP {
		return errScheme
	}
	return errHTTPS
}

// checkUserinfo: net/http would make an Authorization header of it.
func (p *Policy) checkUserinfo(c *candidate) error {
	if c.url.User != nil {
		return errUserinfo
	}
	return nil
}

func (p *Policy) checkFragment(c *candidate) error {
	if strings.Contains(c.raw, "#") {
		return errFragment
	}
	return nil
}

func (p *Policy) checkPort(c *candidate) error {
	if c.port == "" {
		return nil
	}
	n, err := strconv.ParseUint(c.port[1:], 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != c.port[1:] {
		return errPort
	}
	return nil
}

// checkLiteral wants one spelling of an IPv6 address: an IPv4 address in IPv6 form would
// be judged as the one and dialled as the other.
func (p *Policy) checkLiteral(c *candidate) error {
	if c.bracket && (!c.addr.Is6() || c.addr.Is4In6() || c.addr.Zone() != "") {
		return errLiteral
	}
	return nil
}

// checkIDNA turns a host into the ASCII that resolvers are asked for.
func (p *Policy) checkIDNA(c *candidate) error {
	if c.bracket || !needsIDNA(c.name) {
		return nil
	}
	// Underscores are left to checkLabels: they are in use in host names.
	profile := idna.New(idna.MapForLookup(), idna.BidiRule(), idna.StrictDomainName(false))
	name, err := profile.ToASCII(strings.TrimSuffix(c.typed, "."))
	if err != nil || !utf8.ValidString(c.typed) { // percent-encoded bytes may be anything
		return errHost
	}
	c.name = strings.TrimSuffix(asciiLower(name), ".")
	if again, err := profile.ToASCII(c.name); err != nil || again != c.name {
		return errHost
	}
	return nil
}

func needsIDNA(name string) bool {
	return !isASCII(name) || strings.HasPrefix(name, "xn--") || strings.Contains(name, ".xn--")
}

func (p *Policy) checkLabels(c *candidate) error {
	if c.bracket {
		return nil
	}
	if c.name == "" || len(c.name) > maxHost {
		return errHost
	}
	for label := range strings.SplitSeq(c.name, ".") {
		if !validLabel(label) {
			return errHost
		}
	}
	return nil
}

func validLabel(label string) bool {
	if label == "" || len(label) > maxLabel || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	for i := range len(label) {
		if b := label[i]; (b < 'a' || b > 'z') && (b < '0' || b > '9') && b != '-' && b != '_' {
			return false
		}
	}
	return true
}

// checkNumber is the WHATWG's rule for hosts that end in a number. Resolvers take
// decimal, octal, hexadecimal and short forms of IPv4 addresses, and so do Unicode's
// digits: here only the dotted quad passes, as it was typed.
func (p *Policy) checkNumber(c *candidate) error {
	if c.bracket || !endsInNumber(c.name) {
		return nil
	}
	addr, err := netip.ParseAddr(c.typed)
	if err != nil || !addr.Is4() || addr.String() != c.typed {
		return errNumber
	}
	c.addr = addr
	return nil
}

func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

func (p *Policy) checkAddress(c *candidate) error {
	if c.addr.IsValid() && !p.Allowed(c.addr) {
		return ErrAddress
	}
	return nil
}

// inward lists the last labels of names that are never public.
var inward = [...]string{ //nolint:gochecknoglobals // a table
	"localhost", "local", "internal", "localdomain", "home.arpa", "svc", "cluster.local",
	"onion", "invalid", "test", "lan", "intranet", "corp", "home",
}

// checkNames refuses names that can't have a public address, unless an allowed network
// could hold the address that they have: the connection decides then.
func (p *Policy) checkNames(c *candidate) error {
	if c.addr.IsValid() || len(p.Allow) > 0 && (!isUnder(c.name, "localhost") || p.allowsLoopback()) {
		return nil
	}
	if !strings.Contains(c.name, ".") || slices.ContainsFunc(inward[:], func(zone string) bool { return isUnder(c.name, zone) }) {
		return ErrAddress
	}
	return nil
}

func isUnder(name, zone string) bool {
	head, ok := strings.CutSuffix(name, zone)
	return ok && (head == "" || strings.HasSuffix(head, "."))
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// asciiLower lower-cases ASCII letters only: the rest is for IDNA.
func asciiLower(text string) string {
	for i := range len(text) {
		if 'A' <= text[i] && text[i] <= 'Z' {
			return strings.Map(func(r rune) rune {
				if 'A' <= r && r <= 'Z' {
					return r + 'a' - 'A'
				}
				return r
			}, text)
		}
	}
	return text
}
