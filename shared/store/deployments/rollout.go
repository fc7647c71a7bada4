package deployments

import (
	"context"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// ServedDeployment is a deployment as gateways get it.
type ServedDeployment struct {
	Name        string
	Account     string
	State       domain.DeploymentState
	ActiveBuild string // empty: none has succeeded
	Removed     bool
}

// Served returns the deployments of all accounts that changed after version since, removed ones
// included, and the version that this covers. since 0: all that exist.
func (d *Deployments) Served(ctx context.Context, since int64) ([]ServedDeployment, int64, error) {
	var served []ServedDeployment
	var version int64
	err := d.db.Snapshot(ctx, func(tx *gorm.DB) error {
		if err := tx.Model(&versionRow{}).Where("id = 1").Pluck("version", &version).Error; err != nil {
			return err
		}
		query := tx.Where("version > ?", since)
		if since == 0 {
			query = tx.Where("removed_at IS NULL")
		}
		var rows []deploymentRow
		if err := query.Select("name", "account", "state", "active_build", "removed_at").Find(&rows).Error; err != nil {
			return err
		}
		served = make([]ServedDeployment, len(rows))
		for i, row := range rows {
			served[i] = ServedDeployment{row.Name, row.Account, domain.DeploymentState(row.State), row.ActiveBuild, !row.RemovedAt.Time().IsZero()}
		}
		return nil
	})
	return served, version, store.Wrap("read served deployments", err)
}

// Source is what a build is made from.
type Source struct {
	Build     domain.Build // without its result
	Format    string
	Archive   []byte
	Variables map[string]domain.Secret // their values at the time of the build
}

// Source returns what a build of a deployment was made from. It fails with domain.ErrNotFound when
// the build has been removed.
func (d *Deployments) Source(ctx context.Context, deployment, build string) (Source, error) {
	var b buildRow
	var from sourceRow
	err := d.db.Snapshot(ctx, func(tx *gorm.DB) error {
		err := tx.Select("id", "deployment", "account", "project", "branch", "number", "source_id", "environment_type", "variables").
			Where("id = ? AND deployment = ?", build, deployment).Take(&b).Error
		if err != nil {
			return err
		}
		return tx.Select("format", "archive").Where("id = ?", b.SourceID).Take(&from).Error
	})
	if err != nil {
		return Source{}, store.Wrap("read source of build", err)
	}
	variables, err := d.openVariables(b.ID, b.Variables)
	if err != nil {
		return Source{}, store.Wrap("read source of build", err)
	}
	return Source{
		Build: domain.Build{
			ID: b.ID, Deployment: b.Deployment, Account: b.Account, Project: b.Project, Branch: b.Branch,
			Number: b.Number, SourceID: b.SourceID, EnvironmentType: domain.EnvironmentType(b.EnvironmentType),
		},
		Format: from.Format, Archive: from.Archive, Variables: variables,
	}, nil
}
