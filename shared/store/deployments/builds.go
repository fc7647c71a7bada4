package deployments

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// Status is the state of an upload or a redeployment.
type Status struct {
	Source domain.DeploymentSource
	Build  *domain.Build // nil: the archive has not been uploaded yet
}

// GetStatus returns the status with an id, in a project of the account.
func (d *Deployments) GetStatus(ctx context.Context, account, project, statusID string) (Status, error) {
	if !store.Storable(account, project, statusID) {
		return Status{}, domain.ErrNotFound
	}
	var status Status
	err := d.db.Snapshot(ctx, func(tx *gorm.DB) error {
		row, err := takeBuild(tx.Where("status_id = ? AND account = ? AND project = ?", statusID, account, project))
		if errors.Is(err, gorm.ErrRecordNotFound) {
			source, err := takeSource(tx.Where("account = ? AND project = ?", account, project), statusID)
			status = Status{Source: source.domain()}
			return err
		}
		if err != nil {
			return err
		}
		build, err := row.domain()
		if err != nil {
			return err
		}
		source, err := takeSource(tx, row.SourceID)
		status = Status{Source: source.domain(), Build: &build}
		return err
	})
	return status, store.Wrap("get deployment status", err)
}

// ListBuilds returns builds of a deployment, the oldest first, and how many there are. They have no
// steps and faults.
func (d *Deployments) ListBuilds(ctx context.Context, account, deployment string, page store.Page) ([]domain.Build, int, error) {
	var builds []domain.Build
	var total int64
	err := d.db.Snapshot(ctx, func(tx *gorm.DB) error {
		row, err := d.deployment(tx, account, deployment, store.LockNone)
		if err != nil {
			return err
		}
		query := tx.Model(&buildRow{}).Where("deployment = ?", row.Name)
		if err := query.Session(&gorm.Session{}).Count(&total).Error; err != nil {
			return err
		}
		var rows []buildRow
		err = query.Session(&gorm.Session{}).Select(buildColumns("")).Order("number").Limit(page.Limit).Offset(page.Offset).Find(&rows).Error
		if err != nil {
			return err
		}
		for _, row := range rows {
			build, err := row.domain()
			if err != nil {
				return err
			}
			builds = append(builds, build)
		}
		return nil
	})
	if err != nil {
		return nil, 0, store.Wrap("list builds", err)
	}
	return builds, int(total), nil
}

// BuildLog returns the log of a build of a deployment. ErrNotFound: there is no such deployment, or
// no such build of it.
func (d *Deployments) BuildLog(ctx context.Context, account, deployment, id string) ([]domain.BuildLine, error) {
	if !store.Storable(account, deployment, id) {
		return nil, domain.ErrNotFound
	}
	var lines []domain.BuildLine
	err := d.db.Snapshot(ctx, func(tx *gorm.DB) error {
		if _, err := d.deployment(tx, account, deployment, store.LockNone); err != nil {
			return err
		}
		var row buildRow
		if err := tx.Select("log").Where("id = ? AND deployment = ?", id, deployment).Take(&row).Error; err != nil {
			return err
		}
		return decode(row.Log, &lines)
	})
	return lines, store.Wrap("read build log", err)
}

// takeBuild reads a build without its log and variables.
func takeBuild(query *gorm.DB) (buildRow, error) {
	var row buildRow
	err := query.Select(buildColumns("") + ", steps, faults").Take(&row).Error
	return row, err
}

// buildColumns returns the small columns of a build.
func buildColumns(of string) string {
	columns := []string{
		"id", "status_id", "deployment", "account", "project", "branch", "number", "source_id", "environment_type", "status",
		"created_at", "created_by", "finished_at", "activated_at", "routes",
	}
	return of + strings.Join(columns, ", "+of)
}

func (r *buildRow) domain() (domain.Build, error) {
	b := domain.Build{
		ID: r.ID, StatusID: r.StatusID, Deployment: r.Deployment, Account: r.Account, Project: r.Project, Branch: r.Branch,
		Number: r.Number, SourceID: r.SourceID, EnvironmentType: domain.EnvironmentType(r.EnvironmentType), Status: domain.BuildStatus(r.Status),
		CreatedOn: r.CreatedAt.Time(), CreatedBy: r.CreatedBy, FinishedOn: r.FinishedAt.Time(), ActivatedOn: r.ActivatedAt.Time(), Routes: int(r.Routes),
	}
	return b, errors.Join(decode(r.Steps, &b.Steps), decode(r.Faults, &b.Faults))
}

// decode reads a column of JSON; a column that was not read from the database is empty.
func decode(text string, v any) error {
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), v); err != nil {
		return fmt.Errorf("decode column of a build: %w", err)
	}
	return nil
}
