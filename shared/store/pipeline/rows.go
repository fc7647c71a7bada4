package store

import (
	"time"

	"waybill.dev/shared/domain"
)

// The rows of the tables that gorm reads and writes. A test compares each with the
// live columns of both databases.

type configVersionRow struct {
	ID      int `gorm:"primaryKey;autoIncrement:false"`
	Version int64
}

func (configVersionRow) TableName() string { return "config_version" }

type logFloorRow struct {
	ID  int `gorm:"primaryKey;autoIncrement:false"`
	Day date
}

func (logFloorRow) TableName() string { return "log_floor" }

type webhookRow struct {
	ID                      string `gorm:"primaryKey"`
	Account                 string
	URL                     string
	Events                  string
	Active                  bool
	Description             string
	Headers                 []byte
	RetrySchedule           *string
	TimeoutMS               int64 `gorm:"column:timeout_ms"`
	MaxInFlight             int
	RatePerSecond           *float64
	Secret                  []byte
	PreviousSecret          []byte
	PreviousSecretExpiresAt instant
	CreatedAt               instant `gorm:"autoCreateTime:false"`
	UpdatedAt               instant `gorm:"autoUpdateTime:false"`
	Version                 int64
	ActivatedVersion        int64
	ActivatedAt             instant
	DeactivatedAt           instant
	Deleted                 bool
	DeletedAt               instant
}

func (webhookRow) TableName() string { return "webhooks" }

// webhookCountRow changes with the webhooks, in the same transaction.
type webhookCountRow struct {
	Account  string `gorm:"primaryKey"`
	Webhooks int64
}

func (webhookCountRow) TableName() string { return "webhook_counts" }

type webhookHealthRow struct {
	WebhookID       string `gorm:"primaryKey"`
	FailingSince    instant
	ChangedAt       instant
	DisabledVersion int64
	DisabledReason  string
	DisabledAt      instant
	UpdatedAt       instant `gorm:"autoUpdateTime:false"`
}

func (webhookHealthRow) TableName() string { return "webhook_health" }

func (r webhookHealthRow) domain() domain.Health {
	return domain.Health{
		Webhook:         domain.WebhookID(r.WebhookID),
		FailingSince:    r.FailingSince.time(),
		DisabledVersion: r.DisabledVersion,
		DisabledReason:  domain.DisabledReason(r.DisabledReason),
		DisabledAt:      r.DisabledAt.time(),
		UpdatedAt:       r.UpdatedAt.time(),
	}
}

type eventRow struct {
	Day        date   `gorm:"primaryKey"`
	Account    string `gorm:"primaryKey"`
	ID         string `gorm:"primaryKey"`
	Type       string
	OccurredAt string
	Payload    []byte
	ReceivedAt instant
	Repeats    string
}

func (eventRow) TableName() string { return "events" }

func (r eventRow) domain() domain.Event {
	return domain.Event{
		Account:    r.Account,
		ID:         r.ID,
		Type:       domain.EventType(r.Type),
		Timestamp:  r.OccurredAt,
		Payload:    r.Payload,
		ReceivedAt: r.ReceivedAt.time(),
	}
}

type outboxRow struct {
	ReceivedAt instant `gorm:"primaryKey"`
	Account    string  `gorm:"primaryKey"`
	ID         string  `gorm:"primaryKey"`
	Version    int64
	RelayedAt  instant
	Relayed    int
}

func (outboxRow) TableName() string { return "outbox" }

type requestRow struct {
	ID         string `gorm:"primaryKey"`
	Kind       string
	Account    string
	WebhookID  string
	EventID    string
	EventType  string
	Day        date
	DeliveryID string
	Test       bool
	CreatedAt  instant `gorm:"autoCreateTime:false"`
	RelayedAt  instant
}

func (requestRow) TableName() string { return "requests" }

type deliveryRow struct {
	Day              date   `gorm:"primaryKey"`
	ID               string `gorm:"primaryKey"`
	Account          string `gorm:"primaryKey"`
	WebhookID        string
	EventID          string
	EventType        string
	Status           string
	Rev              int64
	Attempts         int
	RunAttempts      int
	RunStartedAt     instant
	NextAttemptAt    instant
	InLane           bool
	Reason           string
	Test             bool
	UpdatedAt        instant `gorm:"autoUpdateTime:false"`
	AttemptID        *string
	AttemptNumber    *int
	AttemptStartedAt instant
	AttemptUS        *int64 `gorm:"column:attempt_us"`
	AttemptStatus    *int
	AttemptError     *string
	AttemptBody      *string
}

func (deliveryRow) TableName() string { return "deliveries" }

func (r deliveryRow) domain() domain.Delivery {
	created, _ := domain.DeliveryID(r.ID).ReceivedAt()
	return domain.Delivery{
		ID:            domain.DeliveryID(r.ID),
		Account:       r.Account,
		Webhook:       domain.WebhookID(r.WebhookID),
		EventID:       r.EventID,
		EventType:     domain.EventType(r.EventType),
		Status:        domain.Status(r.Status),
		Attempts:      r.Attempts,
		NextAttemptAt: r.NextAttemptAt.time(),
		Reason:        r.Reason,
		Test:          r.Test,
		CreatedAt:     created,
		UpdatedAt:     r.UpdatedAt.time(),
	}
}

// firstAttempt returns the attempt that lies in the delivery's own row.
func (r deliveryRow) firstAttempt() (domain.Attempt, bool) {
	if r.AttemptID == nil {
		return domain.Attempt{}, false
	}
	return domain.Attempt{
		ID:           *r.AttemptID,
		Number:       *r.AttemptNumber,
		StartedAt:    r.AttemptStartedAt.time(),
		Duration:     time.Duration(*r.AttemptUS) * time.Microsecond,
		Status:       *r.AttemptStatus,
		Error:        *r.AttemptError,
		ResponseBody: *r.AttemptBody,
	}, true
}

type attemptRow struct {
	Day        date   `gorm:"primaryKey"`
	DeliveryID string `gorm:"primaryKey"`
	ID         string `gorm:"primaryKey"`
	Number     int
	StartedAt  instant
	DurationUS int64 `gorm:"column:duration_us"`
	Status     int
	Error      string
	Body       string
}

func (attemptRow) TableName() string { return "attempts" }

func (r attemptRow) domain() domain.Attempt {
	return domain.Attempt{
		ID:           r.ID,
		Number:       r.Number,
		StartedAt:    r.StartedAt.time(),
		Duration:     time.Duration(r.DurationUS) * time.Microsecond,
		Status:       r.Status,
		Error:        r.Error,
		ResponseBody: r.Body,
	}
}

type idempotencyRow struct {
	Account   string `gorm:"primaryKey"`
	Path      string `gorm:"primaryKey"`
	Key       []byte `gorm:"primaryKey"`
	BodyHash  []byte
	Status    int
	Response  []byte
	CreatedAt instant `gorm:"autoCreateTime:false"`
}

func (idempotencyRow) TableName() string { return "idempotency_keys" }

type busStreamRow struct {
	Name      string  `gorm:"primaryKey"`
	CreatedAt instant `gorm:"autoCreateTime:false"`
	LastSeq   int64
	Server    string
	SeenAt    instant
}

func (busStreamRow) TableName() string { return "bus_streams" }
