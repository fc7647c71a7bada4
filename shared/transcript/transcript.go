// Package transcript keeps what an attempt sent and received, except status and body, in some 250
// bytes. A dispatcher writes a transcript once for each attempt. It is stored as it is, and decoded
// when the attempt is shown. It leaves out what the delivery has anyway.
package transcript

import (
	"encoding/binary"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/packed"
)

// The first byte of a transcript. It is versionTruncated if the body of the answer was cut, so that
// earlier builds can read all other transcripts.
const (
	version          = 1
	versionTruncated = 2
)

// MaxResponseHeaders bounds the names and values of an answer's headers that are kept, in bytes.
// Further fields, in the order of names, are left out.
const MaxResponseHeaders = 4 << 10

// SentRequest is what an attempt sent and its delivery does not have.
type SentRequest struct {
	URL         string
	UserAgent   string
	Signature   string // of the header webhook-signature
	TraceParent string
	// Own are the names of the webhook's own headers. Their values are secret.
	Own      []string
	BodySize int
}

// Got is what the attempt received.
type Got struct {
	// Remote is the address to which the attempt connected. It is invalid if no connection was made; then
	// nothing was sent.
	Remote netip.AddrPort
	Header http.Header // of the answer
	// Truncated: the answer's body was longer than the part that is kept.
	Truncated bool
	Phases    domain.Phases
}

// Encode writes a transcript. It leaves out the values of headers that may contain secrets.
func Encode(s *SentRequest, g *Got) []byte {
	out := make([]byte, 0, 192+len(s.URL)+64*len(g.Header))
	if g.Truncated {
		out = append(out, versionTruncated)
	} else {
		out = append(out, version)
	}
	out = packed.AppendText(out, s.URL)
	out = appendPhases(out, &g.Phases)
	if !g.Remote.IsValid() {
		return out
	}
	addr := g.Remote.Addr()
	out = append(out, byte(addr.BitLen()/8))
	if addr.Is4() {
		raw := addr.As4()
		out = append(out, raw[:]...)
	} else {
		raw := addr.As16()
		out = append(out, raw[:]...)
	}
	out = binary.BigEndian.AppendUint16(out, g.Remote.Port())
	out = packed.AppendText(out, s.UserAgent, s.Signature, s.TraceParent)
	out = packed.AppendCounts(out, uint64(max(s.BodySize, 0)), uint64(len(s.Own)))
	out = packed.AppendText(out, s.Own...)
	return appendHeader(out, g.Header)
}

// appendPhases writes microseconds; 0: the phase did not happen.
func appendPhases(out []byte, p *domain.Phases) []byte {
	for _, took := range [...]time.Duration{p.DNS, p.Connect, p.TLS, p.FirstByte, p.Body} {
		var us uint64
		if took > 0 {
			us = max(1, uint64(took/time.Microsecond))
		}
		out = packed.AppendCounts(out, us)
	}
	return out
}

// appendHeader writes the fields of an answer up to the end. Their order is that of the map unless
// some are left out, because sorting when they are read costs less.
func appendHeader(out []byte, header http.Header) []byte {
	size := 0
	for name, values := range header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	if size <= MaxResponseHeaders {
		for name, values := range header {
			out = appendField(out, name, values)
		}
		return out
	}
	names := make([]string, 0, len(header))
	for name := range header {
		names = append(names, name)
	}
	slices.Sort(names)
	left := MaxResponseHeaders
	for _, name := range names {
		for _, value := range header[name] {
			if left -= len(name) + len(value); left < 0 {
				return out
			}
			out = appendField(out, name, []string{value})
		}
	}
	return out
}

// appendField writes a name and, for each value, its length plus one and its bytes; 0 stands for a
// value that is not kept.
func appendField(out []byte, name string, values []string) []byte {
	hidden := isSecret(name)
	for _, value := range values {
		out = packed.AppendText(out, name)
		if hidden {
			out = append(out, 0)
			continue
		}
		out = packed.AppendCounts(out, uint64(len(value))+1)
		out = append(out, value...)
	}
	return out
}

// isSecret reports whether an answer's header with a name may contain a secret. It decides at once
// for the names that nearly every answer has.
func isSecret(name string) bool {
	switch name {
	case "Date", "Content-Type", "Content-Length", "Server", "Connection", "Vary", "Cache-Control", "Keep-Alive", "Via":
		return false
	}
	name = strings.ToLower(name)
	for _, part := range [...]string{"cookie", "auth", "token", "secret", "password", "key", "session", "credential", "signature"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// Field is one line of a header.
type Field struct {
	Name  string
	Value string
	// Hidden: there was a value, but it is not kept.
	Hidden bool
}

// Transcript is what an attempt sent and received.
type Transcript struct {
	URL      string
	Remote   netip.AddrPort // not valid: no connection was made, and nothing was sent
	Request  []Field        // in the order in which they were sent
	Response []Field        // by name
	// Truncated: the answer's body was longer than the part that is kept.
	Truncated bool
	Phases    domain.Phases
}

// Of is what the delivery has of an attempt.
type Of struct {
	EventID   string
	Delivery  domain.DeliveryID
	Number    int
	StartedAt time.Time
}

// request rebuilds the header that was sent.
func (o Of) request(s *SentRequest) []Field {
	fields := make([]Field, 0, 10+len(s.Own))
	add := func(name, value string) { fields = append(fields, Field{Name: name, Value: value}) }
	if u, err := url.Parse(s.URL); err == nil {
		add("Host", u.Host)
	}
	add("Content-Length", strconv.Itoa(s.BodySize))
	add("Content-Type", "application/json")
	add("User-Agent", s.UserAgent)
	add("webhook-id", o.EventID)
	add("webhook-timestamp", strconv.FormatInt(o.StartedAt.Unix(), 10))
	add("webhook-signature", s.Signature)
	add("Waybill-Delivery-Id", string(o.Delivery))
	add("Waybill-Attempt", strconv.Itoa(o.Number))
	if s.TraceParent != "" {
		add("traceparent", s.TraceParent)
	}
	for _, name := range s.Own {
		fields = append(fields, Field{Name: name, Hidden: true})
	}
	return fields
}
