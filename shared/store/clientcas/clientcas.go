// Package clientcas has the table of CA certificates. An account lets in clients whose certificates
// they have issued. The api writes the table, gateways read it.
package clientcas

import (
	"context"
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
	prefix   = "mtlsca_"
	idLength = 22
	// keepTime is how long a removed row stays, so that every gateway learns of it.
	keepTime = 24 * time.Hour
)

// ClientCAs reads and writes the table.
type ClientCAs struct {
	db    *store.Store
	audit *auditlog.Log
}

// New returns the table of an open database.
func New(db *store.Store) *ClientCAs { return &ClientCAs{db: db, audit: auditlog.New(db)} }

// CreateClientCA stores a certificate that ends at a time. ErrConflict: the account has a certificate
// with that name. ErrLimit: the account has MaxClientCAs. ErrNotFound: there is no such account.
func (c *ClientCAs) CreateClientCA(ctx context.Context, account, name string, certificate []byte, ends time.Time) (domain.ClientCA, error) {
	if !store.Storable(account) {
		return domain.ClientCA{}, domain.ErrNotFound
	}
	now := store.InstantOf(c.db.Now())
	row := caRow{
		ID: store.NewID(prefix, idLength), Account: account, Name: name, Certificate: certificate, ExpiresAt: store.InstantOf(ends),
		CreatedAt: now, UpdatedAt: now,
	}
	err := c.db.Tx(ctx, func(tx *gorm.DB) error {
		if _, err := accounts.Take(c.db.Lock(tx, store.LockChange), account); err != nil {
			return err
		}
		var count int64
		if err := tx.Model(&caRow{}).Where("account = ? AND removed_at IS NULL", account).Count(&count).Error; err != nil {
			return fmt.Errorf("count CA certificates: %w", err)
		}
		if count >= domain.MaxClientCAs {
			return fmt.Errorf("account has %d CA certificates: %w", count, domain.ErrLimit)
		}
		if err := tx.Create(&row).Error; err != nil {
			return fmt.Errorf("insert CA certificate: %w", err)
		}
		if err := c.auditChange(ctx, tx, auditlog.ActionCreateClientCA, &row); err != nil {
			return err
		}
		return c.saveRow(ctx, tx, &row)
	})
	return row.domain(), store.Wrap("create CA certificate", err)
}

// ListClientCAs returns a page of an account's CA certificates, and how many the account has.
func (c *ClientCAs) ListClientCAs(ctx context.Context, account string, page store.Page) ([]domain.ClientCA, int, error) {
	if !store.Storable(account) {
		return nil, 0, domain.ErrNotFound
	}
	var list []domain.ClientCA
	var total int
	err := c.db.Snapshot(ctx, func(tx *gorm.DB) error {
		query := tx.Model(&caRow{}).Where("account = ? AND removed_at IS NULL", account)
		rows, n, err := store.ListPage[caRow](query, page, store.Weight{})
		list, total = make([]domain.ClientCA, len(rows)), n
		for i := range rows {
			list[i] = rows[i].domain()
		}
		return err
	})
	return list, total, store.Wrap("list CA certificates", err)
}

// GetClientCA returns a CA certificate of the account.
func (c *ClientCAs) GetClientCA(ctx context.Context, account, id string) (domain.ClientCA, error) {
	row, err := c.getRow(c.db.Reading(ctx), account, id, store.LockNone)
	return row.domain(), store.Wrap("get CA certificate", err)
}

// RenameClientCA gives a CA certificate another name. ErrConflict: the account has a certificate
// with that name.
func (c *ClientCAs) RenameClientCA(ctx context.Context, account, id, name string) (domain.ClientCA, error) {
	return c.change(ctx, account, id, auditlog.ActionUpdateClientCA, func(row *caRow) { row.Name = name })
}

// DeleteClientCA removes a CA certificate.
func (c *ClientCAs) DeleteClientCA(ctx context.Context, account, id string) error {
	_, err := c.change(ctx, account, id, auditlog.ActionDeleteClientCA, func(row *caRow) { row.RemovedAt = store.InstantOf(c.db.Now()) })
	return err
}

func (c *ClientCAs) change(ctx context.Context, account, id, action string, set func(row *caRow)) (domain.ClientCA, error) {
	var changed domain.ClientCA
	err := c.db.Tx(ctx, func(tx *gorm.DB) error {
		row, err := c.getRow(tx, account, id, store.LockChange)
		if err != nil {
			return err
		}
		set(&row)
		row.UpdatedAt = store.InstantOf(c.db.Now())
		changed = row.domain()
		if err := c.auditChange(ctx, tx, action, &row); err != nil {
			return err
		}
		return c.saveRow(ctx, tx, &row)
	})
	return changed, store.Wrap("change CA certificate", err)
}

// getRow returns the row of a CA certificate that was not removed.
func (c *ClientCAs) getRow(tx *gorm.DB, account, id, lock string) (caRow, error) {
	var row caRow
	if !store.Storable(account, id) {
		return row, domain.ErrNotFound
	}
	err := c.db.Lock(tx.Where("id = ? AND account = ? AND removed_at IS NULL", id, account), lock).Take(&row).Error
	return row, err
}

func (c *ClientCAs) auditChange(ctx context.Context, tx *gorm.DB, action string, row *caRow) error {
	return c.audit.Note(ctx, tx, action, row.Account, domain.Resource{Type: auditlog.ResourceClientCA, ID: row.ID, Name: row.Name})
}

// saveRow writes the columns of a row that can change, with the next version.
// Call it last in the transaction.
func (c *ClientCAs) saveRow(ctx context.Context, tx *gorm.DB, row *caRow) error {
	var err error
	if row.Version, err = deployments.NextVersion(ctx, tx); err != nil {
		return err
	}
	if err = tx.Select("name", "version", "updated_at", "removed_at").Updates(row).Error; err != nil {
		return fmt.Errorf("update row of CA certificate: %w", err)
	}
	return nil
}

// PurgeClientCAs deletes the rows of certificates that were removed a day ago.
func (c *ClientCAs) PurgeClientCAs(ctx context.Context, now time.Time) error {
	_, err := c.db.Purge(ctx, "gateway_client_cas", "id", "removed_at < ?", store.InstantOf(now.Add(-keepTime)))
	return store.Wrap("purge CA certificates", err)
}
