package deployments

import (
	"context"

	"gorm.io/gorm"
)

// NextVersion takes the next version of what gateways serve, for a family of tables besides
// this one. Take it last in the transaction: from here on, other such changes wait.
func NextVersion(ctx context.Context, tx *gorm.DB) (int64, error) { return bump(ctx, tx) }
