package rollup

import "waybill.dev/shared/store"

// The rows of the tables. A test compares each with the live columns of both databases.

type deltaRow struct {
	ID        int64 `gorm:"primaryKey"`
	Account   string
	EventType string
	Minute    store.Instant
	Events    int64
	Counts    []byte
}

func (deltaRow) TableName() string { return "rollup_deltas" }

type rollupRow struct {
	Account    string        `gorm:"primaryKey"`
	WebhookID  string        `gorm:"primaryKey"`
	Step       int           `gorm:"primaryKey;autoIncrement:false"`
	Start      store.Instant `gorm:"primaryKey"`
	EventType  string        `gorm:"primaryKey"`
	Class      string        `gorm:"primaryKey"`
	Events     int64
	Deliveries int64
	Attempts   int64
	LastAt     store.Instant
	Latency    []byte
}

func (rollupRow) TableName() string { return "rollups" }
