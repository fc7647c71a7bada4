package transcript

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"waybill.dev/shared/packed"
)

// ErrForm is returned for bytes that this build can't read as a transcript.
var ErrForm = errors.New("not a transcript that this version reads")

// Decode reads a transcript. Nil is the transcript of an attempt that has none.
func Decode(raw []byte, context Of) (Transcript, error) {
	if raw == nil {
		return Transcript{}, nil
	}
	if len(raw) == 0 || raw[0] != version && raw[0] != versionTruncated {
		return Transcript{}, ErrForm
	}
	r := &reader{packed.NewReader(raw[1:])}
	t := Transcript{Truncated: raw[0] == versionTruncated}
	var s SentRequest
	s.URL = r.text()
	t.URL = s.URL
	for _, phase := range [...]*time.Duration{&t.Phases.DNS, &t.Phases.Connect, &t.Phases.TLS, &t.Phases.FirstByte, &t.Phases.Body} {
		*phase = r.microseconds()
	}
	if r.More() {
		t.Remote = r.address()
		s.UserAgent, s.Signature, s.TraceParent = r.text(), r.text(), r.text()
		s.BodySize = int(min(r.Count(), math.MaxInt32))
		for range r.Length(1) {
			s.Own = append(s.Own, r.text())
		}
		t.Request = context.request(&s)
		t.Response = r.fields()
	}
	if r.Failed() {
		return Transcript{}, ErrForm
	}
	return t, nil
}

type reader struct{ packed.Reader }

// text reads text that may come from a receiver, as valid UTF-8.
func (r *reader) text() string { return clean(r.Blob()) }

func clean(raw []byte) string { return strings.ToValidUTF8(string(raw), "\uFFFD") }

func (r *reader) microseconds() time.Duration {
	return time.Duration(min(r.Count(), math.MaxInt64/1000)) * time.Microsecond
}

func (r *reader) address() netip.AddrPort {
	raw := r.Blob()
	addr, ok := netip.AddrFromSlice(raw)
	port := r.Bytes(2)
	if !ok || r.Failed() {
		r.Fail()
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(addr, binary.BigEndian.Uint16(port))
}

// fields reads the fields of a header up to the end.
func (r *reader) fields() []Field {
	var fields []Field
	for r.More() {
		field := Field{Name: r.text()}
		if size := r.Count(); size == 0 {
			field.Hidden = true
		} else {
			field.Value = clean(r.Bytes(size - 1))
		}
		fields = append(fields, field)
	}
	slices.SortStableFunc(fields, func(a, b Field) int { return cmp.Compare(a.Name, b.Name) })
	return fields
}
