// Package accounts has the table of accounts. The api writes it, and both
// services read which accounts exist.
package accounts

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

type accountRow struct {
	Seq       int64  `gorm:"->"` // the database's number
	ID        string `gorm:"primaryKey"`
	Name      string
	CreatedAt store.Instant `gorm:"autoCreateTime:false"`
}

func (accountRow) TableName() string { return "accounts" }

func (r accountRow) domain() domain.Account {
	return domain.Account{ID: r.ID, Name: r.Name, CreatedOn: r.CreatedAt.Time()}
}

// Accounts reads and writes the table.
type Accounts struct{ db *store.Store }

// New returns the accounts of an open database.
func New(db *store.Store) *Accounts { return &Accounts{db: db} }

// ListAccounts returns accounts and how many there are.
func (a *Accounts) ListAccounts(ctx context.Context, page store.Page) ([]domain.Account, int, error) {
	var accounts []domain.Account
	var total int
	err := a.db.Snapshot(ctx, func(tx *gorm.DB) error {
		rows, n, err := store.ListPage[accountRow](tx.Model(&accountRow{}), page, store.Weight{})
		for _, row := range rows {
			accounts = append(accounts, row.domain())
		}
		total = n
		return err
	})
	return accounts, total, store.Wrap("list accounts", err)
}

// GetAccount returns the account with a name.
func (a *Accounts) GetAccount(ctx context.Context, name string) (domain.Account, error) {
	account, err := Take(a.db.Reading(ctx), name)
	return account, store.Wrap("get account", err)
}

// Take reads the account with a name in a transaction of another package; tx may ask for a lock on
// it. The error is gorm's or domain.ErrNotFound.
func Take(tx *gorm.DB, name string) (domain.Account, error) {
	var row accountRow
	if !store.Storable(name) {
		return domain.Account{}, domain.ErrNotFound
	}
	err := tx.Where("name = ?", name).Take(&row).Error
	return row.domain(), err
}

// Insert makes an account in a transaction of another package; the store chooses its id.
func Insert(tx *gorm.DB, name string, now time.Time) (domain.Account, error) {
	row := accountRow{ID: store.NewID("acct_", 24), Name: name, CreatedAt: store.InstantOf(now)}
	if err := tx.Create(&row).Error; err != nil {
		return domain.Account{}, fmt.Errorf("insert account: %w", err)
	}
	return row.domain(), nil
}
