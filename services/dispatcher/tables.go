package dispatcher

import (
	"context"

	"waybill.dev/services/dispatcher/internal/cancelled"
	"waybill.dev/services/dispatcher/internal/fanout"
	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/services/dispatcher/internal/order"
	"waybill.dev/services/dispatcher/internal/record"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/accounts"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/recorder"
)

// database is all that a dispatcher asks of the database: fifteen methods.
type database interface {
	index.Store        // webhooks and their health
	index.AccountStore // the accounts that exist
	fanout.Log         // the recorded deliveries
	order.Log          // and their order
	record.Writer
	circuitStore // the recorded circuits
	cancelled.Store
	// Pending reports whether migrations wait to be applied.
	Pending(ctx context.Context) (bool, error)
}

// tables implements database by the tables of the store.
type tables struct {
	*store.Store
	*accounts.Accounts
	*pipeline.Pipeline
	*recorder.Recorder
}

func newTables(db *store.Store, publicURL string) database {
	return tables{Store: db, Accounts: accounts.New(db), Pipeline: pipeline.New(db), Recorder: recorder.New(db).WithLinks(publicURL)}
}
