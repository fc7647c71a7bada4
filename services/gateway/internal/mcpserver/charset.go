package mcpserver

import (
	"bytes"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/transform"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/body"
)

// widest is the maximum number of UTF-8 bytes for one byte of an answer.
const widest = 3

// declared matches the encoding in the declaration at the beginning of an XML document.
var declared = regexp.MustCompile(`^\s*<\?xml[^>]*\sencoding\s*=\s*["']([A-Za-z0-9._:-]+)["']`)

// lookBytes is how much of a text is searched for a declaration of its encoding.
const lookBytes = 1024

// decodeText returns the text of an answer as UTF-8. It returns false if the answer is not text, or can't be
// decoded completely. lease pays for the memory.
func decodeText(lease *body.Lease, header http.Header, content []byte) ([]byte, bool) {
	of := mediaType(header)
	if !isText(of) {
		return content, false
	}
	label := charsetOf(header, of, content)
	if label == "" {
		return content, utf8.Valid(content)
	}
	from, name := charset.Lookup(label)
	switch {
	case from == nil || from == encoding.Replacement:
		return content, false
	case name == "utf-8":
		return bytes.TrimPrefix(content, []byte(mark)), utf8.Valid(content)
	}
	text, err := lease.ReadAll(transform.NewReader(bytes.NewReader(content), from.NewDecoder()), -1, widest*route.MaxResponse)
	if err != nil || bytes.Contains(text, []byte("\uFFFD")) {
		return content, false
	}
	return bytes.TrimPrefix(text, []byte(mark)), true
}

// mark is the byte order mark, which is no part of a text.
const mark = "\uFEFF"

// charsetOf returns the label of a text's encoding. The byte order mark decides; without one the Content-Type,
// and without that the text itself. The label is empty if none of them says.
func charsetOf(header http.Header, of string, content []byte) string {
	switch {
	case bytes.HasPrefix(content, []byte(mark)):
		return "utf-8"
	case len(content) > 2 && bytes.HasPrefix(content, []byte("\xFE\xFF")):
		return "utf-16be"
	case len(content) > 2 && bytes.HasPrefix(content, []byte("\xFF\xFE")):
		return "utf-16le"
	}
	if label := charsetParameter(header); label != "" {
		return label
	}
	head := content[:min(len(content), lookBytes)]
	switch {
	case of == "text/html":
		if !utf8.Valid(content) {
			_, name, _ := charset.DetermineEncoding(head, of) // browsers do the same
			return name
		}
	case of == "text/xml" || of == "application/xml" || strings.HasSuffix(of, "+xml"):
		if found := declared.FindSubmatch(head); found != nil {
			return string(found[1])
		}
	}
	return ""
}

func charsetParameter(header http.Header) string {
	_, params, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return params["charset"]
}

// contentType returns the media type of an answer, with its charset unless that is UTF-8, the encoding of all
// text in MCP.
func contentType(header http.Header) string {
	name := mediaType(header)
	if label := charsetParameter(header); label != "" && !strings.EqualFold(label, "utf-8") {
		return mime.FormatMediaType(name, map[string]string{"charset": label})
	}
	return name
}
