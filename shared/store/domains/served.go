package domains

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// ServedDomain is a custom domain as gateways get it. An account has or had its hostname.
type ServedDomain struct {
	ID         string
	Account    string
	Hostname   string
	Deployment string // empty: none
	// Uploaded is the fingerprint of the certificate that a user has uploaded; empty: none.
	Uploaded string
	// ValidTo is the end of the certificate from an authority; zero: there has been none.
	ValidTo time.Time
	Removed bool
}

type servedRow struct {
	ID          string
	Account     string
	Hostname    string
	Deployment  string
	Fingerprint string
	NotAfter    store.Instant
	RemovedAt   store.Instant
}

// ServedDomains returns the verified domains of all accounts that changed after version since,
// removed ones included, and the version that this covers. since 0: all that exist.
func (s *Domains) ServedDomains(ctx context.Context, since int64) ([]ServedDomain, int64, error) {
	var served []ServedDomain
	var version int64
	err := s.db.Snapshot(ctx, func(tx *gorm.DB) error {
		if err := tx.Raw("SELECT version FROM gateway_version WHERE id = 1").Scan(&version).Error; err != nil {
			return err
		}
		condition := "d.version > ?"
		if since == 0 {
			condition = "d.version >= ? AND d.removed_at IS NULL"
		}
		var rows []servedRow
		err := tx.Raw(`SELECT d.id, d.account, d.hostname, d.deployment, COALESCE(c.fingerprint, '') AS fingerprint, s.not_after, d.removed_at
			FROM gateway_domains d LEFT JOIN gateway_domain_certificates c ON c.domain_id = d.id LEFT JOIN gateway_acme_states s ON s.hostname = d.hostname
			WHERE d.verified_at IS NOT NULL AND `+condition+` ORDER BY d.version`, since).Scan(&rows).Error
		if err != nil {
			return fmt.Errorf("read custom domains: %w", err)
		}
		served = make([]ServedDomain, len(rows))
		for i, r := range rows {
			served[i] = ServedDomain{r.ID, r.Account, r.Hostname, r.Deployment, r.Fingerprint, r.NotAfter.Time(), r.RemovedAt != 0}
		}
		return nil
	})
	return served, version, store.Wrap("read served domains", err)
}

// UploadedCertificate returns the certificate that a user has uploaded for a domain. It fails with
// domain.ErrNotFound when there is none.
func (s *Domains) UploadedCertificate(ctx context.Context, id string) (domain.UploadedCertificate, error) {
	var row certificateRow
	if err := s.db.Reading(ctx).Where("domain_id = ?", id).Take(&row).Error; err != nil {
		return domain.UploadedCertificate{}, store.Wrap("read uploaded certificate", err)
	}
	key, err := s.db.Unseal(row.PrivateKey, sealData(row.DomainID))
	if err != nil {
		return domain.UploadedCertificate{}, store.Wrap("read key of uploaded certificate", errors.Join(domain.ErrUnreadable, err))
	}
	return domain.UploadedCertificate{
		Chain: row.Chain, PrivateKey: domain.Secret(key), Fingerprint: row.Fingerprint, ValidTo: row.NotAfter.Time(),
	}, nil
}

// sqlServed is the condition that a custom domain is served with the certificate s from an authority. It makes the database
// begin with the certificates that end, not with all domains: because of the OFFSET, Postgres does not join the domains first.
const sqlServed = `EXISTS (SELECT 1 FROM gateway_domains d WHERE d.hostname = s.hostname AND d.verified_at IS NOT NULL AND d.removed_at IS NULL
	AND NOT EXISTS (SELECT 1 FROM gateway_domain_certificates c WHERE c.domain_id = d.id) LIMIT 1 OFFSET 0)`

// CertificatesThatEnd returns the hostnames of custom domains that are served with a certificate from an authority
// that ends before a time, and have no uploaded one.
func (s *Domains) CertificatesThatEnd(ctx context.Context, before time.Time) ([]string, error) {
	var names []string
	err := s.db.Reading(ctx).Raw("SELECT s.hostname FROM gateway_acme_states s WHERE s.not_after < ? AND "+sqlServed, store.InstantOf(before)).Scan(&names).Error
	return names, store.Wrap("read ends of certificates", err)
}
