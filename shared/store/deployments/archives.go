package deployments

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// keptFailed is how long the archive of a build that has failed is kept. The next build of the
// deployment ends that sooner.
const keptFailed = 24 * time.Hour

// ErrNoArchive says that the archive of a build is not kept any more, because the build failed.
var ErrNoArchive = errors.New("the archive is not kept any more")

// SourcesError is the domain.ErrLimit of archives.
type SourcesError struct{ Kept, Limit int64 } // in bytes

// Error implements error.
func (e *SourcesError) Error() string {
	return fmt.Sprintf("%d bytes of archives would be kept, of %d at most", e.Kept, e.Limit)
}

// Unwrap returns domain.ErrLimit.
func (*SourcesError) Unwrap() error { return domain.ErrLimit }

// Kept returns how many bytes of archives all accounts kept when this process purged last; 0: it has not.
func (d *Deployments) Kept() int64 { return d.kept.Load() }

// count notes what Kept returns. It reads an index entry for each archive, once an hour.
func (d *Deployments) count(ctx context.Context) error {
	var kept int64
	err := d.db.Conn().QueryRow(ctx, "SELECT COALESCE(SUM(size), 0) FROM gateway_sources WHERE size > 0").Scan(&kept)
	d.kept.Store(kept)
	return err
}

// sourceBytes reads an index entry for each archive of the account: 200,000 at most, as there are
// domain.MaxDeployments of domain.KeptBuilds.
func sourceBytes(tx *gorm.DB, account string) (bytes int64, err error) {
	err = tx.Raw("SELECT COALESCE(SUM(size), 0) FROM gateway_sources WHERE account = ? AND size > 0", account).Row().Scan(&bytes)
	return bytes, err
}

// checkSources returns a SourcesError if the account keeps too many bytes. The transaction has stored the new archive
// before, and is rolled back then. Requests at the same moment may pass the limit together.
func (d *Deployments) checkSources(tx *gorm.DB, account string) error {
	kept, err := sourceBytes(tx, account)
	if err != nil {
		return fmt.Errorf("count archives: %w", err)
	}
	if kept > d.sources {
		return &SourcesError{kept, d.sources}
	}
	return nil
}

// dropFailedArchives removes the archives of a deployment whose builds have all failed. The archive that is built
// now stays.
func dropFailedArchives(tx *gorm.DB, deployment, but string) error {
	err := tx.Exec(`UPDATE gateway_sources SET archive = NULL, size = 0, failed_at = NULL WHERE id <> ? AND size > 0
		AND id IN (SELECT source_id FROM gateway_builds WHERE deployment = ? AND status = 'ERROR')
		AND NOT EXISTS (SELECT 1 FROM gateway_builds b WHERE b.source_id = gateway_sources.id AND b.status <> 'ERROR')`, but, deployment).Error
	if err == nil {
		err = tx.Exec("UPDATE gateway_sources SET failed_at = NULL WHERE id = ? AND failed_at IS NOT NULL", but).Error
	}
	if err != nil {
		return fmt.Errorf("drop archives of failed builds: %w", err)
	}
	return nil
}

// noteFailed notes when the archive of a build has failed, unless another build of it succeeded.
func (d *Deployments) noteFailed(tx *gorm.DB, deployment string, number int64) error {
	err := tx.Exec(`UPDATE gateway_sources SET failed_at = ? WHERE id = (SELECT source_id FROM gateway_builds WHERE deployment = ? AND number = ?)
		AND NOT EXISTS (SELECT 1 FROM gateway_builds b WHERE b.source_id = gateway_sources.id AND b.status = 'SUCCESS')`,
		store.InstantOf(d.db.Now()), deployment, number).Error
	if err != nil {
		return fmt.Errorf("note the archive of a failed build: %w", err)
	}
	return nil
}

// purgeFailed empties sources whose last build failed long ago, a bounded number at a time.
func (d *Deployments) purgeFailed(ctx context.Context, now time.Time) error {
	const most = 500
	return d.db.Tx(ctx, func(tx *gorm.DB) error {
		return tx.Exec(`UPDATE gateway_sources SET archive = NULL, size = 0, failed_at = NULL
			WHERE id IN (SELECT id FROM gateway_sources WHERE failed_at < ? ORDER BY failed_at LIMIT ?)`, store.InstantOf(now.Add(-keptFailed)), most).Error
	})
}
