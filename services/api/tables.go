package api

import (
	"context"
	"errors"
	"time"

	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/accounts"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/clientcas"
	"waybill.dev/shared/store/deployments"
	"waybill.dev/shared/store/domains"
	"waybill.dev/shared/store/metering"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/rollup"
	"waybill.dev/shared/store/traffic"
	"waybill.dev/shared/store/tunnels"
)

// tables are the families of tables that the service works with, on one database. Each part of the
// service uses only a few of their methods.
type tables struct {
	*store.Store
	*accounts.Accounts
	*access.Access
	*auditlog.Log
	*pipeline.Pipeline
	*rollup.Rollups
	*deployments.Deployments
	*traffic.Traffic
	*tunnels.Tunnels
	*metering.Metering
	*domains.Domains
	*clientcas.ClientCAs
}

func newTables(db *store.Store) tables {
	return tables{
		Store:       db,
		Accounts:    accounts.New(db),
		Access:      access.New(db),
		Log:         auditlog.New(db),
		Pipeline:    pipeline.New(db),
		Rollups:     rollup.New(db),
		Deployments: deployments.New(db),
		Traffic:     traffic.New(db),
		Tunnels:     tunnels.New(db),
		Metering:    metering.New(db),
		Domains:     domains.New(db),
		ClientCAs:   clientcas.New(db),
	}
}

// Maintain implements relay.Store. It also purges old rows of the other families, and counts again.
func (t tables) Maintain(ctx context.Context, now time.Time, retention time.Duration) (pipeline.MaintainResult, error) {
	result, err := t.Pipeline.Maintain(ctx, now, retention)
	if err != nil {
		return result, err
	}
	return result, errors.Join(t.Deployments.Purge(ctx, now), t.Tunnels.Purge(ctx, now), t.Domains.Purge(ctx, now), t.PurgeClientCAs(ctx, now), t.Metering.Purge(ctx, now),
		t.Access.CountAgain(ctx, now), t.Deployments.CountAgain(ctx, now))
}

// HasKeys reports whether the database has any API key.
func HasKeys(ctx context.Context, db *store.Store) (bool, error) { return access.New(db).HasKeys(ctx) }
