// Package deployments has the tables for what gateways serve: deployments, the archives that were
// uploaded for them, their builds and the variables of branches. The api writes what users want. A
// gateway writes the result of a build that it has claimed, and which build is active.
package deployments

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/counts"
)

// Deployments reads and writes the tables.
type Deployments struct {
	db    *store.Store
	audit *auditlog.Log
	kept  atomic.Int64

	sources, variables counts.Kind // sources: bytes of archives
}

// DefaultSourceBytes is how many bytes of archives an account may keep.
const DefaultSourceBytes = 1 << 30

// New returns the tables of an open database.
func New(db *store.Store) *Deployments {
	d := &Deployments{db: db, audit: auditlog.New(db)}
	d.Keep(DefaultSourceBytes, domain.DefaultLimits().Variables)
	return d
}

// Keep sets how many bytes of archives, and how many variables, an account may keep. Call it before the first use.
func (d *Deployments) Keep(sources, variables int64) {
	d.sources = counts.Kind{Name: "sources", Most: sources, SQL: "SELECT COALESCE(SUM(size), 0) FROM gateway_sources WHERE account = ? AND size > 0"}
	d.variables = counts.Kind{Name: "variables", Setting: "WAYBILL_MAX_VARIABLES", Most: variables, SQL: "SELECT count(*) FROM gateway_variables WHERE account = ?"}
}

// CountAgain counts again what accounts keep, see counts.Recount.
func (d *Deployments) CountAgain(ctx context.Context, now time.Time) error {
	return counts.Recount(ctx, d.db, now, &d.sources, &d.variables)
}

// GatewayVersion returns the version of everything that gateways serve.
func (d *Deployments) GatewayVersion(ctx context.Context) (int64, error) {
	var version int64
	err := d.db.Conn().QueryRow(ctx, "SELECT version FROM gateway_version WHERE id = 1").Scan(&version)
	return version, store.Wrap("read gateway version", err)
}

// nextVersion takes the next version, in the transaction of a change that gateways must see. Take it last:
// until the transaction ends, other such changes wait.
func nextVersion(ctx context.Context, tx *gorm.DB) (int64, error) {
	var version int64
	err := tx.WithContext(ctx).Raw("UPDATE gateway_version SET version = version + 1 WHERE id = 1 RETURNING version").Row().Scan(&version)
	if err != nil {
		return 0, fmt.Errorf("count gateway version: %w", err)
	}
	return version, nil
}
