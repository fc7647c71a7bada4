package deliveries

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/deliveries"
)

// attempt is one callback with its answer. Unknown members are zero.
type attempt struct{ deliveries.Attempt }

func sum(p deliveries.Phases) float64 { return p.DNS + p.Connect + p.TLS + p.FirstByte + p.Body }

// Tone colours an attempt.
func (a attempt) Tone() string {
	if a.good() {
		return "good"
	}
	return "bad"
}

func (a attempt) good() bool {
	return a.Status >= http.StatusOK && a.Status < http.StatusMultipleChoices
}

// Outcome says in a few words how the attempt ended.
func (a attempt) Outcome() string {
	switch {
	case a.Status > 0:
		return strings.TrimSpace(strconv.Itoa(a.Status) + " " + http.StatusText(a.Status))
	case a.Error != "":
		return a.Error
	}
	return "no answer"
}

// value returns the value of a header's first line of that name.
func value(fields []deliveries.Header, name string) string {
	i := slices.IndexFunc(fields, func(h deliveries.Header) bool { return strings.EqualFold(h.Name, name) })
	if i < 0 || fields[i].Value == nil {
		return ""
	}
	return *fields[i].Value
}

// RequestHead returns the request as it was sent, without its body; empty: not known.
func (a attempt) RequestHead() string {
	if len(a.RequestHeaders) == 0 {
		return ""
	}
	target, host := "/", ""
	if u, err := url.Parse(a.URL); err == nil {
		target, host = u.RequestURI(), u.Host
	}
	var b strings.Builder
	b.WriteString("POST " + target + " HTTP/1.1\n")
	if host != "" && value(a.RequestHeaders, "host") == "" {
		b.WriteString("Host: " + host + "\n")
	}
	writeFields(&b, a.RequestHeaders)
	return strings.TrimSuffix(b.String(), "\n")
}

// ResponseHead returns the answer without its body; empty: there was none.
func (a attempt) ResponseHead() string {
	if a.Status == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("HTTP/1.1 " + a.Outcome() + "\n")
	writeFields(&b, a.ResponseHeaders)
	return strings.TrimSuffix(b.String(), "\n")
}

func writeFields(b *strings.Builder, fields []deliveries.Header) {
	for _, h := range fields {
		b.WriteString(h.Name + ": ")
		if h.Value == nil {
			b.WriteString("(not shown)")
		} else {
			b.WriteString(*h.Value)
		}
		b.WriteByte('\n')
	}
}

// IsJSON reports whether the answer says that its body is JSON.
func (a attempt) IsJSON() bool {
	kind := value(a.ResponseHeaders, "content-type")
	return strings.Contains(kind, "json") || kind == "" && strings.HasPrefix(strings.TrimSpace(a.ResponseBody), "{")
}

// SignedPrefix returns the text before the body in the signed content.
func (a attempt) SignedPrefix() string {
	id, at := value(a.RequestHeaders, "webhook-id"), value(a.RequestHeaders, "webhook-timestamp")
	if id == "" || at == "" {
		return ""
	}
	return id + "." + at + "."
}

// Verify returns a command that checks the signature as the receiver must.
func (a attempt) Verify() string {
	at := value(a.RequestHeaders, "webhook-timestamp")
	return "waybill signature verify --secret whsec_… --body event.json \\\n  --id " + console.Shell(value(a.RequestHeaders, "webhook-id")) +
		" --timestamp " + console.Shell(at) + " --at " + console.Shell(at) + " \\\n  --signature " + console.Shell(value(a.RequestHeaders, "webhook-signature"))
}
