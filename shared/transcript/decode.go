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
)

// ErrForm is returned for bytes that this build can't read as a transcript.
var ErrForm = errors.New("not a transcript that this version reads")

// Decode reads a transcript. Nil stands for an attempt that has none: nothing is known then.
func Decode(raw []byte, of Of) (Transcript, error) {
	if raw == nil {
		return Transcript{}, nil
	}
	if len(raw) == 0 || raw[0] != version && raw[0] != versionTruncated {
		return Transcript{}, ErrForm
	}
	r := &reader{left: raw[1:]}
	t := Transcript{Truncated: raw[0] == versionTruncated}
	var s Sent
	s.URL = r.text()
	t.URL = s.URL
	for _, phase := range [...]*time.Duration{&t.Phases.DNS, &t.Phases.Connect, &t.Phases.TLS, &t.Phases.FirstByte, &t.Phases.Body} {
		*phase = r.microseconds()
	}
	if !r.failed && len(r.left) > 0 {
		t.Remote = r.address()
		s.UserAgent, s.Signature, s.TraceParent = r.text(), r.text(), r.text()
		s.BodySize = int(min(r.uvarint(), math.MaxInt32))
		for range r.count() {
			s.Own = append(s.Own, r.text())
		}
		t.Request = of.request(&s)
		t.Response = r.fields()
	}
	if r.failed {
		return Transcript{}, ErrForm
	}
	return t, nil
}

// reader reads on until something is missing; what it returns from then on means nothing.
type reader struct {
	left   []byte
	failed bool
}

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.left)
	if size <= 0 {
		r.left, r.failed = nil, true
		return 0
	}
	r.left = r.left[size:]
	return n
}

// count reads how many texts follow: each has a byte at least.
func (r *reader) count() uint64 {
	n := r.uvarint()
	if n > uint64(len(r.left)) {
		r.failed = true
		return 0
	}
	return n
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.left)) {
		r.left, r.failed = nil, true
		return nil
	}
	part := r.left[:n]
	r.left = r.left[n:]
	return part
}

// text reads what a receiver may have sent: it becomes valid UTF-8.
func (r *reader) text() string { return clean(r.bytes(r.uvarint())) }

func clean(raw []byte) string { return strings.ToValidUTF8(string(raw), "\uFFFD") }

func (r *reader) microseconds() time.Duration {
	return time.Duration(min(r.uvarint(), math.MaxInt64/1000)) * time.Microsecond
}

func (r *reader) address() netip.AddrPort {
	raw := r.bytes(r.uvarint())
	addr, ok := netip.AddrFromSlice(raw)
	port := r.bytes(2)
	if !ok || r.failed {
		r.failed = true
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(addr, binary.BigEndian.Uint16(port))
}

// fields reads a header to the end.
func (r *reader) fields() []Field {
	var fields []Field
	for len(r.left) > 0 {
		field := Field{Name: r.text()}
		if size := r.uvarint(); size == 0 {
			field.Hidden = true
		} else {
			field.Value = clean(r.bytes(size - 1))
		}
		fields = append(fields, field)
	}
	slices.SortStableFunc(fields, func(a, b Field) int { return cmp.Compare(a.Name, b.Name) })
	return fields
}
