package boot

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/cmd/internal/settings"
)

// lookEvery is how often the files of a certificate are checked.
const lookEvery = 2 * time.Second

// CertificateFiles reads the operator's certificate and its key from files, and reads both files again when one of
// them changes.
type CertificateFiles struct {
	cert, key string
	log       *slog.Logger
	read      atomic.Pointer[tls.Certificate]
	seen      string // state of the files when they were last read; used by Run
}

// NewCertificateFiles reads the files.
func NewCertificateFiles(cert, key string, log *slog.Logger, registry prometheus.Registerer) (*CertificateFiles, error) {
	f := &CertificateFiles{cert: cert, key: key, log: log}
	f.seen = f.look()
	if err := f.load(); err != nil {
		return nil, err
	}
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "waybill_tls_certificate_end_timestamp_seconds", Help: "When the certificate of " + settings.TLSCert + " ends.",
	}, func() float64 { return float64(f.read.Load().Leaf.NotAfter.Unix()) }))
	return f, nil
}

// Certificate returns the certificate, whatever name the client asks for.
func (f *CertificateFiles) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return f.read.Load(), nil
}

// Run looks at the files until ctx ends. Files that are no good change nothing.
func (f *CertificateFiles) Run(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now := f.look()
		if now == f.seen {
			continue
		}
		f.seen = now
		if err := f.load(); err != nil {
			f.log.Error("the TLS certificate has changed and can't be used; the one before goes on", "error", err)
			continue
		}
		f.log.Info("the TLS certificate has changed", "ends", f.read.Load().Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
}

// look returns a text that differs when the files have changed.
func (f *CertificateFiles) look() string {
	state := func(name string) string {
		info, err := os.Stat(name)
		if err != nil {
			return ""
		}
		return fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano())
	}
	return state(f.cert) + ";" + state(f.key)
}

func (f *CertificateFiles) load() error {
	c, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return fmt.Errorf("read %s and %s: %w", settings.TLSCert, settings.TLSKey, err)
	}
	f.read.Store(&c)
	return nil
}

// openTLS listens for TLS connections, if that is set.
func (h *Handles) openTLS(ctx context.Context, p *Process) error {
	s := h.Settings
	if s.TLSAddr == "" {
		return nil
	}
	var err error
	h.tls, err = Listen(ctx, ServerOptions{
		Name: "TLS", Addr: s.TLSAddr, Setting: "--tls or " + settings.TLSAddr, Logger: h.Logger,
		MaxConnections: s.MaxConnections, TrustedProxies: s.TrustedProxies, Registerer: h.Registry,
	})
	if err != nil {
		return err
	}
	p.AddCloser("TLS address", h.tls.Close)
	h.TLS = &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if s.TLSCert == "" {
		return nil
	}
	files, err := NewCertificateFiles(s.TLSCert, s.TLSKey, h.Logger, h.Registry)
	if err != nil {
		return err
	}
	p.Add("TLS certificate", files.Run)
	h.Certificate = files.Certificate
	h.TLS.GetCertificate = files.Certificate
	return nil
}
