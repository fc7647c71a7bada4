// Package counts has the table of how many things of a kind an account has, to check them against its limits:
// counting them for each new one would take longer the more there are. The packages that have the counted
// rows report what they add and remove, in the same transaction, and define how a kind is counted.
package counts

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// Kind is a kind of things that are counted for each account.
type Kind struct {
	Name    string // in messages, too
	Setting string // the setting of its limit
	Most    int64  // its limit, up to which additions are allowed
	SQL     string // counts what an account has; the account is its only parameter
}

type countRow struct {
	Account   string `gorm:"primaryKey"`
	Kind      string `gorm:"primaryKey"`
	N         int64
	CountedAt store.Instant
}

func (countRow) TableName() string { return "account_counts" }

// Change is how many things of a kind an account gets; negative: loses.
type Change struct {
	Kind *Kind
	By   int64
}

// Add adds changes to the counts of an account. The transaction has made these changes before, and must not wait for
// other transactions after Add. All callers give kinds in the same order, because each waits for transactions that have
// changed a kind of the account and are not committed. The error may be a domain.LimitError.
func Add(tx *gorm.DB, now time.Time, account string, changes ...Change) error {
	for _, c := range changes {
		if c.By == 0 {
			continue
		}
		n, err := add(tx, now, account, c)
		if err != nil {
			return fmt.Errorf("count %s: %w", c.Kind.Name, err)
		}
		if c.By > 0 && n > c.Kind.Most {
			return &domain.LimitError{What: c.Kind.Name, Setting: c.Kind.Setting, Count: n, Most: c.Kind.Most}
		}
	}
	return nil
}

func add(tx *gorm.DB, now time.Time, account string, c Change) (int64, error) {
	var n int64
	result := tx.Raw("UPDATE account_counts SET n = n + ? WHERE account = ? AND kind = ? RETURNING n", c.By, account, c.Kind.Name).Scan(&n)
	if result.Error != nil || result.RowsAffected > 0 {
		return n, result.Error
	}
	// The first change counts what exists, including its own rows. If another transaction came first, the row exists by then
	// and this change adds to it; transactions that come later add to this one's row.
	err := tx.Raw(`INSERT INTO account_counts (account, kind, n, counted_at) VALUES (?, ?, (`+c.Kind.SQL+`), ?)
		ON CONFLICT (account, kind) DO UPDATE SET n = account_counts.n + ? RETURNING n`,
		account, c.Kind.Name, account, store.InstantOf(now), c.By).Scan(&n).Error
	return n, err
}

// Of returns how many an account has of a kind.
func Of(tx *gorm.DB, account string, kind *Kind) (int64, error) {
	var n int64
	result := tx.Raw("SELECT n FROM account_counts WHERE account = ? AND kind = ?", account, kind.Name).Scan(&n)
	if result.Error == nil && result.RowsAffected == 0 {
		result = tx.Raw(kind.SQL, account).Scan(&n)
	}
	if result.Error != nil {
		return 0, fmt.Errorf("read how many %s there are: %w", kind.Name, result.Error)
	}
	return n, nil
}

// keptFor is how old a count may become, and batchRows how many of a kind are counted again at a time. A count can be wrong
// where processes of an earlier version ran at the same time, which do not count.
const (
	keptFor   = 7 * 24 * time.Hour
	batchRows = 500
)

// Recount counts again what was counted a week ago, some accounts for each kind.
func Recount(ctx context.Context, db *store.Store, now time.Time, kinds ...*Kind) error {
	for _, kind := range kinds {
		var accounts []string
		err := db.Reading(ctx).Raw("SELECT account FROM account_counts WHERE kind = ? AND counted_at < ? ORDER BY counted_at LIMIT ?",
			kind.Name, store.InstantOf(now.Add(-keptFor)), batchRows).Scan(&accounts).Error
		if err != nil {
			return store.Wrap("list counts of "+kind.Name, err)
		}
		for _, account := range accounts {
			if err := recount(ctx, db, now, account, kind); err != nil {
				return store.Wrap("count "+kind.Name+" again", err)
			}
		}
	}
	return nil
}

// recount locks the row before it counts. A transaction that has changed the account's rows and waits for that lock is not counted,
// and adds its own change after that.
func recount(ctx context.Context, db *store.Store, now time.Time, account string, kind *Kind) error {
	return db.Tx(ctx, func(tx *gorm.DB) error {
		var row countRow
		if err := db.Lock(tx.Where("account = ? AND kind = ?", account, kind.Name), store.LockChange).Take(&row).Error; err != nil {
			return err
		}
		return tx.Exec("UPDATE account_counts SET n = ("+kind.SQL+"), counted_at = ? WHERE account = ? AND kind = ?",
			account, store.InstantOf(now), account, kind.Name).Error
	})
}
