package clientcas

import (
	"crypto/x509"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/certificate"
	"waybill.dev/shared/domain"
)

// CA is a CA certificate as callers see it.
type CA struct {
	ID                string  `json:"id"`
	Name              string  `json:"name"`
	CertificateInfo   Info    `json:"certificateInfo"`
	SHA256Fingerprint string  `json:"sha256Fingerprint"`
	CreatedOn         *string `json:"createdOn"`
	UpdatedOn         *string `json:"updatedOn"`
}

// Info is the content of a certificate.
type Info struct {
	Subject      string  `json:"subject"`
	Issuer       string  `json:"issuer"`
	ValidFrom    *string `json:"validFrom"`
	ValidTo      *string `json:"validTo"`
	SerialNumber string  `json:"serialNumber"`
}

// view returns a CA certificate as callers see it. It can be parsed, because it was checked at the
// upload.
func view(ca domain.ClientCA) CA {
	shown := CA{ID: ca.ID, Name: ca.Name, CreatedOn: web.Stamp(ca.CreatedOn), UpdatedOn: web.Stamp(ca.UpdatedOn)}
	if c, err := x509.ParseCertificate(ca.Certificate); err == nil {
		shown.SHA256Fingerprint = certificate.Fingerprint(c)
		shown.CertificateInfo = Info{
			certificate.Name(c.RawSubject), certificate.Name(c.RawIssuer), web.Stamp(c.NotBefore), web.Stamp(c.NotAfter), certificate.Serial(c),
		}
	}
	return shown
}
