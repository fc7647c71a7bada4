package deployments

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
)

// activation is the last step of a build.
const activation = "activate"

// maxMessage bounds a deployment's message about a failed build, in bytes.
const maxMessage = 500

// EndBuild ends a build and makes all changes that follow from that, in one transaction. A successful
// build becomes the active one, unless a later build is active. After a failure the active build
// stays. EndBuild reports whether the build is active now. The error may be ErrClaimLost.
func (d *Deployments) EndBuild(ctx context.Context, claim *Claim, result Result) (active bool, err error) {
	err = d.db.Tx(ctx, func(tx *gorm.DB) error {
		deployment, err := d.lockDeployment(tx, claim.Build.Deployment)
		if err != nil {
			return err
		}
		row, columns, err := d.endedRow(claim, result, &deployment)
		if err != nil {
			return err
		}
		active = row.ActivatedAt != 0
		if err := claim.writeColumns(tx, row, columns...); err != nil {
			return err
		}
		if len(result.Faults) > 0 {
			return d.noteBuildFailed(ctx, tx, deployment, claim.Build.Number, messageOf(claim.Build.Number, result.Faults))
		}
		if !active {
			return nil
		}
		return d.activate(ctx, tx, deployment, claim)
	})
	return active && err == nil, store.Wrap("end build", err)
}

// lockDeployment locks the deployment of a build. When a deployment is removed, its builds are, too.
func (d *Deployments) lockDeployment(tx *gorm.DB, name string) (deploymentRow, error) {
	var row deploymentRow
	err := d.db.Lock(tx.Where("name = ? AND removed_at IS NULL", name), store.LockChange).Take(&row).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return row, ErrClaimLost
	}
	if err != nil {
		return row, fmt.Errorf("lock deployment: %w", err)
	}
	return row, nil
}

// endedRow returns the row to write for the build, and the columns to write.
func (d *Deployments) endedRow(claim *Claim, result Result, deployment *deploymentRow) (buildRow, []string, error) {
	now := d.db.Now()
	row := buildRow{Status: string(domain.BuildError), FinishedAt: store.InstantOf(now), Routes: int64(result.Routes)}
	columns := []string{"status", "finished_at", "routes", "steps", "log", "faults", "lease_until"}
	if len(result.Faults) == 0 {
		row.Status = string(domain.BuildSuccess)
		message := fmt.Sprintf("build %d is active", claim.Build.Number)
		if deployment.ActiveNumber > claim.Build.Number {
			message = fmt.Sprintf("superseded: build %d is active already, which is newer", deployment.ActiveNumber)
		} else {
			row.ActivatedAt = store.InstantOf(now)
		}
		result.Log = append(result.Log, domain.BuildLine{Step: activation, Timestamp: now, Level: "info", Message: message})
		result.Steps = append(result.Steps, domain.BuildStep{Name: activation, Status: domain.BuildSuccess, StartedOn: now, FinishedOn: now})
		var err error
		if row.Variables, err = d.sealVariables(claim.Build.ID, result.Variables); err != nil {
			return row, nil, err
		}
		columns = append(columns, "activated_at", "variables")
	}
	err := row.progress(result.Progress)
	if err != nil {
		return row, nil, err
	}
	row.Faults, err = encode(result.Faults)
	return row, columns, err
}

// activate makes the build the active one.
func (d *Deployments) activate(ctx context.Context, tx *gorm.DB, row deploymentRow, claim *Claim) error {
	var build buildRow
	if err := tx.Select("created_by", "created_key", "request_id").Where("id = ?", claim.Build.ID).Take(&build).Error; err != nil {
		return fmt.Errorf("read who made the build: %w", err)
	}
	caller := callerOf(row.Account, build.CreatedBy, build.CreatedKey, build.RequestID)
	err := d.audit.Note(auditlog.WithCaller(ctx, caller), tx, auditlog.ActionActivateBuild, row.Account, deploymentResource(row.Name), buildResource(claim.Build.ID))
	if err != nil {
		return err
	}
	row.ActiveBuild, row.ActiveNumber, row.State = claim.Build.ID, claim.Build.Number, string(domain.DeploymentStarted)
	row.EnvironmentType = string(claim.Build.EnvironmentType)
	row.UpdatedAt = store.InstantOf(d.db.Now())
	if claim.Build.Number == row.LastNumber {
		row.Message = ""
	}
	if row.VariablesChangedAt == claim.changed {
		row.VariablesChangedAt = 0 // otherwise a variable has changed since, perhaps too late for the build
	}
	if row.Version, err = nextVersion(ctx, tx); err != nil {
		return err
	}
	err = tx.Select("active_build", "active_number", "state", "environment_type", "message", "variables_changed_at", "updated_at", "version").Updates(&row).Error
	if err != nil {
		return fmt.Errorf("update deployment row: %w", err)
	}
	return nil
}

// noteBuildFailed notes that a build has failed. If the deployment serves nothing and has no other open
// build, gateways are told, because they give another answer from now on.
func (d *Deployments) noteBuildFailed(ctx context.Context, tx *gorm.DB, row deploymentRow, number int64, message string) error {
	var open int64
	err := tx.Model(&buildRow{}).Where("deployment = ? AND number <> ? AND status IN ('QUEUED', 'BUILDING')", row.Name, number).Count(&open).Error
	if err != nil {
		return fmt.Errorf("count open builds: %w", err)
	}
	if err := d.noteFailed(tx, row.Name, number); err != nil {
		return err
	}
	if number == row.LastNumber {
		row.Message = message
	}
	row.UpdatedAt = store.InstantOf(d.db.Now())
	if row.ActiveBuild == "" && open == 0 && row.State != string(domain.DeploymentErrored) {
		row.State = string(domain.DeploymentErrored)
		if row.Version, err = nextVersion(ctx, tx); err != nil {
			return err
		}
	}
	if err := tx.Select("state", "message", "updated_at", "version").Updates(&row).Error; err != nil {
		return fmt.Errorf("update deployment row: %w", err)
	}
	return nil
}

// messageOf returns one sentence that says why a build failed.
func messageOf(number int64, faults []domain.BuildFault) string {
	first := faults[0]
	var where []string
	for _, part := range []string{first.File, first.Operation, first.Pointer, first.Detail} {
		if part != "" {
			where = append(where, part)
		}
	}
	message := fmt.Sprintf("Build %d has failed: %s", number, strings.Join(where, ": "))
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	if more := len(faults) - 1; more > 0 {
		message += fmt.Sprintf(" (and %d more)", more)
	}
	return message
}

// FailAbandoned ends the builds that were begun MaxClaims times and never ended, and returns how
// many it ended.
func (d *Deployments) FailAbandoned(ctx context.Context) (int, error) {
	var rows []buildRow
	now := d.db.Moment(d.db.Now())
	err := d.db.Reading(ctx).Select("id", "deployment", "number", "owner", "steps", "log").
		Where("status = 'BUILDING' AND lease_until < ? AND claims >= ?", now, MaxClaims).Find(&rows).Error
	if err != nil {
		return 0, store.Wrap("find abandoned builds", err)
	}
	count := 0
	for _, row := range rows {
		switch err := d.failAbandoned(ctx, row); {
		case errors.Is(err, ErrClaimLost): // another gateway was faster
		case err != nil:
			return count, store.Wrap("end abandoned build", err)
		default:
			count++
		}
	}
	return count, nil
}

func (d *Deployments) failAbandoned(ctx context.Context, row buildRow) error {
	claim := &Claim{Build: domain.Build{ID: row.ID, Deployment: row.Deployment, Number: row.Number}, owner: row.Owner}
	detail := fmt.Sprintf("it was begun %d times, and no gateway came to its end", MaxClaims)
	return d.db.Tx(ctx, func(tx *gorm.DB) error {
		deployment, err := d.lockDeployment(tx, row.Deployment)
		if err != nil {
			return err
		}
		faults := []domain.BuildFault{{Detail: detail}}
		ended := buildRow{Status: string(domain.BuildError), FinishedAt: store.InstantOf(d.db.Now())}
		if ended.Faults, err = encode(faults); err != nil {
			return err
		}
		if err := claim.writeColumns(tx.Where("lease_until < ?", d.db.Moment(d.db.Now())), ended, "status", "finished_at", "faults", "lease_until"); err != nil {
			return err
		}
		return d.noteBuildFailed(ctx, tx, deployment, row.Number, messageOf(row.Number, faults))
	})
}
