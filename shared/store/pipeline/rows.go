package pipeline

import (
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// The rows of the tables that gorm reads and writes. A test compares each with the
// live columns of both databases.

type configVersionRow struct {
	ID      int `gorm:"primaryKey;autoIncrement:false"`
	Version int64
}

func (configVersionRow) TableName() string { return "config_version" }

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
	PreviousSecretExpiresAt store.Instant
	CreatedAt               store.Instant `gorm:"autoCreateTime:false"`
	UpdatedAt               store.Instant `gorm:"autoUpdateTime:false"`
	Version                 int64
	ActivatedVersion        int64
	ActivatedAt             store.Instant
	DeactivatedAt           store.Instant
	Deleted                 bool
	DeletedAt               store.Instant
	Ordering                string
	OrderingMaxWaitMS       int64 `gorm:"column:ordering_max_wait_ms"`
	Filter                  *string
	Delivery                string
	Auth                    []byte
	Signing                 string
	PushedSince             store.Instant
	AuthExpiresAt           store.Instant
	URLVersion              int64
	ConsumerID              *string
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
	FailingSince    store.Instant
	ChangedAt       store.Instant
	DisabledVersion int64
	DisabledReason  string
	DisabledAt      store.Instant
	UpdatedAt       store.Instant `gorm:"autoUpdateTime:false"`

	CertificateExpiresAt store.Instant
	CertificateVersion   int64
	DisabledUntil        store.Instant
}

func (webhookHealthRow) TableName() string { return "webhook_health" }

func (r webhookHealthRow) domain() domain.Health {
	return domain.Health{
		Webhook:         domain.WebhookID(r.WebhookID),
		FailingSince:    r.FailingSince.Time(),
		DisabledVersion: r.DisabledVersion,
		DisabledReason:  domain.DisabledReason(r.DisabledReason),
		DisabledAt:      r.DisabledAt.Time(),
		UpdatedAt:       r.UpdatedAt.Time(),

		CertificateExpiresAt: r.CertificateExpiresAt.Time(),
		CertificateVersion:   r.CertificateVersion,
		DisabledUntil:        r.DisabledUntil.Time(),
	}
}

// webhookCircuitRow is the state of a circuit as a dispatcher recorded it. SaidAt orders the records.
type webhookCircuitRow struct {
	WebhookID    string `gorm:"primaryKey"`
	OpenSince    store.Instant
	Failures     int64
	FailingSince store.Instant
	NextProbeAt  store.Instant
	SaidAt       store.Instant
	AnswerAt     store.Instant
	AnswerClass  string
	AnswerStatus int
	AnswerBody   string
}

func (webhookCircuitRow) TableName() string { return "webhook_circuits" }

// webhookAlertRow is what alerts have reported about a webhook.
type webhookAlertRow struct {
	WebhookID string `gorm:"primaryKey"`
	Failing   bool
	Opened    bool
	Minute    store.Instant
	Told      int64
	LeftOut   int64
	UpdatedAt store.Instant `gorm:"autoUpdateTime:false"`
}

func (webhookAlertRow) TableName() string { return "webhook_alerts" }

type eventRow struct {
	Day        store.Date `gorm:"primaryKey"`
	Account    string     `gorm:"primaryKey"`
	ID         string     `gorm:"primaryKey"`
	Type       string
	OccurredAt string
	Payload    []byte
	ReceivedAt store.Instant
	Repeats    string
	Source     string
	Shipment   *int64
	Xact       int64
	Place      int
}

func (eventRow) TableName() string { return "events" }

func (r eventRow) domain() domain.Event {
	return domain.Event{
		Account:    r.Account,
		ID:         r.ID,
		Type:       domain.EventType(r.Type),
		Timestamp:  r.OccurredAt,
		Payload:    r.Payload,
		ReceivedAt: r.ReceivedAt.Time(),
	}
}

type outboxRow struct {
	ReceivedAt store.Instant `gorm:"primaryKey"`
	Account    string        `gorm:"primaryKey"`
	ID         string        `gorm:"primaryKey"`
	Version    int64
	RelayedAt  store.Instant
	Relayed    int
	Place      *int64
}

func (outboxRow) TableName() string { return "outbox" }

// orderingAccountRow is made by an account's first webhook with ordering. It is never removed.
type orderingAccountRow struct {
	Account   string `gorm:"primaryKey"`
	LastPlace int64
}

func (orderingAccountRow) TableName() string { return "ordering_accounts" }

type requestRow struct {
	ID         string `gorm:"primaryKey"`
	Kind       string
	Account    string
	WebhookID  string
	EventID    string
	EventType  string
	Day        store.Date
	DeliveryID string
	Test       bool
	Forge      *string
	CreatedAt  store.Instant `gorm:"autoCreateTime:false"`
	RelayedAt  store.Instant
}

func (requestRow) TableName() string { return "requests" }

type deliveryRow struct {
	Day               store.Date `gorm:"primaryKey"`
	ID                string     `gorm:"primaryKey"`
	Account           string     `gorm:"primaryKey"`
	WebhookID         string
	EventID           string
	EventType         string
	Status            string
	Rev               int64
	Attempts          int
	RunAttempts       int
	RunStartedAt      store.Instant
	NextAttemptAt     store.Instant
	InLane            bool
	Reason            string
	Test              bool
	Sequence          *int64
	UpdatedAt         store.Instant `gorm:"autoUpdateTime:false"`
	LastClass         *string
	LastStatus        *int
	AttemptID         *string
	AttemptNumber     *int
	AttemptStartedAt  store.Instant
	AttemptUS         *int64 `gorm:"column:attempt_us"`
	AttemptStatus     *int
	AttemptClass      *string
	AttemptError      *string
	AttemptBody       *string
	AttemptTranscript []byte
}

func (deliveryRow) TableName() string { return "deliveries" }

func (r deliveryRow) domain() domain.Delivery {
	created, _ := domain.DeliveryID(r.ID).ReceivedAt()
	d := domain.Delivery{
		ID:            domain.DeliveryID(r.ID),
		Account:       r.Account,
		Webhook:       domain.WebhookID(r.WebhookID),
		EventID:       r.EventID,
		EventType:     domain.EventType(r.EventType),
		Status:        domain.Status(r.Status),
		Attempts:      r.Attempts,
		NextAttemptAt: r.NextAttemptAt.Time(),
		Reason:        r.Reason,
		Test:          r.Test,
		CreatedAt:     created,
		UpdatedAt:     r.UpdatedAt.Time(),
	}
	if r.Sequence != nil {
		d.Sequence = *r.Sequence
	}
	switch {
	case r.LastClass != nil:
		d.LastClass = domain.Class(*r.LastClass)
		if r.LastStatus != nil {
			d.LastStatus = *r.LastStatus
		}
	case r.Attempts == 1 && r.AttemptStatus != nil:
		d.LastClass, d.LastStatus = classOf(nil, *r.AttemptStatus), *r.AttemptStatus
	}
	return d
}

// classOf returns how an attempt ended; empty: it had no answer, and was recorded before classes existed.
func classOf(stored *string, status int) domain.Class {
	switch {
	case stored != nil:
		return domain.Class(*stored)
	case status > 0:
		return domain.ClassOf(status)
	}
	return ""
}

// firstAttempt returns the attempt that is in the delivery's own row.
func (r deliveryRow) firstAttempt() (domain.Attempt, bool) {
	if r.AttemptID == nil {
		return domain.Attempt{}, false
	}
	return domain.Attempt{
		ID:           *r.AttemptID,
		Number:       *r.AttemptNumber,
		StartedAt:    r.AttemptStartedAt.Time(),
		Duration:     time.Duration(*r.AttemptUS) * time.Microsecond,
		Status:       *r.AttemptStatus,
		Class:        classOf(r.AttemptClass, *r.AttemptStatus),
		Error:        *r.AttemptError,
		ResponseBody: *r.AttemptBody,
		Transcript:   r.AttemptTranscript,
	}, true
}

type attemptRow struct {
	Day        store.Date `gorm:"primaryKey"`
	DeliveryID string     `gorm:"primaryKey"`
	ID         string     `gorm:"primaryKey"`
	Number     int
	StartedAt  store.Instant
	DurationUS int64 `gorm:"column:duration_us"`
	Status     int
	Class      *string
	Error      string
	Body       string
	Transcript []byte
}

func (attemptRow) TableName() string { return "attempts" }

func (r attemptRow) domain() domain.Attempt {
	return domain.Attempt{
		ID:           r.ID,
		Number:       r.Number,
		StartedAt:    r.StartedAt.Time(),
		Duration:     time.Duration(r.DurationUS) * time.Microsecond,
		Status:       r.Status,
		Class:        classOf(r.Class, r.Status),
		Error:        r.Error,
		ResponseBody: r.Body,
		Transcript:   r.Transcript,
	}
}

type idempotencyRow struct {
	Account   string `gorm:"primaryKey"`
	Path      string `gorm:"primaryKey"`
	Key       []byte `gorm:"primaryKey"`
	BodyHash  []byte
	Status    int
	Response  []byte
	CreatedAt store.Instant `gorm:"autoCreateTime:false"`
}

func (idempotencyRow) TableName() string { return "idempotency_keys" }

type busStreamRow struct {
	Name      string        `gorm:"primaryKey"`
	CreatedAt store.Instant `gorm:"autoCreateTime:false"`
	LastSeq   int64
	Server    string
	SeenAt    store.Instant
}

func (busStreamRow) TableName() string { return "bus_streams" }

type jobRow struct {
	ID         string `gorm:"primaryKey"`
	Account    string
	Kind       string
	Filter     string
	CreatedBy  string
	CreatedAt  store.Instant `gorm:"autoCreateTime:false"`
	AsOf       store.Instant
	Matched    int64
	Sent       int64
	Delivered  int64
	Failed     int64
	Cursor     string
	LastID     string
	AllSent    bool
	Cancelled  bool
	AdvancedAt store.Instant
}

func (jobRow) TableName() string { return "jobs" }

func (r jobRow) domain() domain.Job {
	status := domain.JobRunning
	switch {
	case r.Cancelled:
		status = domain.JobCancelled
	case r.AllSent && r.Delivered+r.Failed >= r.Sent:
		status = domain.JobDone
	}
	return domain.Job{
		ID: r.ID, Account: r.Account, Kind: domain.JobKind(r.Kind), Status: status, Filter: []byte(r.Filter),
		CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt.Time(), Matched: int(r.Matched), Sent: int(r.Sent),
		Delivered: int(r.Delivered), Failed: int(r.Failed),
	}
}

type jobDeliveryRow struct {
	DeliveryID string `gorm:"primaryKey"`
	JobID      string `gorm:"primaryKey"`
	Day        store.Date
	Rev        int64
}

func (jobDeliveryRow) TableName() string { return "job_deliveries" }
