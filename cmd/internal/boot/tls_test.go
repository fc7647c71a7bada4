package boot_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/cmd/internal/boot"
	"waybill.dev/shared/certificate/certificatetest"
)

// The operator's certificate is read again when its files change. Files that are no good leave the
// one before in use.
func TestCertificateFilesAreWatched(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key")
	first, second := certificatetest.NewCA(t, "first", nil), certificatetest.NewCA(t, "second", nil)
	if _, err := boot.NewCertificateFiles(cert, key, quiet, prometheus.NewRegistry()); err == nil || !strings.Contains(err.Error(), "read WAYBILL_TLS_CERT and WAYBILL_TLS_KEY: ") {
		t.Errorf("without files: %v", err)
	}
	write(t, cert, first.PEM())
	write(t, key, keyText(t, first))
	synctest.Test(t, func(t *testing.T) {
		files, err := boot.NewCertificateFiles(cert, key, quiet, prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- files.Run(ctx) }()
		serves := func(when, want string) {
			t.Helper()
			<-time.After(10 * time.Second) // of the bubble's clock
			synctest.Wait()
			c, err := files.Certificate(nil)
			if err != nil || c.Leaf.Subject.CommonName != want {
				t.Errorf("%s: %s, %v; want %s", when, c.Leaf.Subject.CommonName, err, want)
			}
		}
		serves("at first", "first")
		write(t, cert, second.PEM())
		serves("with another's key", "first")
		write(t, key, keyText(t, second))
		serves("with its own key", "second")
		write(t, cert, "half a certifi")
		serves("while the file is written", "second")
		if err := os.Remove(cert); err != nil {
			t.Fatal(err)
		}
		serves("without the file", "second")
		write(t, cert, first.PEM()+"\n")
		write(t, key, keyText(t, first)+"\n")
		serves("with both again", "first")
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func keyText(t *testing.T, of *certificatetest.Issuer) string {
	t.Helper()
	raw, err := x509.MarshalPKCS8PrivateKey(of.Key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}
