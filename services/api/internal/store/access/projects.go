package access

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/accounts"
	"waybill.dev/shared/store/auditlog"
)

// defaultBuckets returns the ends of the names of a new project's buckets.
func defaultBuckets() []string { return []string{"-production", "-preview", "-working-copy"} }

// CreateProject makes a project with its three buckets, which are retrievable, or nothing.
// ErrConflict: the account has a project of that name, or one of the buckets.
func (a *Access) CreateProject(ctx context.Context, account, name string) (domain.Project, error) {
	var row projectRow
	err := a.db.Tx(ctx, func(tx *gorm.DB) error {
		if _, err := accounts.Take(tx, account); err != nil {
			return err
		}
		now := a.db.Now()
		row = projectRow{ID: store.NewID(prefixProject, idLength), Account: account, Name: name, CreatedAt: store.InstantOf(now), ProductionBranch: domain.DefaultProductionBranch}
		if err := tx.Create(&row).Error; err != nil {
			return fmt.Errorf("insert project: %w", err)
		}
		resources := []domain.Resource{projectResource(row)}
		for _, end := range defaultBuckets() {
			bucket, err := insertBucket(tx, domain.Bucket{Account: account, Name: name + end, Retrievable: true}, now)
			if err != nil {
				return err
			}
			resources = append(resources, bucketResource(bucket))
		}
		if err := a.count(tx, account, change{projects: 1, buckets: len(defaultBuckets())}); err != nil {
			return err
		}
		return a.audit.Note(ctx, tx, auditlog.ActionCreateProject, account, resources...)
	})
	return row.domain(), store.Wrap("create project", err)
}

// GetProject returns the account's project of that name.
func (a *Access) GetProject(ctx context.Context, account, name string) (domain.Project, error) {
	var row projectRow
	err := domain.ErrNotFound
	if store.Storable(account, name) {
		err = store.Unique(a.db.Reading(ctx).Where("account = ? AND name = ?", account, name), &row)
	}
	return row.domain(), store.Wrap("get project", err)
}

// UpdateProject applies change to the production branch of a project. If change returns an error,
// that is returned and nothing is stored; change may be called again and must not use the store.
func (a *Access) UpdateProject(ctx context.Context, account, name string, change func(*domain.Project) error) (domain.Project, error) {
	var updated domain.Project
	err := a.db.Tx(ctx, func(tx *gorm.DB) error {
		var row projectRow
		if !store.Storable(account, name) {
			return domain.ErrNotFound
		}
		if err := store.Unique(a.db.Lock(tx.Where("account = ? AND name = ?", account, name), store.LockChange), &row); err != nil {
			return err
		}
		updated = row.domain()
		if err := change(&updated); err != nil {
			return err
		}
		row.ProductionBranch = updated.ProductionBranch
		if err := tx.Select("production_branch").Updates(&row).Error; err != nil {
			return fmt.Errorf("update project row: %w", err)
		}
		updated = row.domain()
		return a.audit.Note(ctx, tx, auditlog.ActionUpdateProject, account, projectResource(row))
	})
	return updated, store.Wrap("update project", err)
}

func projectResource(p projectRow) domain.Resource {
	return domain.Resource{Type: auditlog.ResourceProject, ID: p.ID, Name: p.Name}
}

// ListProjects returns a page of an account's projects, and their total number.
func (a *Access) ListProjects(ctx context.Context, account string, page store.Page) ([]domain.Project, int, error) {
	if !store.Storable(account) {
		return nil, 0, nil
	}
	var projects []domain.Project
	var total int
	err := a.db.Snapshot(ctx, func(tx *gorm.DB) error {
		rows, n, err := store.ListPage[projectRow](tx.Model(&projectRow{}).Where("account = ?", account), page, store.Weight{})
		for _, row := range rows {
			projects = append(projects, row.domain())
		}
		total = n
		return err
	})
	return projects, total, store.Wrap("list projects", err)
}
