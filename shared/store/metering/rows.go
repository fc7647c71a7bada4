package metering

import (
	"cmp"
	"encoding/json"
	"fmt"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// The database numbers the rows (seq).

type meterRow struct {
	Seq           int64  `gorm:"->"`
	ID            string `gorm:"primaryKey"`
	BucketID      string
	Slug          string
	Name          string
	Description   string
	Metadata      string
	Aggregation   string
	EventType     string
	EventFrom     store.Instant
	ValueProperty string
	GroupBy       string
	CreatedAt     store.Instant `gorm:"autoCreateTime:false"`
	UpdatedAt     store.Instant `gorm:"autoUpdateTime:false"`
}

func (*meterRow) TableName() string { return "meters" }

func (r *meterRow) domain(bucket domain.BucketKey) (domain.Meter, error) {
	m := domain.Meter{
		ID: r.ID, Bucket: bucket, Slug: r.Slug, Name: r.Name, Description: r.Description, Aggregation: domain.Aggregation(r.Aggregation),
		EventType: r.EventType, EventFrom: r.EventFrom.Time(), ValueProperty: r.ValueProperty,
		CreatedOn: r.CreatedAt.Time(), UpdatedOn: r.UpdatedAt.Time(),
	}
	err := readJSON(r.Metadata, &m.Metadata)
	if err == nil {
		err = readJSON(r.GroupBy, &m.GroupBy)
	}
	return m, err
}

func meterToRow(m *domain.Meter, bucketID string) (*meterRow, error) {
	row := &meterRow{
		ID: m.ID, BucketID: bucketID, Slug: m.Slug, Name: m.Name, Description: m.Description, Aggregation: string(m.Aggregation),
		EventType: m.EventType, EventFrom: store.InstantOf(m.EventFrom), ValueProperty: m.ValueProperty,
		CreatedAt: store.InstantOf(m.CreatedOn), UpdatedAt: store.InstantOf(m.UpdatedOn),
	}
	var err error
	if row.Metadata, err = writeMap(m.Metadata); err == nil {
		row.GroupBy, err = writeMap(m.GroupBy)
	}
	return row, err
}

type featureRow struct {
	Seq        int64  `gorm:"->"`
	ID         string `gorm:"primaryKey"`
	BucketID   string
	Key        string
	Name       string
	MeterID    *string
	Filters    string
	Metadata   string
	CreatedAt  store.Instant `gorm:"autoCreateTime:false"`
	UpdatedAt  store.Instant `gorm:"autoUpdateTime:false"`
	ArchivedAt store.Instant
}

func (*featureRow) TableName() string { return "features" }

func (r *featureRow) domain(meterSlug string) (domain.Feature, error) {
	f := domain.Feature{
		ID: r.ID, Key: r.Key, Name: r.Name, MeterSlug: meterSlug,
		CreatedOn: r.CreatedAt.Time(), UpdatedOn: r.UpdatedAt.Time(), ArchivedOn: r.ArchivedAt.Time(),
	}
	err := readJSON(r.Filters, &f.Filters)
	if err == nil {
		err = readJSON(r.Metadata, &f.Metadata)
	}
	return f, err
}

type planRow struct {
	Seq            int64  `gorm:"->"`
	ID             string `gorm:"primaryKey"`
	BucketID       string
	Key            string
	Version        int
	Name           string
	Description    string
	Metadata       string
	Currency       string
	BillingCadence string
	Status         string
	Alignment      string
	ProRating      string
	Phases         string
	EffectiveFrom  store.Instant
	EffectiveTo    store.Instant
	CreatedAt      store.Instant `gorm:"autoCreateTime:false"`
	UpdatedAt      store.Instant `gorm:"autoUpdateTime:false"`
}

func (*planRow) TableName() string { return "plans" }

func (r *planRow) domain() (domain.Plan, error) {
	p := domain.Plan{
		ID: r.ID, Key: r.Key, Version: r.Version, Name: r.Name, Description: r.Description, Currency: r.Currency,
		BillingCadence: domain.Cadence(r.BillingCadence), Status: domain.PlanStatus(r.Status),
		EffectiveFrom: r.EffectiveFrom.Time(), EffectiveTo: r.EffectiveTo.Time(),
		CreatedOn: r.CreatedAt.Time(), UpdatedOn: r.UpdatedAt.Time(),
	}
	if r.Alignment != "" {
		p.Alignment = json.RawMessage(r.Alignment)
	}
	if r.ProRating != "" {
		p.ProRating = json.RawMessage(r.ProRating)
	}
	err := readJSON(r.Metadata, &p.Metadata)
	if err == nil {
		err = readJSON(r.Phases, &p.Phases)
	}
	return p, err
}

// fill sets the columns that the owner of a plan decides.
func (r *planRow) fill(p *domain.Plan) error {
	phases, err := json.Marshal(p.Phases)
	if err != nil {
		return fmt.Errorf("write phases: %w", err)
	}
	r.Name, r.Description, r.Currency, r.BillingCadence = p.Name, p.Description, cmp.Or(p.Currency, r.Currency), string(p.BillingCadence)
	r.Alignment, r.ProRating, r.Phases = string(p.Alignment), string(p.ProRating), string(phases)
	r.Metadata, err = writeMap(p.Metadata)
	return err
}

type subscriptionRow struct {
	ConsumerID string `gorm:"primaryKey"`
	PlanID     string
	AnchorAt   store.Instant
	SinceAt    store.Instant
	CreatedAt  store.Instant `gorm:"autoCreateTime:false"`
	UpdatedAt  store.Instant `gorm:"autoUpdateTime:false"`
}

func (*subscriptionRow) TableName() string { return "subscriptions" }

type hourRow struct {
	BucketID   string
	ConsumerID string        `gorm:"primaryKey"`
	EventType  string        `gorm:"primaryKey"`
	Hour       store.Instant `gorm:"primaryKey"`
	Deployment string        `gorm:"primaryKey"`
	Route      string        `gorm:"primaryKey"`
	Method     string        `gorm:"primaryKey"`
	Status     string        `gorm:"primaryKey"`
	Count      int64
	Sum        int64
}

func (*hourRow) TableName() string { return "meter_hours" }

// readJSON reads a column of JSON that may be empty.
func readJSON(text string, into any) error {
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("read JSON of a row: %w", err)
	}
	return nil
}

func writeMap(values map[string]string) (string, error) {
	if len(values) == 0 {
		return "", nil
	}
	text, err := json.Marshal(values)
	if err != nil {
		return "", fmt.Errorf("write JSON of a row: %w", err)
	}
	return string(text), nil
}
