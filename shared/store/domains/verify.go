package domains

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
)

// ClaimChecks returns up to limit domains that are due for a check of DNS, and sets when they are
// due again, so that no other process checks them at the same time.
func (s *Domains) ClaimChecks(ctx context.Context, limit int) ([]domain.CustomDomain, error) {
	var claimed []domain.CustomDomain
	err := s.db.Tx(ctx, func(tx *gorm.DB) error {
		claimed = nil
		now := s.db.Now()
		due := tx.Where("next_check_at <= ? AND removed_at IS NULL", store.InstantOf(now)).Order("next_check_at").Limit(limit)
		if !s.db.SQLite() {
			due = due.Clauses(clause.Locking{Strength: "NO KEY UPDATE", Options: "SKIP LOCKED"})
		}
		var rows []domainRow
		if err := due.Find(&rows).Error; err != nil {
			return fmt.Errorf("read custom domains that are due: %w", err)
		}
		for i := range rows {
			d, err := rows[i].domain()
			if err != nil {
				return err
			}
			next := store.InstantOf(d.NextCheck(now))
			if err := tx.Model(&rows[i]).UpdateColumn("next_check_at", next).Error; err != nil {
				return fmt.Errorf("claim check of custom domain: %w", err)
			}
			claimed = append(claimed, d)
		}
		return nil
	})
	return claimed, store.Wrap("claim checks of custom domains", err)
}

// PutCertificate stores an uploaded certificate for a domain, in place of an earlier one.
func (s *Domains) PutCertificate(ctx context.Context, account, hostname string, c domain.UploadedCertificate) error {
	err := s.db.Tx(ctx, func(tx *gorm.DB) error {
		row, err := s.getRow(tx, account, hostname, store.LockChange)
		if err != nil {
			return err
		}
		now := store.InstantOf(s.db.Now())
		certificate := certificateRow{DomainID: row.ID, Chain: c.Chain, Fingerprint: c.Fingerprint, NotAfter: store.InstantOf(c.ValidTo), CreatedAt: now}
		if certificate.PrivateKey, err = s.db.Seal([]byte(c.PrivateKey.Reveal()), sealData(row.ID)); err != nil {
			return err
		}
		if err := tx.Save(&certificate).Error; err != nil {
			return fmt.Errorf("write certificate of custom domain: %w", err)
		}
		row.UpdatedAt = now
		if err := s.auditChange(ctx, tx, auditlog.ActionPutCertificate, &row); err != nil {
			return err
		}
		return s.saveRow(ctx, tx, &row)
	})
	return store.Wrap("upload certificate of custom domain", err)
}

// DeleteCertificate removes the uploaded certificate of a domain.
func (s *Domains) DeleteCertificate(ctx context.Context, account, hostname string) error {
	err := s.db.Tx(ctx, func(tx *gorm.DB) error {
		row, err := s.getRow(tx, account, hostname, store.LockChange)
		if err != nil {
			return err
		}
		result := tx.Where("domain_id = ?", row.ID).Delete(&certificateRow{})
		if result.Error != nil {
			return fmt.Errorf("delete certificate of custom domain: %w", result.Error)
		}
		if result.RowsAffected == 0 {
			return domain.ErrNotFound
		}
		row.UpdatedAt = store.InstantOf(s.db.Now())
		if err := s.auditChange(ctx, tx, auditlog.ActionDeleteCertificate, &row); err != nil {
			return err
		}
		return s.saveRow(ctx, tx, &row)
	})
	return store.Wrap("delete certificate of custom domain", err)
}

// ExpiringCertificates returns certificates of an account's domains that end soon enough to be
// reported, the soonest first.
func (s *Domains) ExpiringCertificates(ctx context.Context, account string, now time.Time, limit int) ([]domain.Expiry, error) {
	if !store.Storable(account) {
		return nil, domain.ErrNotFound
	}
	var rows []struct {
		Hostname string
		NotAfter store.Instant
	}
	// An account has at most domain.MaxCustomDomains. The certificate in use is the uploaded one or, if there is
	// none, the one from an authority.
	err := s.db.Reading(ctx).Raw(`SELECT d.hostname, COALESCE(c.not_after, s.not_after) AS not_after
		FROM gateway_domains d LEFT JOIN gateway_domain_certificates c ON c.domain_id = d.id
		LEFT JOIN gateway_acme_states s ON s.hostname = d.hostname AND d.verified_at IS NOT NULL
		WHERE d.account = ? AND d.removed_at IS NULL AND COALESCE(c.not_after, s.not_after) <= ? ORDER BY not_after, d.hostname LIMIT ?`,
		account, store.InstantOf(now.Add(domain.ExpirySoon)), limit).Scan(&rows).Error
	if err != nil {
		return nil, store.Wrap("read certificates that end", err)
	}
	list := make([]domain.Expiry, len(rows))
	for i, row := range rows {
		list[i] = domain.Expiry{Kind: domain.ExpiryDomainCertificate, At: row.NotAfter.Time(), Hostname: row.Hostname}
	}
	return list, nil
}

// ExpiringDomains returns the hostnames of an account that will pass to another account, the soonest first.
func (s *Domains) ExpiringDomains(ctx context.Context, account string, limit int) ([]domain.Expiry, error) {
	if !store.Storable(account) {
		return nil, domain.ErrNotFound
	}
	var rows []domainRow
	// IS TRUE keeps Postgres from using the indexes over all accounts.
	err := s.db.Reading(ctx).Select("hostname", "notice_at").
		Where("account = ? AND removed_at IS NULL AND (notice_at IS NOT NULL) IS TRUE AND (verified_at IS NOT NULL) IS TRUE", account).
		Order("notice_at, hostname").Limit(limit).Find(&rows).Error
	if err != nil {
		return nil, store.Wrap("read hostnames that are to pass", err)
	}
	list := make([]domain.Expiry, len(rows))
	for i := range rows {
		list[i] = domain.Expiry{Kind: domain.ExpiryCustomDomain, At: rows[i].NoticeAt.Time().Add(domain.DomainNoticeTime), Hostname: rows[i].Hostname}
	}
	return list, nil
}

// CountExpiringDomains counts such hostnames over all accounts, at most domain.MaxExpiring.
func (s *Domains) CountExpiringDomains(ctx context.Context) (domain.ExpiryCount, error) {
	var row struct {
		N       int
		Soonest store.Instant
	}
	err := s.db.Reading(ctx).Raw(`SELECT count(*) AS n, min(notice_at) AS soonest FROM (SELECT notice_at FROM gateway_domains
		WHERE notice_at IS NOT NULL AND (verified_at IS NOT NULL) IS TRUE AND removed_at IS NULL LIMIT ?) AS noticed`, domain.MaxExpiring).Scan(&row).Error
	count := domain.ExpiryCount{Kind: domain.ExpiryCustomDomain, N: row.N}
	if row.Soonest != 0 {
		count.Soonest = row.Soonest.Time().Add(domain.DomainNoticeTime)
	}
	return count, store.Wrap("count hostnames that are to pass", err)
}

// CountExpiringCertificates counts the certificates of ExpiringCertificates over all accounts: the soonest
// uploaded ones and the soonest from an authority, at most domain.MaxExpiring of each.
func (s *Domains) CountExpiringCertificates(ctx context.Context, now time.Time) (domain.ExpiryCount, error) {
	var row struct {
		N       int
		Soonest store.Instant
	}
	soon := store.InstantOf(now.Add(domain.ExpirySoon))
	err := s.db.Reading(ctx).Raw(`SELECT COUNT(*) AS n, MIN(not_after) AS soonest FROM (
			SELECT not_after FROM (SELECT c.not_after FROM gateway_domain_certificates c CROSS JOIN gateway_domains d
				WHERE c.not_after <= ? AND d.id = c.domain_id AND d.removed_at IS NULL ORDER BY c.not_after LIMIT ?) AS uploaded
			UNION ALL
			SELECT not_after FROM (SELECT s.not_after FROM gateway_acme_states s WHERE s.not_after <= ? AND `+sqlServed+` ORDER BY s.not_after LIMIT ?) AS given) AS ends`,
		soon, domain.MaxExpiring, soon, domain.MaxExpiring).Scan(&row).Error
	if err != nil {
		return domain.ExpiryCount{}, store.Wrap("count certificates that end", err)
	}
	return domain.ExpiryCount{Kind: domain.ExpiryDomainCertificate, N: row.N, Soonest: row.Soonest.Time()}, nil
}
