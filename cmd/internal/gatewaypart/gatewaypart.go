// Package gatewaypart adds the gateway to a process.
package gatewaypart

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"os"

	"waybill.dev/cmd/internal/boot"
	"waybill.dev/cmd/internal/settings"
	"waybill.dev/services/gateway"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/store/traffic"
)

// Add makes the gateway on the handles and adds it to p. The result answers on the process's
// HTTP address.
func Add(p *boot.Process, h *boot.Handles) (http.Handler, error) {
	counts := Traffic(p, h)
	return AddBefore(p, h, nil, nil, counts, Meters(h, counts))
}

// AddBefore is Add for a process with another handler. Requests for no deployment go to other. keys
// authenticates API keys; nil: the gateway does so itself.
func AddBefore(p *boot.Process, h *boot.Handles, other http.Handler, keys gateway.Authenticator, counts *gateway.Traffic, meters gateway.Meters) (http.Handler, error) {
	process, err := os.Hostname()
	if err != nil {
		process = "gateway"
	}
	authority, err := authority(h)
	if err != nil {
		return nil, err
	}
	service, err := gateway.New(gateway.Options{
		Store: h.Store, Bus: h.Bus, Keyring: h.Keyring, Authenticator: keys, Domain: h.Settings.GatewayDomain,
		Egress: &egress.Policy{Allow: h.Settings.GatewayEgressAllow, HTTP: h.Settings.EgressHTTP}, Own: h.Own, Process: process,
		TableMemory: h.Settings.GatewayTableMemory, Tables: h.Settings.GatewayTables, InFlight: h.Settings.GatewayInFlight,
		TrustedProxies: h.Settings.TrustedProxies, Memory: h.Memory, Traffic: counts, Meters: meters, Certificate: h.Certificate, ACME: authority, Logger: h.Logger, Registerer: h.Registry,
	})
	if err != nil {
		return nil, err
	}
	if h.TLS != nil {
		h.TLS, h.ConnContext = service.TLS(), service.ConnContext
	}
	p.Add("gateway", service.Run)
	return service.Handler(other), nil
}

// Meters returns the meters that hold the consumers that call the process to their plans. A process
// has one, whatever it serves.
func Meters(h *boot.Handles, counts *gateway.Traffic) gateway.Meters {
	return gateway.NewMeters(h.Store, counts, h.Logger, h.Registry)
}

// authority returns the configured certificate authority. Without TLS there is none.
func authority(h *boot.Handles) (gateway.ACME, error) {
	s := h.Settings
	if s.ACMEDirectory == "" || h.TLS == nil {
		return gateway.ACME{}, nil
	}
	a := gateway.ACME{Directory: s.ACMEDirectory, Email: s.ACMEEmail}
	if s.ACMECA == "" {
		return a, nil
	}
	text, err := os.ReadFile(s.ACMECA)
	if err != nil {
		return a, fmt.Errorf("read %s: %w", settings.ACMECA, err)
	}
	if a.Trusted = x509.NewCertPool(); !a.Trusted.AppendCertsFromPEM(text) {
		return a, fmt.Errorf("%s: the file has no PEM certificate", settings.ACMECA)
	}
	return a, nil
}

// Traffic adds the recorder that counts and logs the requests of the process. A process has one,
// whatever it serves.
func Traffic(p *boot.Process, h *boot.Handles) *gateway.Traffic {
	t := gateway.NewTraffic(gateway.TrafficOptions{
		Store: traffic.New(h.Store), Rate: h.Settings.RequestLogRate, Retention: h.Settings.RequestLogRetention,
		Logger: h.Logger, Registerer: h.Registry,
	})
	p.Add("traffic", t.Run)
	return t
}
