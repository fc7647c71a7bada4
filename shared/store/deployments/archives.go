package deployments

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/counts"
)

// keptFailed is how long the archive of a failed build is kept. The next build of the deployment
// removes it earlier.
const keptFailed = 24 * time.Hour

// ErrNoArchive means that the archive of a build is not kept any more, because the build failed.
var ErrNoArchive = errors.New("the archive is not kept any more")

// SourcesError is the domain.ErrLimit of archives.
type SourcesError struct{ Kept, Limit int64 } // in bytes

// Error implements error.
func (e *SourcesError) Error() string {
	return fmt.Sprintf("%d bytes of archives would be kept, of %d at most", e.Kept, e.Limit)
}

// Unwrap returns domain.ErrLimit.
func (*SourcesError) Unwrap() error { return domain.ErrLimit }

// Kept returns how many bytes of archives all accounts kept when this process last purged; 0: it has not purged yet.
func (d *Deployments) Kept() int64 { return d.kept.Load() }

// countKept sets the number that Kept returns. It reads an index entry for each archive, once an hour.
func (d *Deployments) countKept(ctx context.Context) error {
	var kept int64
	err := d.db.Conn().QueryRow(ctx, "SELECT COALESCE(SUM(size), 0) FROM gateway_sources WHERE size > 0").Scan(&kept)
	d.kept.Store(kept)
	return err
}

// SourceBytes returns how many bytes of archives an account keeps, and how many it may.
func (d *Deployments) SourceBytes(ctx context.Context, account string) (kept, most int64, err error) {
	kept, err = counts.Of(d.db.Reading(ctx), account, &d.sources)
	return kept, d.sources.Most, store.Wrap("count archives", err)
}

// countSources adds to the bytes that the account keeps. The transaction has stored the new archive before. The error may be a
// SourcesError; then the transaction is rolled back.
func (d *Deployments) countSources(tx *gorm.DB, account string, more int64) error {
	err := counts.Add(tx, d.db.Now(), account, counts.Change{Kind: &d.sources, By: more})
	if over, ok := errors.AsType[*domain.LimitError](err); ok {
		return &SourcesError{over.Count, over.Most}
	}
	return err
}

// keptRow describes the archive of a source.
type keptRow struct {
	ID, Account string
	Size        int64
}

// removeArchives removes the archives of the sources that query selects, locks these sources, and returns what was kept of them.
func (d *Deployments) removeArchives(tx, query *gorm.DB) ([]keptRow, error) {
	var rows []keptRow
	err := d.db.Lock(query.Model(&sourceRow{}).Select("id, account, size"), store.LockChange).Scan(&rows).Error
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	ids := store.All(rows, func(row keptRow) string { return row.ID })
	return rows, tx.Exec("UPDATE gateway_sources SET archive = NULL, size = 0, failed_at = NULL WHERE id IN ?", ids).Error
}

// dropFailedArchives removes the archives of a deployment that only failed builds were made of, and returns their bytes. The archive of
// the source but, which is being built now, stays.
func (d *Deployments) dropFailedArchives(tx *gorm.DB, deployment, but string) (bytes int64, err error) {
	rows, err := d.removeArchives(tx, tx.Where(`id <> ? AND size > 0
		AND id IN (SELECT source_id FROM gateway_builds WHERE deployment = ? AND status = 'ERROR')
		AND NOT EXISTS (SELECT 1 FROM gateway_builds b WHERE b.source_id = gateway_sources.id AND b.status <> 'ERROR')`, but, deployment))
	if err == nil {
		err = tx.Exec("UPDATE gateway_sources SET failed_at = NULL WHERE id = ? AND failed_at IS NOT NULL", but).Error
	}
	if err != nil {
		return 0, fmt.Errorf("drop archives of failed builds: %w", err)
	}
	for _, row := range rows {
		bytes += row.Size
	}
	return bytes, nil
}

// noteFailed notes when a build of an archive has failed, unless another build of it succeeded.
func (d *Deployments) noteFailed(tx *gorm.DB, deployment string, number int64) error {
	err := tx.Exec(`UPDATE gateway_sources SET failed_at = ? WHERE id = (SELECT source_id FROM gateway_builds WHERE deployment = ? AND number = ?)
		AND NOT EXISTS (SELECT 1 FROM gateway_builds b WHERE b.source_id = gateway_sources.id AND b.status = 'SUCCESS')`,
		store.InstantOf(d.db.Now()), deployment, number).Error
	if err != nil {
		return fmt.Errorf("note the archive of a failed build: %w", err)
	}
	return nil
}

// purgeFailed removes the archives of sources with builds that failed long ago, some at a time until there are none.
func (d *Deployments) purgeFailed(ctx context.Context, now time.Time) error {
	const most = 100
	for {
		var rows []keptRow
		err := d.db.Tx(ctx, func(tx *gorm.DB) error {
			var err error
			rows, err = d.removeArchives(tx, tx.Where("failed_at < ?", store.InstantOf(now.Add(-keptFailed))).Order("failed_at").Limit(most))
			if err != nil {
				return err
			}
			freed := make(map[string]int64)
			for _, row := range rows {
				freed[row.Account] += row.Size
			}
			for _, account := range slices.Sorted(maps.Keys(freed)) {
				if err := d.countSources(tx, account, -freed[account]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || len(rows) < most {
			return err
		}
	}
}
