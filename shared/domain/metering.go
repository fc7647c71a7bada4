package domain

import (
	"encoding/json"
	"regexp"
	"time"
)

// EventDeliveries is the type of the metered events for webhook deliveries.
const EventDeliveries = "webhook_deliveries"

// Bounds of metering, for each bucket.
const (
	MaxMeters   = 100
	MaxFeatures = 100
	MaxPlans    = 1000 // all versions of all plans
)

// MeterRetention is how long counts of meters are kept.
const MeterRetention = 400 * 24 * time.Hour

// Aggregation is how a meter computes one number from events.
type Aggregation string

// The aggregations.
const (
	AggregationCount Aggregation = "COUNT" // how many events there are
	AggregationSum   Aggregation = "SUM"   // the sum of their totals
)

// Aggregations returns all aggregations.
func Aggregations() []Aggregation { return []Aggregation{AggregationCount, AggregationSum} }

// MeterTotal is the JSON path of the only value that a meter can sum.
const MeterTotal = "$.total"

// MeterDims returns the JSON paths of the values by which a meter can group events.
func MeterDims() []string { return []string{"$.deployment", "$.route", "$.method", "$.status"} }

// Meter counts events of one type.
type Meter struct {
	ID            string // a ULID
	Bucket        BucketKey
	Slug          string
	Name          string
	Description   string
	Metadata      map[string]string
	Aggregation   Aggregation
	EventType     string
	EventFrom     time.Time // earlier events don't count; zero: all count
	ValueProperty string    // MeterTotal; empty with AggregationCount
	// GroupBy has the dims by which queries may group, by their names in queries.
	GroupBy   map[string]string
	CreatedOn time.Time
	UpdatedOn time.Time
}

// BucketKey identifies a bucket of an account.
type BucketKey struct{ Account, Bucket string }

// Feature is something that plans may include.
type Feature struct {
	ID        string // a ULID
	Key       string
	Name      string
	MeterSlug string // empty: the feature is not metered
	// Filters are the values of the meter's groups that events must have to count; empty: all events count.
	Filters    map[string]string
	Metadata   map[string]string
	CreatedOn  time.Time
	UpdatedOn  time.Time
	ArchivedOn time.Time // zero: it is live
}

// PlanStatus says whether consumers can have a plan.
type PlanStatus string

// The statuses of plans.
const (
	PlanDraft    PlanStatus = "draft"    // it may be changed
	PlanActive   PlanStatus = "active"   // consumers may subscribe to it
	PlanArchived PlanStatus = "archived" // consumers that have it keep it
)

// PlanStatuses returns all statuses.
func PlanStatuses() []PlanStatus { return []PlanStatus{PlanDraft, PlanActive, PlanArchived} }

// Plan is one version of a plan.
type Plan struct {
	ID             string // a ULID
	Key            string
	Version        int
	Name           string
	Description    string
	Metadata       map[string]string
	Currency       string
	BillingCadence Cadence
	Status         PlanStatus
	EffectiveFrom  time.Time // when it was published; zero: never
	EffectiveTo    time.Time // when it was archived; zero: it is not
	Alignment      json.RawMessage
	ProRating      json.RawMessage
	Phases         []Phase
	CreatedOn      time.Time
	UpdatedOn      time.Time
}

// Phase is a part of the duration of a subscription.
type Phase struct {
	Key         string            `json:"key"`
	Name        string            `json:"name"`
	Description string            `json:"description,omitzero"`
	Metadata    map[string]string `json:"metadata,omitzero"`
	Duration    Cadence           `json:"duration,omitzero"` // empty: it is the last phase
	RateCards   []RateCard        `json:"rateCards"`
}

// RateCard is a part of a phase: what it grants, and what that would cost. Nothing is charged.
type RateCard struct {
	Type           string            `json:"type"`
	Key            string            `json:"key"`
	Name           string            `json:"name"`
	Description    string            `json:"description,omitzero"`
	Metadata       map[string]string `json:"metadata,omitzero"`
	FeatureKey     string            `json:"featureKey,omitzero"`
	Entitlement    *Entitlement      `json:"entitlementTemplate,omitzero"`
	BillingCadence Cadence           `json:"billingCadence,omitzero"`
	Price          json.RawMessage   `json:"price,omitzero"`
	Discounts      json.RawMessage   `json:"discounts,omitzero"`
	TaxConfig      json.RawMessage   `json:"taxConfig,omitzero"`
}

// The types of entitlements.
const (
	EntitlementMetered = "metered"
	EntitlementBoolean = "boolean"
	EntitlementStatic  = "static"
)

// Entitlement is what a consumer may do with a feature.
type Entitlement struct {
	Type            string          `json:"type"`
	IssueAfterReset int64           `json:"issueAfterReset,omitzero"` // what a period allows
	IsSoftLimit     bool            `json:"isSoftLimit,omitzero"`     // using more is reported, and not refused
	UsagePeriod     Cadence         `json:"usagePeriod,omitzero"`     // empty: the plan's cadence
	Config          json.RawMessage `json:"config,omitzero"`          // of a static entitlement, a JSON object
	Metadata        json.RawMessage `json:"metadata,omitzero"`
}

// Hard reports whether an entitlement refuses use beyond what it allows.
func (e *Entitlement) Hard() bool { return e.Type == EntitlementMetered && !e.IsSoftLimit }

// Phase returns the phase, at the time at, of a subscription to the plan that began at since.
func (p *Plan) Phase(since, at time.Time) *Phase {
	for i := range p.Phases {
		phase := &p.Phases[i]
		if phase.Duration == "" || i == len(p.Phases)-1 {
			return phase
		}
		if since = phase.Duration.After(since.UTC().Truncate(time.Hour), 1); at.Before(since) {
			return phase
		}
	}
	return nil
}

// Subscription is the plan of a consumer.
type Subscription struct {
	ConsumerID string
	Consumer   string // the consumer's name
	Plan       Plan
	// Anchor is the hour with which the consumer's periods begin. It stays when the plan changes.
	Anchor time.Time
	// Since is when the consumer got the plan, and its first phase began.
	Since     time.Time
	CreatedOn time.Time
	UpdatedOn time.Time
}

// Grant is what a subscription grants of one feature.
type Grant struct {
	FeatureKey  string
	Entitlement Entitlement
	Period      Cadence
	Meter       *Meter            // nil: the feature is not metered
	Filters     map[string]string // by dims, such as $.method
}

// Usage is what a consumer has used of a feature in a period.
type Usage struct {
	Grant      Grant
	Start, End time.Time // of the period; zero: the feature is not metered
	Used       int64
}

var slugForm = regexp.MustCompile(`^[a-z0-9]+(?:_[a-z0-9]+)*$`)

// ValidSlug reports whether text can be the slug of a meter or the key of a feature, plan, phase or
// rate card.
func ValidSlug(text string) bool { return len(text) <= 64 && slugForm.MatchString(text) }
