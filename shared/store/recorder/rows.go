package recorder

import "waybill.dev/shared/store"

// The rows of the tables that only the recorder uses. A test compares each with
// the live columns of both databases.

// orderingStartRow is where the order of an account starts.
type orderingStartRow struct {
	Account       string `gorm:"primaryKey"`
	StreamCreated store.Instant
	FromSequence  int64
}

func (orderingStartRow) TableName() string { return "ordering_starts" }

// webhookSequenceRow has the Numbers of a webhook and a shipment.
type webhookSequenceRow struct {
	WebhookID string `gorm:"primaryKey"`
	Shipment  int64  `gorm:"primaryKey"`
	Sequence  int64
	Missed    int64
	UpdatedAt store.Instant `gorm:"autoUpdateTime:false"`
}

func (webhookSequenceRow) TableName() string { return "webhook_sequences" }
