package egress_test

import (
	"context"
	"testing"
	"time"

	"waybill.dev/shared/egress"
	"waybill.dev/shared/egress/hostile"
)

// Who reads the log of a webhook must know what to mend: the chain of certificates, the
// name, the clock, or the scheme.
func TestTextsTellTLSFailuresApart(t *testing.T) {
	quiet(t)
	const failed = "could not be reached: TLS handshake failed"
	want := map[string]string{
		"TLS: certificate of nobody":   failed + ": the certificate comes from an unknown authority",
		"TLS: expired":                 failed + ": the certificate has expired or is not valid yet",
		"TLS: another name":            failed + ": the certificate is for another name",
		"TLS: plain text":              failed + ": the receiver does not speak TLS on this port",
		"TLS: silent":                  failed + ": it took too long",
		"TLS: closes in the handshake": failed,
	}
	for _, sink := range hostile.Sinks() {
		text, listed := want[sink.Name]
		if !listed {
			continue
		}
		delete(want, sink.Name)
		t.Run(sink.Name, func(t *testing.T) {
			url := sink.Start(t)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			r := client(t, egress.Options{TLSTimeout: 2 * time.Second}).Post(ctx, &egress.Request{URL: url, Body: []byte("{}")})
			if r.Code != egress.CodeTLS || r.Err.Text() != text {
				t.Errorf("code %q, text %q, want %q (%v)", r.Code, r.Err.Text(), text, r.Err.Unwrap())
			}
		})
	}
	if len(want) > 0 {
		t.Errorf("no such sinks: %v", want)
	}
}
