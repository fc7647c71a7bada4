// Package domains has the tables of custom domains: which account has a hostname and where it
// leads, certificates that users have uploaded, and the data that gateways keep of their work with
// a certificate authority.
package domains

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/accounts"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/deployments"
)

const (
	idLength    = 22
	tokenLength = 32
	prefixID    = "dom_"
)

var (
	// ErrTaken means that another account has the hostname.
	ErrTaken = errors.New("another account has the hostname")
	// ErrDevelopment means that the deployment is of a development environment.
	ErrDevelopment = errors.New("the deployment is of a development environment")
	// ErrNoDeployment means that the account has no such deployment.
	ErrNoDeployment = errors.New("there is no such deployment")
)

// Domains reads and writes the tables.
type Domains struct {
	db    *store.Store
	audit *auditlog.Log
}

// New returns the tables of an open database.
func New(db *store.Store) *Domains { return &Domains{db: db, audit: auditlog.New(db)} }

// Change has the new values of a domain.
type Change struct {
	Deployment *string // nil: it stays
	IsDefault  *bool   // nil: it stays
}

// CreateCustomDomain stores a domain with the account, hostname, deployment and default of d. The domain waits for its
// proof, whichever account has the hostname. If verified is true, the account has the hostname at once, and DNS is not
// asked; ErrTaken: another account has it. Other errors are domain.ErrConflict (the account has the hostname already),
// domain.ErrLimit, ErrNoDeployment and ErrDevelopment.
func (s *Domains) CreateCustomDomain(ctx context.Context, d domain.CustomDomain, verified bool) (domain.CustomDomain, error) {
	if !store.Storable(d.Account, d.Hostname, d.Deployment) {
		return domain.CustomDomain{}, domain.ErrNotFound
	}
	now := s.db.Now()
	row := domainRow{
		ID: store.NewID(prefixID, idLength), Account: d.Account, Hostname: d.Hostname, Deployment: d.Deployment, IsDefault: d.IsDefault,
		Token: store.NewID(domain.DomainProof, tokenLength), CreatedAt: store.InstantOf(now), UpdatedAt: store.InstantOf(now),
	}
	if caller, ok := auditlog.CallerOf(ctx); ok {
		row.CreatedBy, row.CreatedKey = caller.Sub, caller.KeyID
	}
	if verified {
		row.VerifiedAt = row.CreatedAt
	} else {
		row.NextCheckAt = store.InstantOf(now.Add(domain.DomainFirstCheckInterval))
	}
	err := s.db.Tx(ctx, func(tx *gorm.DB) error {
		if _, err := accounts.Take(s.db.Lock(tx, store.LockChange), d.Account); err != nil {
			return err
		}
		if err := s.mayHave(tx, &row); err != nil {
			return err
		}
		if err := s.checkDeployment(tx, &row); err != nil {
			return err
		}
		if err := tx.Create(&row).Error; err != nil {
			return fmt.Errorf("insert custom domain: %w", err)
		}
		if err := s.auditChange(ctx, tx, auditlog.ActionCreateDomain, &row); err != nil {
			return err
		}
		return s.saveRow(ctx, tx, &row)
	})
	if err != nil {
		return domain.CustomDomain{}, store.Wrap("create custom domain", err)
	}
	return s.GetCustomDomain(ctx, d.Account, d.Hostname)
}

// mayHave returns an error if the account can't have one more domain with that hostname.
func (s *Domains) mayHave(tx *gorm.DB, row *domainRow) error {
	if row.VerifiedAt != 0 {
		if holder, err := s.holder(tx, row.Hostname); err != nil || holder != nil && holder.Account != row.Account {
			return cmp.Or(err, ErrTaken)
		}
	}
	var count int64
	if err := tx.Model(&domainRow{}).Where("account = ? AND removed_at IS NULL", row.Account).Count(&count).Error; err != nil {
		return fmt.Errorf("count custom domains: %w", err)
	}
	if count >= domain.MaxCustomDomains {
		return fmt.Errorf("account has %d custom domains: %w", count, domain.ErrLimit)
	}
	return nil
}

// checkDeployment checks the deployment that a domain leads to. If the domain is a default, lead makes it the
// only default of the deployment.
func (s *Domains) checkDeployment(tx *gorm.DB, row *domainRow) error {
	if row.Deployment == "" {
		row.IsDefault = false
		return nil
	}
	var found deploymentData
	result := s.db.Lock(tx.Table("gateway_deployments"), store.LockChange).Select("name", "environment_type").
		Where("name = ? AND account = ? AND removed_at IS NULL", row.Deployment, row.Account).Limit(1).Find(&found)
	switch {
	case result.Error != nil:
		return fmt.Errorf("read deployment: %w", result.Error)
	case result.RowsAffected == 0:
		return ErrNoDeployment
	case domain.EnvironmentType(found.EnvironmentType) == domain.Development:
		return ErrDevelopment
	case !row.IsDefault:
		return nil
	}
	err := tx.Model(&domainRow{}).Where("deployment = ? AND id <> ? AND removed_at IS NULL", row.Deployment, row.ID).UpdateColumn("is_default", false).Error
	if err != nil {
		return fmt.Errorf("change default of deployment: %w", err)
	}
	return nil
}

// ListCustomDomains returns one page of the account's domains, the oldest first, and the number of
// all of them.
func (s *Domains) ListCustomDomains(ctx context.Context, account string, page store.Page) ([]domain.CustomDomain, int, error) {
	if !store.Storable(account) {
		return nil, 0, domain.ErrNotFound
	}
	var list []domain.CustomDomain
	var total int
	err := s.db.Snapshot(ctx, func(tx *gorm.DB) error {
		rows, n, err := store.ListPage[domainRow](tx.Model(&domainRow{}).Where("account = ? AND removed_at IS NULL", account), page, store.Weight{})
		if err != nil {
			return err
		}
		total = n
		list, err = withDetails(tx, rows)
		return err
	})
	return list, total, store.Wrap("list custom domains", err)
}

// GetCustomDomain returns the domain of an account that has the hostname.
func (s *Domains) GetCustomDomain(ctx context.Context, account, hostname string) (domain.CustomDomain, error) {
	var got domain.CustomDomain
	err := s.db.Snapshot(ctx, func(tx *gorm.DB) error {
		row, err := s.getRow(tx, account, hostname, store.LockNone)
		if err != nil {
			return err
		}
		list, err := withDetails(tx, []domainRow{row})
		if err != nil {
			return err
		}
		got = list[0]
		return nil
	})
	return got, store.Wrap("get custom domain", err)
}

// UpdateCustomDomain changes where a domain leads.
func (s *Domains) UpdateCustomDomain(ctx context.Context, account, hostname string, change Change) (domain.CustomDomain, error) {
	err := s.db.Tx(ctx, func(tx *gorm.DB) error {
		row, err := s.getRow(tx, account, hostname, store.LockChange)
		if err != nil {
			return err
		}
		if change.Deployment != nil {
			if !store.Storable(*change.Deployment) {
				return ErrNoDeployment
			}
			row.IsDefault = row.IsDefault && row.Deployment == *change.Deployment
			row.Deployment = *change.Deployment
		}
		if change.IsDefault != nil {
			row.IsDefault = *change.IsDefault
		}
		if err := s.checkDeployment(tx, &row); err != nil {
			return err
		}
		row.UpdatedAt = store.InstantOf(s.db.Now())
		if err := s.auditChange(ctx, tx, auditlog.ActionUpdateDomain, &row); err != nil {
			return err
		}
		return s.saveRow(ctx, tx, &row)
	})
	if err != nil {
		return domain.CustomDomain{}, store.Wrap("update custom domain", err)
	}
	return s.GetCustomDomain(ctx, account, hostname)
}

// DeleteCustomDomain removes a domain and its uploaded certificate. If deployment is not empty, the
// domain must lead to it.
func (s *Domains) DeleteCustomDomain(ctx context.Context, account, hostname, deployment string) error {
	if !store.Storable(hostname) {
		return domain.ErrNotFound
	}
	err := s.db.Tx(ctx, func(tx *gorm.DB) error {
		if _, err := s.holder(tx, hostname); err != nil { // first, as in a look at DNS, so that the two don't deadlock
			return err
		}
		row, err := s.getRow(tx, account, hostname, store.LockChange)
		if err != nil {
			return err
		}
		if deployment != "" && deployment != row.Deployment {
			return domain.ErrNotFound
		}
		if err := s.auditChange(ctx, tx, auditlog.ActionDeleteDomain, &row); err != nil {
			return err
		}
		if row.NoticeAt != 0 {
			if err := s.endOther(ctx, tx, &row); err != nil {
				return err
			}
		}
		return s.remove(ctx, tx, &row)
	})
	return store.Wrap("delete custom domain", err)
}

// remove removes a domain and its uploaded certificate. The row stays for a while, so
// that gateways learn of the removal.
func (s *Domains) remove(ctx context.Context, tx *gorm.DB, row *domainRow) error {
	if err := tx.Where("domain_id = ?", row.ID).Delete(&certificateRow{}).Error; err != nil {
		return fmt.Errorf("delete certificate of custom domain: %w", err)
	}
	row.RemovedAt, row.NextCheckAt, row.NoticeAt = store.InstantOf(s.db.Now()), 0, 0
	row.UpdatedAt = row.RemovedAt
	return s.saveRow(ctx, tx, row)
}

// getRow returns the row of a domain that was not removed.
func (s *Domains) getRow(tx *gorm.DB, account, hostname, lock string) (domainRow, error) {
	var row domainRow
	if !store.Storable(account, hostname) {
		return row, domain.ErrNotFound
	}
	err := store.Unique(s.db.Lock(tx.Where("account = ? AND hostname = ? AND removed_at IS NULL", account, hostname), lock), &row)
	return row, err
}

// withDetails returns domains together with the data that they show about their deployments and certificates.
func withDetails(tx *gorm.DB, rows []domainRow) ([]domain.CustomDomain, error) {
	list := make([]domain.CustomDomain, len(rows))
	names, ids, hosts := make([]string, len(rows)), make([]string, len(rows)), make([]string, len(rows))
	for i := range rows {
		var err error
		if list[i], err = rows[i].domain(); err != nil {
			return nil, err
		}
		names[i], ids[i], hosts[i] = rows[i].Deployment, rows[i].ID, rows[i].Hostname
	}
	if len(rows) == 0 {
		return list, nil
	}
	var places []deploymentData
	if err := tx.Table("gateway_deployments").Select("name", "project", "branch", "environment_type").Where("name IN ?", names).Find(&places).Error; err != nil {
		return nil, fmt.Errorf("read deployments of custom domains: %w", err)
	}
	var uploaded []certificateRow
	if err := tx.Select("domain_id", "not_after").Where("domain_id IN ?", ids).Find(&uploaded).Error; err != nil {
		return nil, fmt.Errorf("read certificates of custom domains: %w", err)
	}
	var states []stateRow
	if err := tx.Where("hostname IN ?", hosts).Find(&states).Error; err != nil {
		return nil, fmt.Errorf("read certificates of custom domains: %w", err)
	}
	for i := range list {
		describe(&list[i], places, uploaded, states)
	}
	return list, nil
}

// describe adds the data of its deployment and its certificate to a domain. An uploaded certificate
// takes precedence over one from an authority. Only the account that has the hostname sees the latter.
func describe(d *domain.CustomDomain, places []deploymentData, uploaded []certificateRow, states []stateRow) {
	for _, p := range places {
		if p.Name == d.Deployment {
			d.Project, d.Branch, d.EnvironmentType = p.Project, p.Branch, domain.EnvironmentType(p.EnvironmentType)
		}
	}
	for _, state := range states {
		if state.Hostname == d.Hostname && d.Active() {
			d.Certificate = domain.HostCertificate{Source: domain.CertificateACME, ValidTo: state.NotAfter.Time(), Error: state.Error}
		}
	}
	for i := range uploaded {
		if uploaded[i].DomainID == d.ID {
			d.Certificate = domain.HostCertificate{Source: domain.CertificateUploaded, ValidTo: uploaded[i].NotAfter.Time()}
		}
	}
}

func (s *Domains) auditChange(ctx context.Context, tx *gorm.DB, action string, row *domainRow) error {
	return s.audit.Note(ctx, tx, action, row.Account, domain.Resource{Type: auditlog.ResourceDomain, ID: row.ID, Name: row.Hostname})
}

// saveRow writes the columns of a row that can change, with the next version. Call it last in the transaction.
func (s *Domains) saveRow(ctx context.Context, tx *gorm.DB, row *domainRow) error {
	var err error
	if row.Version, err = deployments.NextVersion(ctx, tx); err != nil {
		return err
	}
	err = tx.Select("deployment", "is_default", "answers", "version", "updated_at", "verified_at", "checked_at", "next_check_at", "removed_at", "proven_at", "notice_at", "lost_at").Updates(row).Error
	if err != nil {
		return fmt.Errorf("update row of custom domain: %w", err)
	}
	return nil
}

// purgeStates deletes the states of certificates of removed domains. If an account has verified the hostname again,
// the state stays.
const purgeStates = `DELETE FROM gateway_acme_states WHERE hostname IN (
	SELECT s.hostname FROM gateway_domains d JOIN gateway_acme_states s ON s.hostname = d.hostname
	WHERE d.removed_at < ? AND NOT EXISTS (
		SELECT 1 FROM gateway_domains o WHERE o.hostname = d.hostname AND o.verified_at IS NOT NULL AND o.removed_at IS NULL)
	ORDER BY d.removed_at LIMIT ?)`

// Purge removes domains that were removed a day ago with the states of their certificates, and locks that have ended.
func (s *Domains) Purge(ctx context.Context, now time.Time) error {
	before := store.InstantOf(now.Add(-domain.DomainRemovedTime))
	if _, err := s.db.Batches(ctx, func(tx *gorm.DB, rows int) *gorm.DB { return tx.Exec(purgeStates, before, rows) }); err != nil {
		return store.Wrap("purge states of certificates", err)
	}
	if _, err := s.db.Purge(ctx, "gateway_domains", "id", "removed_at < ?", before); err != nil {
		return store.Wrap("purge custom domains", err)
	}
	_, err := s.db.Purge(ctx, "gateway_acme_locks", "name", "expires_at < ?", store.InstantOf(now.Add(-LockTime)))
	return store.Wrap("purge locks of certificates", err)
}
