package deployments

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
)

// DeploymentWithBuilds is a deployment with its active and its newest build. These have no steps and faults.
type DeploymentWithBuilds struct {
	domain.Deployment

	Build     *domain.Build // the active one; nil: none
	LastBuild *domain.Build // the newest one
}

// Filter selects deployments of an account.
type Filter struct {
	Account         string
	Project         string                 // empty: of all its projects
	Branch          string                 // empty: any
	EnvironmentType domain.EnvironmentType // empty: any
	Search          string                 // in its name or its branch, in any case; empty: any
	store.Page
}

// ListDeployments returns deployments, and how many there are. ErrNotFound: there is no such
// project.
func (d *Deployments) ListDeployments(ctx context.Context, f Filter) ([]DeploymentWithBuilds, int, error) {
	if !store.Storable(f.Account, f.Project) {
		return nil, 0, domain.ErrNotFound
	}
	if !store.Storable(f.Branch, f.Search) {
		return nil, 0, nil
	}
	var list []DeploymentWithBuilds
	var total int
	err := d.db.Snapshot(ctx, func(tx *gorm.DB) error {
		if f.Project != "" {
			if _, err := productionBranch(ctx, tx, f.Account, f.Project); err != nil {
				return err
			}
		}
		rows, n, err := store.ListPage[deploymentRow](f.narrow(tx.Model(&deploymentRow{})), f.Page, store.Weight{})
		if err != nil {
			return err
		}
		total = n
		list, err = withBuilds(tx, rows)
		return err
	})
	return list, total, store.Wrap("list deployments", err)
}

func (f Filter) narrow(query *gorm.DB) *gorm.DB {
	query = query.Where("account = ? AND removed_at IS NULL", f.Account)
	if f.Project != "" {
		query = query.Where("project = ?", f.Project)
	}
	if f.Branch != "" {
		query = query.Where("branch = ?", f.Branch)
	}
	if f.EnvironmentType != "" {
		query = query.Where("environment_type = ?", string(f.EnvironmentType))
	}
	if f.Search != "" {
		query = store.Contains(query, f.Search, "name", "branch")
	}
	return query
}

// GetDeployment returns the account's deployment with a name.
func (d *Deployments) GetDeployment(ctx context.Context, account, name string) (DeploymentWithBuilds, error) {
	var listed []DeploymentWithBuilds
	err := d.db.Snapshot(ctx, func(tx *gorm.DB) error {
		row, err := d.deployment(tx, account, name, store.LockNone)
		if err != nil {
			return err
		}
		listed, err = withBuilds(tx, []deploymentRow{row})
		return err
	})
	if err != nil {
		return DeploymentWithBuilds{}, store.Wrap("get deployment", err)
	}
	return listed[0], nil
}

// DeleteDeployment removes a deployment with its builds and archives. Gateways stop serving it.
// The variables of its branch stay.
func (d *Deployments) DeleteDeployment(ctx context.Context, account, name string) error {
	err := d.db.Tx(ctx, func(tx *gorm.DB) error {
		row, err := d.deployment(tx, account, name, store.LockChange)
		if err != nil {
			return err
		}
		freed, err := dropBuilds(tx, "deployment = ?", row.Name)
		if err != nil {
			return err
		}
		if err := d.countSources(tx, account, -freed); err != nil {
			return err
		}
		if err := d.audit.Note(ctx, tx, auditlog.ActionDeleteDeployment, account, deploymentResource(row.Name)); err != nil {
			return err
		}
		row.RemovedAt = store.InstantOf(d.db.Now())
		row.ActiveBuild, row.ActiveNumber, row.VariablesChangedAt = "", 0, 0
		if row.Version, err = nextVersion(ctx, tx); err != nil {
			return err
		}
		// Its custom domains stay, and lead nowhere. A later deployment of the same name does not
		// get them by itself.
		err = tx.Exec("UPDATE gateway_domains SET deployment = '', is_default = ?, version = ? WHERE deployment = ? AND removed_at IS NULL", false, row.Version, row.Name).Error
		if err != nil {
			return fmt.Errorf("take custom domains from deployment: %w", err)
		}
		err = tx.Select("removed_at", "active_build", "active_number", "variables_changed_at", "version").Updates(&row).Error
		if err != nil {
			return fmt.Errorf("update deployment row: %w", err)
		}
		return nil
	})
	return store.Wrap("delete deployment", err)
}

// deployment returns the row of a deployment that was not removed.
func (d *Deployments) deployment(tx *gorm.DB, account, name, lock string) (deploymentRow, error) {
	var row deploymentRow
	if !store.Storable(account, name) {
		return row, domain.ErrNotFound
	}
	err := d.db.Lock(tx.Where("name = ? AND account = ? AND removed_at IS NULL", name, account), lock).Take(&row).Error
	return row, err
}

func (r *deploymentRow) domain() domain.Deployment {
	return domain.Deployment{
		Name: r.Name, Account: r.Account, Project: r.Project, Branch: r.Branch,
		EnvironmentType: domain.EnvironmentType(r.EnvironmentType), State: domain.DeploymentState(r.State), Message: r.Message,
		ActiveBuild: r.ActiveBuild, VariablesChangedOn: r.VariablesChangedAt.Time(),
		CreatedOn: r.CreatedAt.Time(), UpdatedOn: r.UpdatedAt.Time(), CreatedBy: r.CreatedBy,
		Version: r.Version, Removed: r.RemovedAt != 0,
	}
}

// withBuilds adds the builds of deployments.
func withBuilds(tx *gorm.DB, rows []deploymentRow) ([]DeploymentWithBuilds, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	var newer, active []string
	for _, row := range rows {
		if row.LastNumber != row.ActiveNumber {
			newer = append(newer, row.Name)
		}
		if row.ActiveBuild != "" {
			active = append(active, row.ActiveBuild)
		}
	}
	var builds []buildRow
	if len(active) > 0 {
		if err := tx.Select(buildColumns("")).Where("id IN ?", active).Find(&builds).Error; err != nil {
			return nil, fmt.Errorf("read active builds: %w", err)
		}
	}
	var last []buildRow
	if len(newer) > 0 {
		err := tx.Raw("SELECT "+buildColumns("b.")+" FROM gateway_deployments d JOIN gateway_builds b ON b.deployment = d.name AND b.number = d.last_number WHERE d.name IN ?", newer).Scan(&last).Error
		if err != nil {
			return nil, fmt.Errorf("read newest builds: %w", err)
		}
	}
	return join(rows, append(builds, last...))
}

func join(rows []deploymentRow, builds []buildRow) ([]DeploymentWithBuilds, error) {
	type place struct {
		deployment string
		number     int64
	}
	at := make(map[place]*domain.Build, len(builds))
	for _, row := range builds {
		build, err := row.domain()
		if err != nil {
			return nil, err
		}
		at[place{row.Deployment, row.Number}] = &build
	}
	list := make([]DeploymentWithBuilds, len(rows))
	for i, row := range rows {
		list[i] = DeploymentWithBuilds{Deployment: row.domain(), LastBuild: at[place{row.Name, row.LastNumber}]}
		if row.ActiveBuild != "" {
			list[i].Build = at[place{row.Name, row.ActiveNumber}]
		}
	}
	return list, nil
}

// NoteReload writes to the audit log that a folder of route files was read again.
func (d *Deployments) NoteReload(ctx context.Context, account, deployment string) error {
	return store.Wrap("note reload", d.db.Tx(ctx, func(tx *gorm.DB) error {
		return d.audit.Note(ctx, tx, auditlog.ActionRedeploy, account, deploymentResource(deployment))
	}))
}
