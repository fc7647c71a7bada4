package deployments

import (
	"context"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
)

// NextVersion takes the next version of everything that gateways serve, for changes in the tables
// of other packages. Take it last in the transaction: until that ends, other such changes wait.
func NextVersion(ctx context.Context, tx *gorm.DB) (int64, error) { return nextVersion(ctx, tx) }

// MadeBy returns the maker of a row, in the form of the audit log, for changes that are made later
// without a request.
func MadeBy(account, sub, key string) domain.Caller { return callerOf(account, sub, key, "") }
