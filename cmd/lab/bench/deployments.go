package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/load"
	"waybill.dev/cmd/lab/internal/stack"
	"waybill.dev/cmd/lab/internal/uploads"
	"waybill.dev/shared/domain"
)

const (
	// throughGateway is the process that serves deployments.
	throughGateway = "gateway"
	// deployed is how many deployments the gateway serves.
	deployed = 10_000
	// copies makes the others of one deployment: each serves a build of its own that is made of the same files.
	copies = `WITH builds AS (
			INSERT INTO gateway_builds
			SELECT (jsonb_populate_record(b, jsonb_build_object('id', 'copy-' || n, 'status_id', 'copy-' || n, 'deployment', 'copy-' || n, 'variables', NULL))).*
			FROM gateway_builds b, generate_series(2, $2) n WHERE deployment = $1
		), next AS (UPDATE gateway_version SET version = version + 1 WHERE id = 1 RETURNING version)
		INSERT INTO gateway_deployments (name, account, project, branch, environment_type, state, message, active_build, active_number, last_number,
			version, created_at, created_by, updated_at)
		SELECT 'copy-' || n, account, project, 'copy-' || n, environment_type, state, message, 'copy-' || n, active_number, last_number,
			next.version, created_at, created_by, updated_at
		FROM gateway_deployments, next, generate_series(2, $2) n WHERE name = $1`
)

// crowd has the gateway serve many deployments, and adds the passage through the last of them: a static route, of which
// the look-up is the largest part.
func (c *crossing) crowd(ctx context.Context, r *rig, n int) error {
	deployer, err := uploads.NewDeployer(ctx, client.Access{URL: r.stack.URL, Key: domain.Secret(r.stack.Key)})
	if err != nil {
		return err
	}
	defer deployer.Close()
	accepted, err := deployer.Upload(ctx, 1, 0)
	if err != nil {
		return err
	}
	if err := deployer.Await(ctx, accepted); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, r.stack.DatabaseURL)
	if err == nil {
		_, err = conn.Exec(ctx, copies, accepted.DeploymentName, deployed)
		err = errors.Join(err, conn.Close(ctx))
	}
	if err != nil {
		return fmt.Errorf("copy a deployment: %w", err)
	}
	a := load.Ask{Address: r.stack.GatewayAddresses[0], Host: fmt.Sprintf("copy-%d.gateway.localhost", deployed), Path: uploads.Path, Connections: 1, For: watchEvery}
	if err := stack.Await(ctx, func() (bool, error) {
		p, err := c.caller.Ask(a)
		return p.Events > 0, err
	}); err != nil {
		return fmt.Errorf("wait for %s: %w", a.Host, err)
	}
	a.Connections, a.For = n, c.duration
	c.passages = append(c.passages, &passage{name: "static, 10,000 deployments", through: throughGateway, ask: a, bare: "static"})
	return nil
}
