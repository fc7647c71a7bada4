// Package deploymentstest puts deployments into the database, in the state after a build, for tests
// of the code that serves them.
package deploymentstest

import (
	"context"
	"encoding/json"
	"testing"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// Deployment is a deployment whose build has succeeded.
type Deployment struct {
	Account, Project, Branch string
	Format                   string // of the archive
	Archive                  []byte
	Variables                map[string]string
}

// Name returns the name of the deployment.
func (d Deployment) Name() string { return domain.DeploymentName(d.Account, d.Project, d.Branch) }

// Activate adds a build of the deployment and makes it the active one. It returns the build's id.
func (d Deployment) Activate(tb testing.TB, db *store.Store) string {
	tb.Helper()
	build, source := id(tb), id(tb)
	variables, err := json.Marshal(d.Variables)
	if err != nil {
		tb.Fatal(err)
	}
	sealed, err := db.Seal(variables, []byte("gateway_builds|variables|"+build))
	if err != nil {
		tb.Fatal(err)
	}
	now := db.Moment(db.Now())
	inTx(tb, db, func(execute func(query string, args ...any)) {
		execute("INSERT INTO gateway_sources (id, account, project, branch, deployment, format, size, archive, created_at, created_by, created_key, uploaded_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'test', '', $9)",
			source, d.Account, d.Project, d.Branch, d.Name(), d.Format, len(d.Archive), d.Archive, now)
		d.put(execute, now)
		execute("UPDATE gateway_deployments SET state = 'STARTED', active_build = $2, active_number = last_number + 1, last_number = last_number + 1 WHERE name = $1", d.Name(), build)
		execute(`INSERT INTO gateway_builds (id, status_id, deployment, account, project, branch, number, source_id, environment_type, status, created_at, created_by, created_key, request_id, claims, owner, routes, variables, steps, faults, log)
			SELECT $1, $1, $2, $3, $4, $5, last_number, $6, environment_type, 'SUCCESS', $7, 'test', '', '', 1, '', 1, $8, '[]', '[]', '[]' FROM gateway_deployments WHERE name = $2`,
			build, d.Name(), d.Account, d.Project, d.Branch, source, now, sealed)
	})
	return build
}

// Set adds the deployment without a build, or sets the state of the existing one.
func (d Deployment) Set(tb testing.TB, db *store.Store, state domain.DeploymentState) {
	tb.Helper()
	inTx(tb, db, func(execute func(query string, args ...any)) {
		d.put(execute, db.Moment(db.Now()))
		execute("UPDATE gateway_deployments SET state = $2 WHERE name = $1", d.Name(), string(state))
	})
}

// Remove removes the deployment.
func (d Deployment) Remove(tb testing.TB, db *store.Store) {
	tb.Helper()
	inTx(tb, db, func(execute func(query string, args ...any)) {
		d.put(execute, db.Moment(db.Now()))
		execute("UPDATE gateway_deployments SET active_build = '', active_number = 0, removed_at = $2 WHERE name = $1", d.Name(), db.Moment(db.Now()))
	})
}

// put makes the row if it is missing, and gives it the next version.
func (d Deployment) put(execute func(query string, args ...any), now any) {
	execute(`INSERT INTO gateway_deployments (name, account, project, branch, environment_type, state, message, active_build, active_number, last_number, version, created_at, created_by, updated_at)
		VALUES ($1, $2, $3, $4, $5, 'BUILDING', '', '', 0, 0, 0, $6, 'test', $6) ON CONFLICT (name) DO UPDATE SET removed_at = NULL`,
		d.Name(), d.Account, d.Project, d.Branch, string(domain.EnvironmentTypeOf(d.Branch, domain.DefaultProductionBranch)), now)
	execute("UPDATE gateway_version SET version = version + 1 WHERE id = 1")
	execute("UPDATE gateway_deployments SET version = (SELECT version FROM gateway_version WHERE id = 1) WHERE name = $1", d.Name())
}

func inTx(tb testing.TB, db *store.Store, do func(execute func(query string, args ...any))) {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context())
	writing, _ := db.Handles()
	tx, err := writing.BeginTx(ctx, nil)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	do(func(query string, args ...any) {
		tb.Helper()
		if _, err := tx.ExecContext(ctx, query, args...); err != nil {
			tb.Fatal(err)
		}
	})
	if err := tx.Commit(); err != nil {
		tb.Fatal(err)
	}
}

func id(tb testing.TB) string {
	tb.Helper()
	made, err := store.NewUUID()
	if err != nil {
		tb.Fatal(err)
	}
	return made
}
