package deployments

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/accounts"
	"waybill.dev/shared/store/auditlog"
)

// Redeploy makes a new build of an archive with the present variables. The archive is that of the build
// buildID; empty: that of the active build, or of the newest build when none has succeeded. ErrNotFound:
// there is no such deployment, or no such build of it. ErrNoArchive: the archive is not kept any more.
// ErrLimit: the account has MaxOpenBuilds.
func (d *Deployments) Redeploy(ctx context.Context, account, deployment, buildID string) (domain.Build, error) {
	var build domain.Build
	err := d.db.Tx(ctx, func(tx *gorm.DB) error {
		row, err := d.deployment(tx, account, deployment, store.LockChange)
		if err != nil {
			return err
		}
		from, err := sourceOf(tx, row, buildID)
		if err != nil {
			return err
		}
		statusID, err := store.NewUUID()
		if err != nil {
			return err
		}
		build, err = d.enqueue(ctx, tx, auditlog.ActionRedeploy, from, statusID)
		return err
	})
	return build, store.Wrap("redeploy", err)
}

// sourceOf returns the source of a build of the deployment, see Redeploy.
func sourceOf(tx *gorm.DB, row deploymentRow, buildID string) (sourceRow, error) {
	query := tx.Model(&buildRow{}).Select("source_id").Where("deployment = ?", row.Name)
	switch {
	case buildID != "" && !store.Storable(buildID):
		return sourceRow{}, domain.ErrNotFound
	case buildID != "":
		query = query.Where("id = ?", buildID)
	case row.ActiveBuild != "":
		query = query.Where("id = ?", row.ActiveBuild)
	default:
		query = query.Where("number = ?", row.LastNumber)
	}
	var build buildRow
	if err := query.Take(&build).Error; err != nil {
		return sourceRow{}, err
	}
	source, err := takeSource(tx, build.SourceID)
	if err == nil && source.Size == 0 {
		err = ErrNoArchive
	}
	return source, err
}

// enqueue adds a build of the source to its deployment, and makes the deployment if it is missing. Only the newest
// builds and the active one are kept, with their archives; archives of failed builds are removed.
func (d *Deployments) enqueue(ctx context.Context, tx *gorm.DB, action string, source sourceRow, statusID string) (domain.Build, error) {
	production, err := productionBranch(ctx, tx, source.Account, source.Project)
	if err != nil {
		return domain.Build{}, err
	}
	if err := checkOpenBuilds(tx, source.Account); err != nil {
		return domain.Build{}, err
	}
	caller, _ := auditlog.CallerOf(ctx)
	now := d.db.Now()
	row, err := d.takeFor(tx, source.target(), caller.Sub, now)
	if err != nil {
		return domain.Build{}, err
	}
	kind := domain.EnvironmentTypeOf(source.Branch, production)
	seen := row.noteBuild(kind, now)
	id, err := store.NewUUID()
	if err != nil {
		return domain.Build{}, err
	}
	build := buildRow{
		ID: id, StatusID: statusID, Deployment: row.Name, Account: row.Account, Project: row.Project, Branch: row.Branch,
		Number: row.LastNumber, SourceID: source.ID, EnvironmentType: string(kind), Status: string(domain.BuildQueued),
		CreatedAt: store.InstantOf(now), CreatedBy: caller.Sub, CreatedKey: caller.KeyID, RequestID: caller.RequestID,
		Steps: "[]", Faults: "[]", Log: "[]",
	}
	if err := tx.Create(&build).Error; err != nil {
		return domain.Build{}, fmt.Errorf("insert build: %w", err)
	}
	if err := d.keepSources(tx, row, source, action == auditlog.ActionUploadArchive); err != nil {
		return domain.Build{}, err
	}
	err = d.audit.Note(ctx, tx, action, row.Account, deploymentResource(row.Name), buildResource(id))
	if err != nil {
		return domain.Build{}, err
	}
	if !seen {
		if row.Version, err = nextVersion(ctx, tx); err != nil {
			return domain.Build{}, err
		}
	}
	if err := tx.Save(&row).Error; err != nil {
		return domain.Build{}, fmt.Errorf("update deployment row: %w", err)
	}
	return build.domain()
}

// noteBuild notes that a build was added. It returns false if gateways must learn of that: a deployment
// that serves nothing gives another answer while it has an open build.
func (r *deploymentRow) noteBuild(kind domain.EnvironmentType, now time.Time) (seen bool) {
	seen = r.Version > 0 && (r.ActiveBuild != "" || r.State == string(domain.DeploymentBuilding))
	r.LastNumber++
	r.Message, r.UpdatedAt = "", store.InstantOf(now)
	if r.ActiveBuild == "" {
		r.State, r.EnvironmentType = string(domain.DeploymentBuilding), string(kind)
	}
	return seen
}

// checkOpenBuilds refuses a build to an account that has as many open builds as it may, so that it
// does not keep others waiting. Requests at the same moment may pass the check together.
func checkOpenBuilds(tx *gorm.DB, account string) error {
	var open int64
	err := tx.Model(&buildRow{}).Where("status IN ('QUEUED', 'BUILDING') AND account = ?", account).Count(&open).Error
	if err != nil {
		return fmt.Errorf("count open builds: %w", err)
	}
	if open >= domain.MaxOpenBuilds {
		return fmt.Errorf("account has %d open builds: %w", open, ErrBuilds)
	}
	return nil
}

// ErrBuilds is the domain.ErrLimit of open builds.
var ErrBuilds = fmt.Errorf("open builds: %w", domain.ErrLimit)

// findFor returns the deployment of the target, removed or not, and locks it. If there is none, the
// row has no name. domain.ErrLimit: there is none, and none can be made.
func (d *Deployments) findFor(tx *gorm.DB, t Target) (deploymentRow, error) {
	row, err := d.targetRow(tx, t)
	if err != nil || row.isLive() {
		return row, err
	}
	// The lock keeps other transactions from making the deployment. The one that held
	// the lock before may have made it.
	if _, err := accounts.Take(d.db.Lock(tx, store.LockChange), t.Account); err != nil {
		return row, err
	}
	if row, err = d.targetRow(tx, t); err != nil || row.isLive() {
		return row, err
	}
	var count int64
	err = tx.Model(&deploymentRow{}).Where("account = ? AND removed_at IS NULL", t.Account).Count(&count).Error
	if err != nil {
		return row, fmt.Errorf("count deployments: %w", err)
	}
	if count >= domain.MaxDeployments {
		return row, fmt.Errorf("account has %d deployments: %w", count, domain.ErrLimit)
	}
	return row, nil
}

func (d *Deployments) targetRow(tx *gorm.DB, t Target) (deploymentRow, error) {
	var row deploymentRow
	err := d.db.Lock(tx.Where("name = ?", t.deployment()), store.LockChange).Take(&row).Error
	switch {
	case errors.Is(err, gorm.ErrRecordNotFound):
		return deploymentRow{}, nil
	case err != nil:
		return row, fmt.Errorf("read deployment: %w", err)
	case row.Account != t.Account || row.Project != t.Project || row.Branch != t.Branch:
		return row, domain.ErrConflict
	}
	return row, nil
}

func (r *deploymentRow) isLive() bool { return r.Name != "" && r.RemovedAt == 0 }

// takeFor returns the deployment of the target, locked. It makes a missing deployment, and resets
// one that was removed. Both have version 0 until the caller sets one.
func (d *Deployments) takeFor(tx *gorm.DB, t Target, sub string, now time.Time) (deploymentRow, error) {
	row, err := d.findFor(tx, t)
	if err != nil || row.isLive() {
		return row, err
	}
	made := deploymentRow{
		Seq: row.Seq, Name: t.deployment(), Account: t.Account, Project: t.Project, Branch: t.Branch,
		LastNumber: row.LastNumber, CreatedAt: store.InstantOf(now), CreatedBy: sub, UpdatedAt: store.InstantOf(now),
	}
	if row.Name != "" {
		return made, nil // the caller saves its row with the build
	}
	if err := tx.Create(&made).Error; err != nil {
		return made, fmt.Errorf("insert deployment: %w", err)
	}
	return made, nil
}

// keepSources removes the archives that are not kept any more after a new build of a source, and counts those
// that are kept, including the source's own if uploaded.
func (d *Deployments) keepSources(tx *gorm.DB, row deploymentRow, source sourceRow, uploaded bool) error {
	old, err := dropOldBuilds(tx, row)
	if err != nil {
		return err
	}
	failed, err := d.dropFailedArchives(tx, row.Name, source.ID)
	if err != nil {
		return err
	}
	more := -old - failed
	if uploaded {
		more += source.Size
	}
	return d.countSources(tx, source.Account, more)
}

// dropOldBuilds removes the builds that are no longer kept, and the archives that no other build
// uses. It returns the bytes of these archives.
func dropOldBuilds(tx *gorm.DB, row deploymentRow) (bytes int64, err error) {
	return dropBuilds(tx, "deployment = ? AND number <= ? AND id <> ? AND status IN ('SUCCESS', 'ERROR')", row.Name, row.LastNumber-domain.KeptBuilds, row.ActiveBuild)
}

func dropBuilds(tx *gorm.DB, condition string, args ...any) (bytes int64, err error) {
	var sources []string
	err = tx.Raw("DELETE FROM gateway_builds WHERE "+condition+" RETURNING source_id", args...).Scan(&sources).Error
	if err != nil {
		return 0, fmt.Errorf("delete builds: %w", err)
	}
	if len(sources) == 0 {
		return 0, nil
	}
	var sizes []int64
	err = tx.Raw("DELETE FROM gateway_sources WHERE id IN ? AND NOT EXISTS (SELECT 1 FROM gateway_builds b WHERE b.source_id = gateway_sources.id) RETURNING size", sources).
		Scan(&sizes).Error
	if err != nil {
		return 0, fmt.Errorf("delete sources: %w", err)
	}
	for _, size := range sizes {
		bytes += size
	}
	return bytes, nil
}

func buildResource(id string) domain.Resource {
	return domain.Resource{Type: auditlog.ResourceBuild, ID: id}
}
