package route_test

import (
	"testing"

	"waybill.dev/services/gateway/internal/route"
)

// Headers that say who calls are known in every spelling that a reader could take for them.
func TestSaysCaller(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"X-Waybill-Account": true, "x_waybill_consumer": true, "X-WAYBILL-": true, "X-Waybill": false, "X-Waybills-Account": false,
		"Client-Cert": true, "client_cert": true, "CLIENT-CERT": true, "Client.Cert": true, "Client-Cert-Subject": true, "client_cert_fingerprint": true,
		"Client-Cert-Chain": true, "Client-Certain": false, "Client-Certificate": false, "Client-Cer": false, "X-Client-Cert": false, "": false,
	} {
		if got := route.SaysCaller(name); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
}
