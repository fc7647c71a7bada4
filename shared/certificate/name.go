package certificate

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Name returns a distinguished name (RawSubject or RawIssuer of a certificate) in the form of RFC
// 2253: the last part first, CN=…,O=…. For a name that can't be read it returns # and the name's
// bytes in hexadecimal.
func Name(raw []byte) string {
	var parts pkix.RDNSequence
	if rest, err := asn1.Unmarshal(raw, &parts); err != nil || len(rest) > 0 {
		return "#" + hex.EncodeToString(raw)
	}
	var b strings.Builder
	for i, part := range slices.Backward(parts) {
		for j, attribute := range part {
			switch {
			case j > 0:
				b.WriteByte('+')
			case i < len(parts)-1:
				b.WriteByte(',')
			}
			writeAttribute(&b, attribute)
		}
	}
	return b.String()
}

func writeAttribute(b *strings.Builder, a pkix.AttributeTypeAndValue) {
	name := attributeName(a.Type.String())
	value, isText := a.Value.(string)
	if name != "" && isText {
		b.WriteString(name + "=")
		writeValue(b, value)
		return
	}
	raw, err := asn1.Marshal(a.Value)
	if err != nil {
		raw = nil
	}
	b.WriteString(a.Type.String() + "=#" + hex.EncodeToString(raw))
}

// attributeName returns the short name of a type of attribute; empty: it has none. The names are
// those of RFC 2253, and others that openssl prints.
func attributeName(id string) string {
	switch id {
	case "2.5.4.3":
		return "CN"
	case "2.5.4.5":
		return "serialNumber"
	case "2.5.4.6":
		return "C"
	case "2.5.4.7":
		return "L"
	case "2.5.4.8":
		return "ST"
	case "2.5.4.9":
		return "STREET"
	case "2.5.4.10":
		return "O"
	case "2.5.4.11":
		return "OU"
	case "0.9.2342.19200300.100.1.25":
		return "DC"
	case "0.9.2342.19200300.100.1.1":
		return "UID"
	case "1.2.840.113549.1.9.1":
		return "emailAddress"
	}
	return ""
}

// writeValue writes a value with special characters escaped. Characters that are not visible, and
// bytes that are no UTF-8, are written as two hexadecimal digits a byte.
func writeValue(b *strings.Builder, value string) {
	for i := 0; i < len(value); {
		r, size := utf8.DecodeRuneInString(value[i:])
		part := value[i : i+size]
		first, last := i == 0, i+size == len(value)
		i += size
		switch {
		case strings.ContainsRune(`,+"\<>;`, r), r == ' ' && (first || last), r == '#' && first:
			b.WriteByte('\\')
			b.WriteString(part)
		case r == utf8.RuneError && size == 1, !unicode.IsPrint(r):
			writeHex(b, part)
		default:
			b.WriteString(part)
		}
	}
}

func writeHex(b *strings.Builder, part string) {
	for i := range len(part) {
		b.WriteString(`\` + strings.ToUpper(hex.EncodeToString([]byte{part[i]})))
	}
}

// ASCII returns a name from Name in ASCII, as headers need it: other bytes are escaped. To a reader
// of RFC 2253 both are the same name.
func ASCII(name string) string {
	var b strings.Builder
	for i := range len(name) {
		if name[i] < utf8.RuneSelf {
			b.WriteByte(name[i])
		} else {
			writeHex(&b, name[i:i+1])
		}
	}
	return b.String()
}

// Same reports whether two names are the same, ignoring case and blanks. Their parts must be in the
// same order. It does not matter how a character is escaped.
func Same(one, other string) bool { return loose(one) == loose(other) }

// loose returns a name in lower case and without blanks, each character escaped in one way.
func loose(name string) string {
	var plain []byte
	for i := 0; i < len(name); i++ {
		c, escaped := name[i], name[i] == '\\' && i+1 < len(name)
		if escaped {
			if b, err := hex.DecodeString(name[i+1 : min(i+3, len(name))]); err == nil {
				c = b[0]
				i += 2
			} else {
				c = name[i+1]
				i++
			}
		}
		if escaped && c < utf8.RuneSelf {
			plain = append(plain, '\\')
		}
		plain = append(plain, c)
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, string(plain))
}
