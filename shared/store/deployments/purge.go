package deployments

import (
	"context"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// How long unused rows stay: unusedFor so that a late caller is told what has happened, removedFor
// so that every gateway has learned of the removal.
const (
	unusedFor  = domain.UploadTime + time.Hour
	removedFor = 24 * time.Hour
)

// Purge removes sources without an archive, archives with builds that failed a day ago, and deployments that were removed a day
// ago. Old builds are removed when new ones are added.
func (d *Deployments) Purge(ctx context.Context, now time.Time) error {
	if _, err := d.db.Purge(ctx, "gateway_sources", "id", "uploaded_at IS NULL AND created_at < ?", store.InstantOf(now.Add(-unusedFor))); err != nil {
		return store.Wrap("purge sources", err)
	}
	if err := d.purgeFailed(ctx, now); err != nil {
		return store.Wrap("purge archives of failed builds", err)
	}
	if _, err := d.db.Purge(ctx, "gateway_deployments", "name", "removed_at < ?", store.InstantOf(now.Add(-removedFor))); err != nil {
		return store.Wrap("purge deployments", err)
	}
	return store.Wrap("count archives", d.countKept(ctx))
}
