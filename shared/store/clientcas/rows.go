package clientcas

import (
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// The database numbers rows (seq).

type caRow struct {
	Seq         int64  `gorm:"->"`
	ID          string `gorm:"primaryKey"`
	Account     string
	Name        string
	Certificate []byte
	ExpiresAt   store.Instant
	Version     int64
	CreatedAt   store.Instant `gorm:"autoCreateTime:false"`
	UpdatedAt   store.Instant `gorm:"autoUpdateTime:false"`
	RemovedAt   store.Instant
}

func (*caRow) TableName() string { return "gateway_client_cas" }

func (r *caRow) domain() domain.ClientCA {
	return domain.ClientCA{
		ID: r.ID, Account: r.Account, Name: r.Name, Certificate: r.Certificate,
		CreatedOn: r.CreatedAt.Time(), UpdatedOn: r.UpdatedAt.Time(),
	}
}
