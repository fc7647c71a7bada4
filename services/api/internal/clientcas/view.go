package clientcas

import (
	"crypto/x509"

	"waybill.dev/services/api/internal/web"
	"waybill.dev/shared/certificate"
	"waybill.dev/shared/domain"
)

type caView struct {
	ID                string   `json:"id"`
	Name              string   `json:"name"`
	CertificateInfo   infoView `json:"certificateInfo"`
	SHA256Fingerprint string   `json:"sha256Fingerprint"`
	CreatedOn         *string  `json:"createdOn"`
	UpdatedOn         *string  `json:"updatedOn"`
}

// infoView is what a certificate says of itself.
type infoView struct {
	Subject      string  `json:"subject"`
	Issuer       string  `json:"issuer"`
	ValidFrom    *string `json:"validFrom"`
	ValidTo      *string `json:"validTo"`
	SerialNumber string  `json:"serialNumber"`
}

// view shows a CA certificate. It could be read when it was uploaded.
func view(ca domain.ClientCA) caView {
	shown := caView{ID: ca.ID, Name: ca.Name, CreatedOn: web.Stamp(ca.CreatedOn), UpdatedOn: web.Stamp(ca.UpdatedOn)}
	if c, err := x509.ParseCertificate(ca.Certificate); err == nil {
		shown.SHA256Fingerprint = certificate.Fingerprint(c)
		shown.CertificateInfo = infoView{
			certificate.Name(c.RawSubject), certificate.Name(c.RawIssuer), web.Stamp(c.NotBefore), web.Stamp(c.NotAfter), certificate.Serial(c),
		}
	}
	return shown
}
