package domains

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"time"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/certificate"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
)

const (
	maxChain = 64 << 10
	maxKey   = 16 << 10
)

// readCertificate reads a certificate and its key, and checks that browsers would accept them for
// the hostname. Faults never show the key.
func readCertificate(f *input.Form, hostname string) (domain.UploadedCertificate, *x509.Certificate) {
	f.Require("certificate", "privateKey")
	chain, hasChain := f.Text("certificate", 1, maxChain)
	key, hasKey := f.Text("privateKey", 1, maxKey)
	if !hasChain {
		return domain.UploadedCertificate{}, nil
	}
	leaf, fault := readChain(chain)
	if leaf == nil {
		f.Fault(fault, "certificate")
		return domain.UploadedCertificate{}, nil
	}
	if fault := leafFault(leaf, hostname, time.Now()); fault != "" {
		f.Fault(fault, "certificate")
	}
	if hasKey {
		if _, err := tls.X509KeyPair([]byte(chain), []byte(key)); err != nil { // the error may show a part of the key
			f.Fault("must be the private key of the certificate, PEM without a password", "privateKey")
		}
	}
	sum := sha256.Sum256(leaf.Raw)
	return domain.UploadedCertificate{Chain: chain, PrivateKey: domain.Secret(key), Fingerprint: hex.EncodeToString(sum[:]), ValidTo: leaf.NotAfter}, leaf
}

// readChain returns the first certificate of a chain, or the reason why there is none.
func readChain(chain string) (leaf *x509.Certificate, fault string) {
	rest := []byte(chain)
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, "must have certificates alone, and no private key"
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, "has a certificate that can't be read"
		}
		if leaf == nil {
			leaf = c
		}
	}
	if leaf == nil {
		return nil, "must have PEM certificates, that of the hostname first"
	}
	return leaf, ""
}

// leafFault returns the reason why a certificate is not valid for a hostname; empty: it is valid.
func leafFault(leaf *x509.Certificate, hostname string, now time.Time) string {
	switch {
	case hostname != "" && leaf.VerifyHostname(hostname) != nil:
		return "must be for the hostname"
	case now.After(leaf.NotAfter):
		return "must not have ended: it did so on " + leaf.NotAfter.UTC().Format(time.RFC3339)
	case now.Before(leaf.NotBefore):
		return "must be valid now: it is so from " + leaf.NotBefore.UTC().Format(time.RFC3339)
	case !certificate.Strong(leaf.PublicKey):
		return "must have a key of RSA with 2048 bits or more, ECDSA with P-256 or more, or Ed25519"
	}
	return ""
}

type certificateInfo struct {
	Subject      string  `json:"subject"`
	Issuer       string  `json:"issuer"`
	ValidFrom    *string `json:"validFrom"`
	ValidTo      *string `json:"validTo"`
	SerialNumber string  `json:"serialNumber"`
}

func showCertificate(c *x509.Certificate) certificateInfo {
	return certificateInfo{c.Subject.String(), c.Issuer.String(), web.Stamp(c.NotBefore), web.Stamp(c.NotAfter), c.SerialNumber.Text(16)}
}
