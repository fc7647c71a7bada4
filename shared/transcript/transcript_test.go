package transcript_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/transcript"
)

var sent = transcript.SentRequest{
	URL: "https://receiver.example/hooks?v=2", UserAgent: "Waybill/1.0", Signature: "v1,c2lnbmF0dXJlLW9mLTMyLWJ5dGVzLWluLWJhc2U2NCE=",
	TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Own: []string{"X-Tenant", "Authorization"}, BodySize: 212,
}

var of = transcript.Of{EventID: "evt_1", Delivery: "dlv_1", Number: 3, StartedAt: time.Unix(1_790_000_000, 999_000_000)}

func got() *transcript.Got {
	return &transcript.Got{
		Remote: netip.MustParseAddrPort("[2001:db8::1]:8443"),
		Header: http.Header{"Server": {"nginx"}, "Date": {"Mon, 23 Nov 2026 12:00:00 GMT"}, "X-Two": {"a", "b"}},
		Phases: domain.Phases{DNS: 1500 * time.Microsecond, Connect: time.Nanosecond, TLS: 30 * time.Millisecond, FirstByte: time.Second},
	}
}

var equal = cmp.Options{cmpopts.EquateEmpty(), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })}

func decode(t *testing.T, raw []byte) transcript.Transcript {
	t.Helper()
	out, err := transcript.Decode(raw, of)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWhatWasSentAndGotComesOut(t *testing.T) {
	t.Parallel()
	raw := transcript.Encode(&sent, got())
	if len(raw) > 330 {
		t.Errorf("it takes %d bytes", len(raw))
	}
	want := transcript.Transcript{
		URL: sent.URL, Remote: netip.MustParseAddrPort("[2001:db8::1]:8443"),
		Request: []transcript.Field{
			{Name: "Host", Value: "receiver.example"}, {Name: "Content-Length", Value: "212"},
			{Name: "Content-Type", Value: "application/json"}, {Name: "User-Agent", Value: "Waybill/1.0"},
			{Name: "webhook-id", Value: "evt_1"}, {Name: "webhook-timestamp", Value: "1790000000"},
			{Name: "webhook-signature", Value: sent.Signature}, {Name: "Waybill-Delivery-Id", Value: "dlv_1"},
			{Name: "Waybill-Attempt", Value: "3"}, {Name: "traceparent", Value: sent.TraceParent},
			{Name: "X-Tenant", Hidden: true}, {Name: "Authorization", Hidden: true},
		},
		Response: []transcript.Field{
			{Name: "Date", Value: "Mon, 23 Nov 2026 12:00:00 GMT"}, {Name: "Server", Value: "nginx"},
			{Name: "X-Two", Value: "a"}, {Name: "X-Two", Value: "b"},
		},
		Phases: domain.Phases{DNS: 1500 * time.Microsecond, Connect: time.Microsecond, TLS: 30 * time.Millisecond, FirstByte: time.Second},
	}
	if diff := cmp.Diff(want, decode(t, raw), equal); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A body that was cut is told of. Other transcripts are as earlier builds read them.
func TestTruncated(t *testing.T) {
	t.Parallel()
	whole, g := transcript.Encode(&sent, got()), got()
	g.Truncated = true
	cut := transcript.Encode(&sent, g)
	if whole[0] != 1 || decode(t, whole).Truncated || !decode(t, cut).Truncated {
		t.Errorf("whole %x, cut %x", whole[0], cut[0])
	}
	want := decode(t, whole)
	want.Truncated = true
	if diff := cmp.Diff(want, decode(t, cut), equal); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Before a connection was there, nothing was sent.
func TestNothingIsSentWithoutAConnection(t *testing.T) {
	t.Parallel()
	raw := transcript.Encode(&sent, &transcript.Got{Phases: domain.Phases{DNS: 5 * time.Millisecond}})
	want := transcript.Transcript{URL: sent.URL, Phases: domain.Phases{DNS: 5 * time.Millisecond}}
	if diff := cmp.Diff(want, decode(t, raw), equal); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if out := decode(t, nil); out.URL != "" || out.Request != nil {
		t.Errorf("of an attempt without a transcript: %+v", out)
	}
}

func TestSecretsAreNotKept(t *testing.T) {
	t.Parallel()
	header := http.Header{"Location": {"/elsewhere"}, "X-Request-Id": {"r1"}}
	for _, name := range []string{
		"Set-Cookie", "Set-Cookie2", "Authorization", "Proxy-Authenticate", "Www-Authenticate", "Authentication-Info",
		"X-Auth-Token", "X-Api-Key", "X-Csrf-Token", "X-Amz-Security-Token", "X-Session-Id", "x-sECRET", "X-Credential",
	} {
		header[name] = []string{"hunter2", "hunter2 again"}
	}
	g := got()
	g.Header = header
	raw := transcript.Encode(&sent, g)
	if bytes.Contains(raw, []byte("hunter2")) {
		t.Errorf("a secret is kept: %q", raw)
	}
	for _, field := range decode(t, raw).Response {
		if open := field.Name == "Location" || field.Name == "X-Request-Id"; open == field.Hidden {
			t.Errorf("%+v", field)
		}
	}
}

func TestAnswersHeadersAreBounded(t *testing.T) {
	t.Parallel()
	g := got()
	g.Header = http.Header{"A": {"first"}, "Large": {strings.Repeat("x", 4000), strings.Repeat("y", 4000)}, "Z": {"last"}}
	raw := transcript.Encode(&sent, g)
	fields := decode(t, raw).Response
	if len(fields) != 2 || fields[0].Name != "A" || fields[1].Value[0] != 'x' || len(raw) > transcript.MaxResponseHeaders+400 {
		t.Errorf("%d bytes, %d fields", len(raw), len(fields))
	}
	g.Header = http.Header{"Server": {"caf\xe9\x00"}}
	if fields := decode(t, transcript.Encode(&sent, g)).Response; fields[0].Value != "caf\uFFFD\x00" {
		t.Errorf("what is no text: %+v", fields)
	}
}

func TestWhatIsNoTranscriptIsRefused(t *testing.T) {
	t.Parallel()
	good := transcript.Encode(&sent, got())
	for name, raw := range map[string][]byte{"nothing": {}, "another version": append([]byte{3}, good[1:]...), "text that is cut": good[:5]} {
		if _, err := transcript.Decode(raw, of); !errors.Is(err, transcript.ErrForm) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(transcript.Encode(&sent, got()))
	f.Add(transcript.Encode(&sent, &transcript.Got{}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		out, err := transcript.Decode(raw, of)
		if err != nil {
			return
		}
		if n := len(out.Request) + len(out.Response); n > len(raw)+10 {
			t.Errorf("%d fields of %d bytes", n, len(raw))
		}
		for _, field := range append(out.Request, out.Response...) {
			if field.Hidden && field.Value != "" {
				t.Errorf("a hidden value is shown: %+v", field)
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	g := got()
	g.Header = http.Header{"Date": {"Mon, 23 Nov 2026 12:00:00 GMT"}, "Content-Type": {"text/plain; charset=utf-8"}, "Content-Length": {"2"}}
	g.Phases = domain.Phases{FirstByte: 3 * time.Millisecond, Body: time.Microsecond}
	s := sent
	s.TraceParent, s.Own = "", nil
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n = len(transcript.Encode(&s, g))
	}
	b.ReportMetric(float64(n), "bytes")
}
