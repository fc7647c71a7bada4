package domain

import (
	"math/rand/v2"
	"time"
)

// Bounds of custom domains.
const (
	MaxCustomDomains = 100 // of an account
	// DomainFirstCheckInterval is how often DNS is checked during DomainFirstPhase for a domain that waits for its proof,
	// and DomainLaterCheckInterval how often after it, until DomainWaitTime has passed.
	DomainFirstCheckInterval = time.Minute
	DomainFirstPhase         = time.Hour
	DomainLaterCheckInterval = time.Hour
	DomainWaitTime           = 7 * 24 * time.Hour
	// DomainCheckActive is how often DNS is checked for an active domain, give or take DomainCheckSpread.
	DomainCheckActive = 7 * 24 * time.Hour
	DomainCheckSpread = 24 * time.Hour
	// DomainNoticeTime is how long an account that has a hostname, but whose proof is gone, may show its proof
	// again before the hostname passes to an account with a newer proof.
	DomainNoticeTime = 72 * time.Hour
	// DomainRemovedTime is how long gateways may take to learn that a domain was removed.
	DomainRemovedTime = 24 * time.Hour
	// CertificateRenewalTime is how long before the end of a certificate an authority is asked for the
	// next one at the latest.
	CertificateRenewalTime = 30 * 24 * time.Hour
)

// DomainRecord comes before a hostname in the name of the TXT record that proves which account has the hostname.
const DomainRecord = "_waybill."

// DomainProof begins the value of that record. The rest of the value differs for each account.
const DomainProof = "waybill-verification="

// CustomDomain is a hostname of an account's own that leads to one of its deployments.
type CustomDomain struct {
	ID         string
	Account    string
	Hostname   string // in lower case, as in DNS
	Deployment string // empty: none
	// Project, Branch and EnvironmentType are those of the deployment.
	Project         string
	Branch          string
	EnvironmentType EnvironmentType
	IsDefault       bool // of the deployment
	// Token is the value that the TXT record has to have.
	Token string
	// Answers are the last answers of DNS, in words. Empty: there is nothing to report.
	Answers     []string
	Certificate HostCertificate
	CreatedOn   time.Time
	UpdatedOn   time.Time
	VerifiedOn  time.Time // zero: the domain waits
	CheckedOn   time.Time // when DNS was last checked; zero: not yet
	NextCheckOn time.Time // zero: DNS is not checked automatically
	ProvenOn    time.Time // when DNS last had the token; zero: never
	// NoticeOn is when it was noticed that the hostname will pass from one account to another: from this account
	// if the domain is active, otherwise to this account. Zero: the hostname does not pass.
	NoticeOn time.Time
	LostOn   time.Time // when the hostname passed to another account; zero: never
}

// Active reports whether the account has the hostname.
func (d *CustomDomain) Active() bool { return !d.VerifiedOn.IsZero() }

// NoticeUntil returns the earliest time at which the hostname passes; zero: it does not pass.
func (d *CustomDomain) NoticeUntil() time.Time {
	if d.NoticeOn.IsZero() {
		return time.Time{}
	}
	return d.NoticeOn.Add(DomainNoticeTime)
}

// NextCheck returns when DNS is checked next; zero: never again.
func (d *CustomDomain) NextCheck(now time.Time) time.Time {
	switch age := now.Sub(d.CreatedOn); {
	case !d.NoticeOn.IsZero():
		return now.Add(DomainLaterCheckInterval)
	case d.Active():
		return now.Add(DomainCheckActive - DomainCheckSpread + rand.N(2*DomainCheckSpread)) //nolint:gosec // spreads look-ups, which needs no secrecy
	case age < DomainFirstPhase:
		return now.Add(DomainFirstCheckInterval)
	case age < DomainWaitTime:
		return now.Add(DomainLaterCheckInterval)
	}
	return time.Time{}
}

// CertificateSource says where the certificate of a custom domain comes from.
type CertificateSource string

// The sources of certificates.
const (
	CertificateUploaded CertificateSource = "uploaded"
	CertificateACME     CertificateSource = "acme" // given by a certificate authority
)

// HostCertificate is the state of the certificate of a custom domain.
type HostCertificate struct {
	Source  CertificateSource // empty: there is no certificate, and none was asked for
	ValidTo time.Time         // zero: there is no certificate yet
	Error   string            // why the last order failed; empty: it did not fail
}

// The statuses of a certificate.
const (
	CertificateNone    = "none"
	CertificateIssuing = "issuing"
	CertificateActive  = "active"
	CertificateFailed  = "failed"
	CertificateExpired = "expired"
)

// Status returns the status at a time.
func (c *HostCertificate) Status(now time.Time) string {
	switch {
	case c.Source == "":
		return CertificateNone
	case c.ValidTo.IsZero() && c.Error != "":
		return CertificateFailed
	case c.ValidTo.IsZero():
		return CertificateIssuing
	case c.ValidTo.Before(now):
		return CertificateExpired
	}
	return CertificateActive
}

// UploadedCertificate is a certificate that a user got somewhere else.
type UploadedCertificate struct {
	Chain       string // PEM, the certificate of the host first
	PrivateKey  Secret // PEM
	Fingerprint string // SHA-256 of the first certificate
	ValidTo     time.Time
}
