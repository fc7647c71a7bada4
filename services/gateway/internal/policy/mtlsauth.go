package policy

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/certificate"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/problem"
)

// mtlsAuth lets callers in that have a certificate of one of the account's CAs.
type mtlsAuth struct {
	account  string
	issuer   string // required issuer of the certificate; empty: any of the CAs
	optional bool   // callers without a valid certificate are let in, too
	forward  bool   // the back end gets the certificate
}

type mtlsAuthOptions struct {
	AllowUnauthenticated bool `json:"allowUnauthenticatedRequests"`
	CertIssuerDN         string
	Forward              bool
}

func mtlsAuthPolicy() Policy {
	return Policy{
		Name: "mtls-auth-inbound", Export: "MTLSAuthInboundPolicy",
		About: "Lets callers pass who show a [client certificate](certificates.md) that a CA of the account has issued directly. Other callers get 401, and so does everybody on plain HTTP. " +
			"`api-key-inbound` may ask for a key besides.",
		Options: `{
			"type": "object", "additionalProperties": false,
			"properties": {
				"certIssuerDN": {
					"type": "string", "minLength": 1, "maxLength": 4096,
					"description": "The name of the CA that must have issued the certificate, as ` + "`certificateInfo/subject`" + ` shows it: ` + "`CN=…,O=…`" + `. Case and blanks don't matter, the order of the parts does. It must be there unless ` + "`allowUnauthenticatedRequests`" + ` is true."
				},
				"allowUnauthenticatedRequests": {
					"type": "boolean", "default": false,
					"description": "Callers without a certificate that is good pass, too, as callers that nobody knows."
				},
				"forward": {
					"type": "boolean", "default": false,
					"description": "The back end gets the certificate in ` + "`Client-Cert`" + ` (RFC 9440), ` + "`Client-Cert-Subject` and `Client-Cert-Fingerprint`" + `. Callers can't set these headers."
				}
			}
		}`,
		Example: `{"certIssuerDN": "CN=Partner CA,O=Acme"}`,
		New:     typed(newMTLSAuth),
	}
}

func newMTLSAuth(o *mtlsAuthOptions, env *Env) (Parts, []Fault) {
	var faults []Fault
	if o.CertIssuerDN == "" && !o.AllowUnauthenticated {
		faults = append(faults, Fault{Pointer: "/certIssuerDN", Detail: "must be there unless allowUnauthenticatedRequests is true"})
	}
	return Parts{In: &mtlsAuth{env.Account, o.CertIssuerDN, o.AllowUnauthenticated, o.Forward}}, faults
}

// certificateError refuses a caller. The reason goes only to the log of the request.
type certificateError struct{ reason string }

// Error implements error.
func (e *certificateError) Error() string { return "client certificate: " + e.reason }

// Unwrap returns the problem that the caller gets.
func (e *certificateError) Unwrap() error {
	p := problem.New(problem.Unauthenticated, "A client certificate of a CA that is trusted here is required.")
	p.Challenge = "ClientCertificate"
	return p
}

// Entry implements route.Told.
func (e *certificateError) Entry() (message string, attributes []any) {
	return "The client certificate was refused: " + e.reason + ".", nil
}

// In checks the certificate of the connection at every request: the CA may have been deleted since
// the last one.
func (m *mtlsAuth) In(ctx context.Context, r *route.Request) (*route.Response, error) {
	shown, err := m.verify(ctx, r)
	switch {
	case errors.Is(err, domain.ErrUnavailable):
		return nil, err
	case err != nil && m.optional:
		return nil, nil
	case err != nil:
		return nil, &certificateError{err.Error()}
	}
	r.Certificate = shown
	if m.forward {
		forward(r, shown)
	}
	return nil, nil
}

var (
	errNotHere     = errors.New("none is looked at here")
	errOtherIssuer = errors.New("certIssuerDN names another CA")
)

func (m *mtlsAuth) verify(ctx context.Context, r *route.Request) (*route.Certificate, error) {
	if r.Runtime.ClientCertificates == nil {
		return nil, errNotHere
	}
	shown, err := r.Runtime.ClientCertificates.Verify(ctx, m.account, r.TLS)
	if err == nil && m.issuer != "" && !certificate.Same(m.issuer, shown.Issuer) {
		return nil, errOtherIssuer
	}
	return shown, err
}

// forward sets the headers that describe the certificate to the back end.
func forward(r *route.Request, shown *route.Certificate) {
	if r.Header == nil {
		r.Header = make(http.Header)
	}
	if r.Outgoing == nil {
		r.Outgoing = make(http.Header)
	}
	for _, header := range []http.Header{r.Header, r.Outgoing} {
		header.Set(route.CertificateHeader, ":"+base64.StdEncoding.EncodeToString(shown.Raw)+":")
		header.Set(route.SubjectHeader, certificate.ASCII(shown.Subject))
		header.Set(route.FingerprintHeader, shown.Fingerprint)
	}
}
