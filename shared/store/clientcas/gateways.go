package clientcas

import (
	"context"

	"gorm.io/gorm"

	"waybill.dev/shared/store"
)

// ServedCA is a CA certificate as gateways get it.
type ServedCA struct {
	ID          string
	Account     string
	Certificate []byte // DER
	Removed     bool
}

// ServedClientCAs returns the CA certificates of all accounts that changed after version since,
// removed ones included, and the version that this covers. since 0: all that exist.
func (c *ClientCAs) ServedClientCAs(ctx context.Context, since int64) ([]ServedCA, int64, error) {
	var served []ServedCA
	var version int64
	err := c.db.Snapshot(ctx, func(tx *gorm.DB) error {
		if err := tx.Raw("SELECT version FROM gateway_version WHERE id = 1").Scan(&version).Error; err != nil {
			return err
		}
		if version == since {
			return nil
		}
		query := tx.Where("version > ?", since)
		if since == 0 {
			query = tx.Where("removed_at IS NULL")
		}
		var rows []caRow
		if err := query.Order("version, seq").Find(&rows).Error; err != nil {
			return err
		}
		served = make([]ServedCA, len(rows))
		for i := range rows {
			served[i] = ServedCA{rows[i].ID, rows[i].Account, rows[i].Certificate, rows[i].RemovedAt != 0}
		}
		return nil
	})
	return served, version, store.Wrap("read served CA certificates", err)
}
