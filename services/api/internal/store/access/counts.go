package access

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/counts"
)

// Limit sets the limits of each account. It must be called before the first use.
func (a *Access) Limit(l domain.Limits) {
	a.projects = counts.Kind{Name: "projects", Setting: "WAYBILL_MAX_PROJECTS", Most: l.Projects, SQL: "SELECT count(*) FROM projects WHERE account = ?"}
	a.buckets = counts.Kind{Name: "buckets", Setting: "WAYBILL_MAX_BUCKETS", Most: l.Buckets, SQL: "SELECT count(*) FROM key_buckets WHERE account = ?"}
	a.consumers = counts.Kind{Name: "consumers", Setting: "WAYBILL_MAX_CONSUMERS", Most: l.Consumers, SQL: ofAccount("(SELECT count(*) FROM key_consumers c WHERE c.bucket_id = b.id)")}
	a.keys = counts.Kind{Name: "keys", Setting: "WAYBILL_MAX_KEYS", Most: l.Keys, SQL: ofAccount(partsOf("api_keys", "c.bucket_id = b.id"))}
	a.managers = counts.Kind{Name: "managers", Setting: "WAYBILL_MAX_MANAGERS", Most: l.Managers, SQL: ofAccount(partsOf("key_managers", "c.bucket_id = b.id"))}
}

// ofAccount returns a statement that counts what the buckets of an account contain. Sums of counts make databases
// go from bucket to consumer to its rows; for a join they read the tables of all accounts.
func ofAccount(ofBucket string) string {
	return "SELECT CAST(COALESCE(SUM(" + ofBucket + "), 0) AS bigint) FROM key_buckets b WHERE b.account = ?"
}

// partsOf counts the rows of a table that belong to some consumers.
func partsOf(table, consumers string) string {
	return "(SELECT COALESCE(SUM((SELECT count(*) FROM " + table + " p WHERE p.consumer_id = c.id)), 0) FROM key_consumers c WHERE " + consumers + ")"
}

// change is the change of an account's counts.
type change struct{ projects, buckets, consumers, keys, managers int }

// count adds a change to the counts of an account. It is the last step of a transaction before its entry in the
// audit log.
func (a *Access) count(tx *gorm.DB, account string, c change) error {
	return counts.Add(tx, a.db.Now(), account,
		counts.Change{Kind: &a.projects, By: int64(c.projects)}, counts.Change{Kind: &a.buckets, By: int64(c.buckets)},
		counts.Change{Kind: &a.consumers, By: int64(c.consumers)}, counts.Change{Kind: &a.keys, By: int64(c.keys)},
		counts.Change{Kind: &a.managers, By: int64(c.managers)})
}

// CountAgain counts the resources of accounts again, see counts.Recount.
func (a *Access) CountAgain(ctx context.Context, now time.Time) error {
	return counts.Recount(ctx, a.db, now, &a.projects, &a.buckets, &a.consumers, &a.keys, &a.managers)
}

// within returns the counts of everything that is deleted with the consumers of a condition, which are locked.
func within(tx *gorm.DB, consumers string, arg any) (gone change, err error) {
	row := tx.Raw("SELECT (SELECT count(*) FROM key_consumers c WHERE "+consumers+"), CAST("+partsOf("api_keys", consumers)+" AS bigint), CAST("+
		partsOf("key_managers", consumers)+" AS bigint)", arg, arg, arg).Row()
	if err := row.Scan(&gone.consumers, &gone.keys, &gone.managers); err != nil {
		return gone, fmt.Errorf("count what goes: %w", err)
	}
	gone.consumers, gone.keys, gone.managers = -gone.consumers, -gone.keys, -gone.managers
	return gone, nil
}
