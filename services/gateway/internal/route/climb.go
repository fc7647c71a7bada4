package route

import "strings"

// maxDecodings is how often a path may be escaped. A caller that escapes more often than any server decodes wants to
// hide something, and each decoding is a walk over the whole path.
const maxDecodings = 8

// Climbs reports whether any server would read a segment of a path, escaped or not, as . or .. : a server may take
// an escaped slash or a backslash for a slash, ignore the text after a semicolon, or decode more than once. An
// invalid escape does not end the search: a lenient server leaves it as it is and decodes the others.
func Climbs(path string) bool {
	for range maxDecodings {
		for segment := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
			segment, _, _ = strings.Cut(segment, ";")
			if segment == "." || segment == ".." {
				return true
			}
		}
		decoded := unescape(path)
		if decoded == path {
			return false
		}
		path = decoded
	}
	return true
}

// unescape decodes every valid escape, once.
func unescape(path string) string {
	at := strings.IndexByte(path, '%')
	if at < 0 {
		return path
	}
	var b strings.Builder
	b.Grow(len(path))
	b.WriteString(path[:at])
	for ; at < len(path); at++ {
		if path[at] == '%' && at+2 < len(path) {
			high, low := hexDigit(path[at+1]), hexDigit(path[at+2])
			if high >= 0 && low >= 0 {
				b.WriteByte(byte(high<<4 | low))
				at += 2
				continue
			}
		}
		b.WriteByte(path[at])
	}
	return b.String()
}

// hexDigit returns the value of a hexadecimal digit; below 0: c is not one.
func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
