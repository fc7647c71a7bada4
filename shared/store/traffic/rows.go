package traffic

import "waybill.dev/shared/store"

type callRow struct {
	Deployment string        `gorm:"primaryKey"`
	Step       int           `gorm:"primaryKey"`
	Start      store.Instant `gorm:"primaryKey"`
	Consumer   string        `gorm:"primaryKey"`
	Status     int           `gorm:"primaryKey"`
	Calls      int64
	Micros     int64
}

func (callRow) TableName() string { return "gateway_calls" }

type notKeptRow struct {
	Deployment string        `gorm:"primaryKey"`
	Start      store.Instant `gorm:"primaryKey"`
	Requests   int64
}

func (notKeptRow) TableName() string { return "gateway_not_kept" }

type writerRow struct {
	Writer    string `gorm:"primaryKey"`
	Batch     int64
	WrittenAt store.Instant
}

func (writerRow) TableName() string { return "gateway_writers" }

type requestRow struct {
	Deployment      string        `gorm:"primaryKey"`
	At              store.Instant `gorm:"primaryKey"`
	ID              int64         `gorm:"primaryKey;autoIncrement:false"`
	RequestID       string
	ClientRequestID string
	BuildID         string
	Method          string
	Host            string
	Path            string
	RoutePath       string
	Status          int
	Micros          int64
	Consumer        string
	Severity        string
	Network         string
	BytesIn         int64
	BytesOut        int64
	BackEndHost     string
	BackEndStatus   int
	BackEndMicros   int64
	MCPMethod       string `gorm:"column:mcp_method"`
	MCPTool         string `gorm:"column:mcp_tool"`
	EntryCount      int
	Entries         string
	Messages        string
	Truncated       bool
}

func (*requestRow) TableName() string { return tableRequests }
