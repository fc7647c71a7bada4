package deployments

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

const (
	// Lease is how long a gateway keeps a build without renewing its claim.
	Lease = 15 * time.Second
	// MaxClaims is how often a build is begun: a build that has ended three
	// gateways would end a fourth, too.
	MaxClaims = 3
)

// ErrClaimLost means that the caller does not have the build any more: it was too slow, or the
// deployment was deleted.
var ErrClaimLost = errors.New("the build is in other hands, or gone")

// Claim is a build that a gateway has begun. No other gateway works on it.
type Claim struct {
	Build   domain.Build // without its result
	Format  string       // of the archive
	Archive []byte
	// Before are the variables of the active build; nil: there is none, or they can't be read.
	Before map[string]domain.Secret

	owner   string
	changed store.Instant // when a variable changed after the active build was made; 0: none did
}

// Progress is the progress of a build.
type Progress struct {
	Steps []domain.BuildStep
	Log   []domain.BuildLine
}

// Result is the result of a build. A build without faults has succeeded.
type Result struct {
	Progress

	Faults []domain.BuildFault
	Routes int
	// Variables are the values of $env in the build, secrets included. They were read after the
	// build was claimed.
	Variables []domain.Variable
}

// ClaimBuild begins the oldest waiting build of the account whose turn it is, and gives it to the
// caller for Lease; nil: no build waits. It is the turn of the account that was served longest ago,
// so that an account with many builds does not hold up others. A build that its gateway has lost is
// begun again, up to MaxClaims times.
func (d *Deployments) ClaimBuild(ctx context.Context) (*Claim, error) {
	owner, err := store.NewUUID()
	if err != nil {
		return nil, err
	}
	var claim *Claim
	err = d.db.Tx(ctx, func(tx *gorm.DB) error {
		row, err := d.claimRow(tx, owner)
		if err != nil || row.ID == "" {
			claim = nil
			return err
		}
		claim, err = d.completeClaim(tx, &row)
		return err
	})
	return claim, store.Wrap("claim build", err)
}

// claimRow takes the row of a waiting build, if there is one.
func (d *Deployments) claimRow(tx *gorm.DB, owner string) (buildRow, error) {
	lock := " FOR UPDATE OF b SKIP LOCKED"
	if d.db.SQLite() {
		lock = "" // SQLite has one writer
	}
	now := d.db.Now()
	var row buildRow
	err := tx.Raw(`UPDATE gateway_builds SET status = 'BUILDING', claims = claims + 1, owner = ?, lease_until = ?, started_at = ?
		WHERE id = (SELECT b.id FROM gateway_builds b LEFT JOIN gateway_turns t ON t.account = b.account
			WHERE b.status IN ('QUEUED', 'BUILDING') AND (b.status = 'QUEUED' OR b.lease_until < ?) AND b.claims < ?
			ORDER BY t.turn NULLS FIRST, b.created_at, b.id LIMIT 1`+lock+`)
		RETURNING id, status_id, deployment, account, project, branch, number, source_id, environment_type, status, created_at, created_by, owner`,
		owner, d.db.Moment(now.Add(Lease)), d.db.Moment(now), d.db.Moment(now), MaxClaims).Scan(&row).Error
	if err != nil {
		return row, fmt.Errorf("claim build row: %w", err)
	}
	if row.ID == "" {
		return row, nil
	}
	err = tx.Exec(`INSERT INTO gateway_turns (account, turn) VALUES (?, (SELECT COALESCE(MAX(turn), 0) + 1 FROM gateway_turns))
		ON CONFLICT (account) DO UPDATE SET turn = excluded.turn`, row.Account).Error
	if err != nil {
		return row, fmt.Errorf("note turn of account: %w", err)
	}
	return row, nil
}

// completeClaim adds what a build is made of. Data that can't be read must not block the builds behind
// this one: without its archive the build fails, and without the variables of the active build it
// is not reported which ones are new.
func (d *Deployments) completeClaim(tx *gorm.DB, row *buildRow) (*Claim, error) {
	var source sourceRow
	if err := tx.Select("format", "archive").Where("id = ?", row.SourceID).Limit(1).Find(&source).Error; err != nil {
		return nil, fmt.Errorf("read archive of build %s: %w", row.ID, err)
	}
	build, err := row.domain()
	if err != nil {
		return nil, err
	}
	claim := &Claim{Build: build, Format: source.Format, Archive: source.Archive, owner: row.Owner}
	var deployment deploymentRow
	if err := tx.Select("active_build", "variables_changed_at").Where("name = ?", row.Deployment).Limit(1).Find(&deployment).Error; err != nil {
		return nil, fmt.Errorf("read deployment: %w", err)
	}
	claim.changed = deployment.VariablesChangedAt
	var active buildRow
	if err := tx.Select("id", "variables").Where("id = ?", deployment.ActiveBuild).Limit(1).Find(&active).Error; err != nil {
		return nil, fmt.Errorf("read variables of the active build: %w", err)
	}
	claim.Before, _ = d.openVariables(active.ID, active.Variables)
	return claim, nil
}

// ReportBuild renews a claim for Lease from now on, and shows the progress of the build. The error
// may be ErrClaimLost.
func (d *Deployments) ReportBuild(ctx context.Context, claim *Claim, p Progress) error {
	row := buildRow{LeaseUntil: store.InstantOf(d.db.Now().Add(Lease))}
	if err := row.progress(p); err != nil {
		return store.Wrap("report build", err)
	}
	err := d.db.Again(ctx, func() error {
		return claim.writeColumns(d.db.Writing(ctx), row, "lease_until", "steps", "log")
	})
	return store.Wrap("report build", err)
}

// ReleaseBuild gives a claim back, so that another gateway begins the build at once. The claim does
// not count towards MaxClaims.
func (d *Deployments) ReleaseBuild(ctx context.Context, claim *Claim) error {
	err := d.db.Again(ctx, func() error {
		result := d.db.Writing(ctx).Model(&buildRow{}).Where("id = ? AND owner = ? AND status = 'BUILDING'", claim.Build.ID, claim.owner).
			Updates(map[string]any{"status": string(domain.BuildQueued), "owner": "", "claims": gorm.Expr("claims - 1")})
		return result.Error
	})
	return store.Wrap("release build", err)
}

// writeColumns writes columns of the row of a claim, if the caller still has the claim.
func (c *Claim) writeColumns(tx *gorm.DB, row buildRow, columns ...string) error {
	result := tx.Model(&buildRow{}).Where("id = ? AND owner = ? AND status = 'BUILDING'", c.Build.ID, c.owner).Select(columns).Updates(row)
	if result.Error != nil {
		return fmt.Errorf("update build row: %w", result.Error)
	}
	if result.RowsAffected == 0 {
		return ErrClaimLost
	}
	return nil
}

func (r *buildRow) progress(p Progress) error {
	var err, wrong error
	r.Steps, err = encode(p.Steps)
	r.Log, wrong = encode(p.Log)
	return errors.Join(err, wrong)
}

// encode returns a list as a column of JSON.
func encode[T any](list []T) (string, error) {
	if list == nil {
		list = []T{}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return "", fmt.Errorf("encode column of a build: %w", err)
	}
	return string(text), nil
}
