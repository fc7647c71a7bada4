package deployments

import (
	"context"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
)

// NextVersion takes the next version of what gateways serve, for a family of tables besides
// this one. Take it last in the transaction: from here on, other such changes wait.
func NextVersion(ctx context.Context, tx *gorm.DB) (int64, error) { return bump(ctx, tx) }

// MadeBy returns the caller that a row was made by, as the audit log has it: for what happens
// later, when nobody asks for it.
func MadeBy(account, sub, key string) domain.Caller { return callerOf(account, sub, key, "") }
