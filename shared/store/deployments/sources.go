package deployments

import (
	"context"
	"fmt"
	"strings"

	"gorm.io/gorm"

	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
)

// Target is the branch of a project that an archive is for.
type Target struct{ Account, Project, Branch string }

func (t Target) deployment() string { return domain.DeploymentName(t.Account, t.Project, t.Branch) }

// CreateSource notes that an archive may be uploaded for the target, within domain.UploadTime.
// ErrNotFound: there is no such project. ErrConflict: the deployment's name is taken by another
// branch. ErrLimit: the account has MaxDeployments.
func (d *Deployments) CreateSource(ctx context.Context, t Target) (domain.DeploymentSource, error) {
	var row sourceRow
	err := d.db.Tx(ctx, func(tx *gorm.DB) error {
		if _, err := productionBranch(ctx, tx, t.Account, t.Project); err != nil {
			return err
		}
		if _, err := d.findFor(tx, t); err != nil {
			return err
		}
		var err error
		if row, err = d.insertSource(ctx, tx, t, nil, ""); err != nil {
			return err
		}
		return d.audit.Note(ctx, tx, auditlog.ActionUploadSource, t.Account, deploymentResource(row.Deployment))
	})
	return row.domain(), store.Wrap("create source", err)
}

// Upload stores an archive for the target, and a build of it that waits for a gateway. It has the
// errors of CreateSource. ErrLimit also means that the account has MaxOpenBuilds, or keeps as many
// bytes of archives as it may (SourcesError).
func (d *Deployments) Upload(ctx context.Context, t Target, archive []byte, format domain.ArchiveFormat) (domain.Build, error) {
	var build domain.Build
	err := d.db.Tx(ctx, func(tx *gorm.DB) error {
		if _, err := productionBranch(ctx, tx, t.Account, t.Project); err != nil {
			return err
		}
		row, err := d.insertSource(ctx, tx, t, archive, format)
		if err != nil {
			return err
		}
		build, err = d.enqueue(ctx, tx, auditlog.ActionUploadArchive, row, row.ID)
		return err
	})
	return build, store.Wrap("upload archive", err)
}

// PutArchive stores the archive of a source that CreateSource made, and a build of it that waits
// for a gateway, both in the name of the source's maker. ErrNotFound: there is no such source.
// ErrConflict: the source has an archive already. The other errors are those of Upload.
func (d *Deployments) PutArchive(ctx context.Context, id string, archive []byte, format domain.ArchiveFormat) (domain.Build, error) {
	if !store.Storable(id) {
		return domain.Build{}, domain.ErrNotFound
	}
	var build domain.Build
	err := d.db.Tx(ctx, func(tx *gorm.DB) error {
		row, err := takeSource(tx, id)
		if err != nil {
			return err
		}
		now := store.InstantOf(d.db.Now())
		result := tx.Model(&sourceRow{}).Where("id = ? AND uploaded_at IS NULL", id).
			Updates(map[string]any{"format": string(format), "size": len(archive), "archive": archive, "uploaded_at": now})
		if result.Error != nil {
			return fmt.Errorf("update source row: %w", result.Error)
		}
		if result.RowsAffected == 0 {
			return domain.ErrConflict
		}
		row.Size = int64(len(archive))
		build, err = d.enqueue(inNameOf(ctx, row), tx, auditlog.ActionUploadArchive, row, row.ID)
		return err
	})
	return build, store.Wrap("upload archive", err)
}

// GetSource returns a source of any account, because only a caller of CreateSource can know its id.
func (d *Deployments) GetSource(ctx context.Context, id string) (domain.DeploymentSource, error) {
	if !store.Storable(id) {
		return domain.DeploymentSource{}, domain.ErrNotFound
	}
	row, err := takeSource(d.db.Reading(ctx), id)
	return row.domain(), store.Wrap("get source", err)
}

// sourceColumns are all columns except the archive.
const sourceColumns = "id, account, project, branch, deployment, format, size, created_at, created_by, created_key, uploaded_at, failed_at"

func takeSource(tx *gorm.DB, id string) (sourceRow, error) {
	var row sourceRow
	err := tx.Select(sourceColumns).Where("id = ?", id).Take(&row).Error
	return row, err
}

func (d *Deployments) insertSource(ctx context.Context, tx *gorm.DB, t Target, archive []byte, format domain.ArchiveFormat) (sourceRow, error) {
	id, err := store.NewUUID()
	if err != nil {
		return sourceRow{}, err
	}
	caller, _ := auditlog.CallerOf(ctx)
	now := store.InstantOf(d.db.Now())
	row := sourceRow{
		ID: id, Account: t.Account, Project: t.Project, Branch: t.Branch, Deployment: t.deployment(),
		CreatedAt: now, CreatedBy: caller.Sub, CreatedKey: caller.KeyID,
	}
	if archive != nil {
		row.Format, row.Size, row.Archive, row.UploadedAt = string(format), int64(len(archive)), archive, now
	}
	if err := tx.Create(&row).Error; err != nil {
		return row, fmt.Errorf("insert source: %w", err)
	}
	row.Archive = nil
	return row, nil
}

func (r sourceRow) target() Target { return Target{r.Account, r.Project, r.Branch} }

func (r sourceRow) domain() domain.DeploymentSource {
	return domain.DeploymentSource{
		ID: r.ID, Account: r.Account, Project: r.Project, Branch: r.Branch, Deployment: r.Deployment,
		CreatedOn: r.CreatedAt.Time(), Uploaded: r.UploadedAt != 0,
	}
}

// productionBranch returns the production branch of a project. The error is domain.ErrNotFound when
// the account has no such project.
func productionBranch(ctx context.Context, tx *gorm.DB, account, project string) (string, error) {
	if !store.Storable(account, project) {
		return "", domain.ErrNotFound
	}
	var branch string
	err := tx.WithContext(ctx).Raw("SELECT production_branch FROM projects WHERE account = ? AND name = ?", account, project).Row().Scan(&branch)
	return branch, store.Classify(err)
}

// inNameOf returns a context for changes in the name of the source's maker, because the request
// that makes them has no key of its own.
func inNameOf(ctx context.Context, row sourceRow) context.Context {
	request, ok := auditlog.CallerOf(ctx)
	if !ok {
		return ctx
	}
	caller := callerOf(row.Account, row.CreatedBy, row.CreatedKey, request.RequestID)
	caller.Address, caller.UserAgent, caller.Method, caller.Route = request.Address, request.UserAgent, request.Method, request.Route
	return auditlog.WithCaller(ctx, caller)
}

// callerOf returns the maker of a row, in the form of the audit log.
func callerOf(account, sub, key, requestID string) domain.Caller {
	c := domain.Caller{Account: account, Sub: sub, Type: apikey.TypeKey, KeyID: key, RequestID: requestID}
	switch {
	case key == "":
		c.Type = apikey.TypeBootstrap
	case strings.HasPrefix(key, managerPrefix):
		c.Type = apikey.TypeManager
	}
	return c
}

// managerPrefix begins the ids of managers; such an id is in the place of a key.
const managerPrefix = "eusr_"

func deploymentResource(name string) domain.Resource {
	return domain.Resource{Type: auditlog.ResourceDeployment, ID: name, Name: name}
}
