// Package deployments has the tables of what gateways serve: deployments, what was uploaded
// for them, their builds and the variables of branches. The api writes what users want. A
// gateway writes what became of a build that it has claimed, and which build is active.
package deployments

import (
	"context"
	"fmt"
	"sync/atomic"

	"gorm.io/gorm"

	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
)

// Deployments reads and writes the tables.
type Deployments struct {
	db      *store.Store
	audit   *auditlog.Log
	sources int64 // bytes of archives that an account may keep
	kept    atomic.Int64
}

// DefaultSourceBytes is how many bytes of archives an account may keep.
const DefaultSourceBytes = 1 << 30

// New returns the tables of an open database.
func New(db *store.Store) *Deployments {
	return &Deployments{db: db, audit: auditlog.New(db), sources: DefaultSourceBytes}
}

// KeepSources sets how many bytes of archives an account may keep. Call it before the first use.
func (d *Deployments) KeepSources(bytes int64) { d.sources = bytes }

// GatewayVersion returns the version of what gateways serve.
func (d *Deployments) GatewayVersion(ctx context.Context) (int64, error) {
	var version int64
	err := d.db.Conn().QueryRow(ctx, "SELECT version FROM gateway_version WHERE id = 1").Scan(&version)
	return version, store.Wrap("read gateway version", err)
}

// bump takes the next version, in the transaction of the change that gateways must see. Take
// it last: from here on until the end of the transaction, other such changes wait.
func bump(ctx context.Context, tx *gorm.DB) (int64, error) {
	var version int64
	err := tx.WithContext(ctx).Raw("UPDATE gateway_version SET version = version + 1 WHERE id = 1 RETURNING version").Row().Scan(&version)
	if err != nil {
		return 0, fmt.Errorf("count gateway version: %w", err)
	}
	return version, nil
}
