package clientcert

import (
	"crypto/x509"
	"errors"
	"time"
)

// maxNames bounds the names of CAs in a handshake, in bytes. Beyond that, clients get no names: the
// message may have 64 KiB at most.
const maxNames = 16 << 10

// set is the CAs of an account. It never changes.
type set struct {
	pool  *x509.CertPool
	names *x509.CertPool // the CAs that clients are told of; nil: none
	list  []*x509.Certificate
}

func newSet(list []*x509.Certificate) *set {
	s := &set{pool: x509.NewCertPool(), list: list}
	size := 0
	for _, c := range list {
		s.pool.AddCert(c)
		size += len(c.RawSubject)
	}
	if size <= maxNames {
		s.names = s.pool
	}
	return s
}

// Faults of certificates. Their texts go on after "was refused:".
var (
	errNoTLS     = errors.New("the request did not come by TLS")
	errNone      = errors.New("none was shown")
	errNoCAs     = errors.New("the account has no CA certificates")
	errIsCA      = errors.New("it is the certificate of a CA itself")
	errUnknown   = errors.New("no CA of the account has issued it")
	errTime      = errors.New("it, or its CA, is not good at this time")
	errPurpose   = errors.New("it is not for clients")
	errElsewhere = errors.New("it can't be verified")
)

// check reports whether one of the CAs has issued the certificate, and whether it is valid at a
// time. Other certificates that the client has sent do not count, not even intermediate CAs.
func (s *set) check(leaf *x509.Certificate, now time.Time) error {
	if s == nil {
		return errNoCAs
	}
	if leaf.IsCA {
		return errIsCA
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: s.pool, Intermediates: x509.NewCertPool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return errUnknown
	}
	invalid, _ := errors.AsType[x509.CertificateInvalidError](err)
	switch {
	case invalid.Cert != nil && invalid.Reason == x509.Expired:
		return errTime
	case invalid.Cert != nil && invalid.Reason == x509.IncompatibleUsage:
		return errPurpose
	}
	return errElsewhere
}

// holdsUntil returns until when the verdict of now holds. Before that, time alone can't change it.
func (s *set) holdsUntil(leaf *x509.Certificate, now time.Time) time.Time {
	var soonest time.Time
	note := func(c *x509.Certificate) {
		for _, at := range []time.Time{c.NotBefore, c.NotAfter} {
			if !at.Before(now) && (soonest.IsZero() || at.Before(soonest)) {
				soonest = at
			}
		}
	}
	note(leaf)
	if s != nil {
		for _, c := range s.list {
			note(c)
		}
	}
	return soonest
}
