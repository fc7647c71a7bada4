package domain

import (
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// Secret is text that must never be shown: it prints, logs and marshals as
// [redacted]. Reveal is the only way to its content.
type Secret string

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

const redacted = "[redacted]"

// String hides the secret.
func (s Secret) String() string { return redacted }

// GoString hides the secret.
func (s Secret) GoString() string { return redacted }

// Format hides the secret under every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// LogValue hides the secret.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText hides the secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Bounds and defaults of a webhook's settings.
const (
	DefaultTimeout     = 15 * time.Second
	MaxTimeout         = 30 * time.Second // the longest timeout of an attempt
	DefaultMaxInFlight = 32
	MaxWebhooks        = 10_000 // for each account
	// MaxFilterBytes bounds the filters of all of an account's webhooks together, in bytes as
	// written. Compiled, they take up to 18 times as much in each dispatcher.
	MaxFilterBytes = 2 << 20
	MaxURLLength   = 2048
)

// DefaultRetrySchedule is Standard Webhooks' table: with the first attempt ten
// attempts in about 75 hours.
func DefaultRetrySchedule() []time.Duration {
	seconds := []int{5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400}
	waits := make([]time.Duration, len(seconds))
	for i, s := range seconds {
		waits[i] = time.Duration(s) * time.Second
	}
	return waits
}

// Header is one custom header of a webhook's callbacks.
type Header struct {
	Name  string
	Value Secret
}

// DisabledReason says why a webhook is inactive.
type DisabledReason string

// The reasons for which a webhook may be inactive.
const (
	DisabledManual  DisabledReason = "manual"  // its owner set active to false
	DisabledGone    DisabledReason = "gone"    // its receiver answered 410
	DisabledFailing DisabledReason = "failing" // all attempts failed for the set time, 5 days by default
	DisabledQuota   DisabledReason = "quota"   // its consumer's plan allows no more deliveries in this period
)

// Ordering says in which order deliveries go to a webhook.
type Ordering string

// The orders.
const (
	OrderingNone     Ordering = "none"     // each delivery as soon as possible
	OrderingShipment Ordering = "shipment" // the deliveries of one shipment one after the other
)

// DefaultOrderingMaxWait is how long a delivery waits for the one before it.
const DefaultOrderingMaxWait = time.Hour

// Orderings returns all orders.
func Orderings() []Ordering { return []Ordering{OrderingNone, OrderingShipment} }

// DeliveryMode says whether Waybill sends events or the receiver reads them.
type DeliveryMode string

// The ways of delivery.
const (
	DeliveryPush DeliveryMode = "push" // events are posted to the webhook's URL
	DeliveryPull DeliveryMode = "pull" // the receiver reads the webhook's feed; nothing is sent
)

// DeliveryModes returns both ways.
func DeliveryModes() []DeliveryMode { return []DeliveryMode{DeliveryPush, DeliveryPull} }

// Signing says how callbacks are signed.
type Signing string

// The ways of signing, by the names of Standard Webhooks.
const (
	SigningV1   Signing = "v1"   // HMAC-SHA256 with the webhook's secret
	SigningV1A  Signing = "v1a"  // Ed25519 with the account's key
	SigningBoth Signing = "both" // both signatures
)

// Signings returns all ways of signing.
func Signings() []Signing { return []Signing{SigningV1, SigningV1A, SigningBoth} }

// Webhook is a registration: a URL to which events of some types go, with settings.
type Webhook struct {
	ID          WebhookID
	Account     string
	URL         string
	Events      []EventType
	Active      bool // as its owner set it; see Inactive for the actual state
	Description string
	Headers     []Header
	// RetrySchedule has the wait after each failed attempt; nil: the installation's schedule.
	RetrySchedule []time.Duration
	Timeout       time.Duration
	MaxInFlight   int
	RatePerSecond *float64 // nil: no limit

	Ordering Ordering
	// OrderingMaxWait is how long a delivery waits for the one before it; 0: for ever.
	OrderingMaxWait time.Duration
	// Filter is the JSON that selects events, as it was given; empty: all of them.
	Filter   string
	Delivery DeliveryMode
	// PushedSince is when Delivery last went from pull to push; zero: never. Events that were
	// accepted before are in the feed, and are not sent.
	PushedSince time.Time
	// Auth is how requests are authenticated at the receiver, as JSON; empty: not at all.
	Auth    Secret
	Signing Signing

	Secret                  Secret
	PreviousSecret          Secret // also signs until PreviousSecretExpiresAt
	PreviousSecretExpiresAt time.Time
	// SigningKeys are the account's keys that sign by v1a, the newest first. Only webhooks that are
	// signed by v1a have them, added when they are read; they are not stored with the webhook.
	SigningKeys []SigningKey

	// ConsumerID is the consumer whose key registered the webhook: deliveries count for that
	// consumer. Empty: they count for none.
	ConsumerID string

	CreatedAt time.Time
	UpdatedAt time.Time
	// Version is the configuration version of the webhook's last change; ActivatedVersion is that
	// of the last change that made it active. A disablement counts while its version is not below
	// ActivatedVersion, so that api and dispatcher need no common clock.
	Version          int64
	ActivatedVersion int64
	// URLVersion is the configuration version of the last change of the URL.
	URLVersion  int64
	ActivatedAt time.Time
	// DeactivatedAt is when its owner last set active to false; zero: never.
	DeactivatedAt time.Time
	Deleted       bool

	// Fault says, in words for the webhook's owner, why a part of the webhook can't be read: for
	// instance, its secret was encrypted with a missing key. That part is missing then, and nothing
	// is sent: deliveries are held until it can be read. Empty: nothing is missing.
	Fault string
}

// Health is what the dispatchers know about a webhook's receiver.
type Health struct {
	Webhook         WebhookID
	FailingSince    time.Time // zero: the last attempt succeeded
	DisabledVersion int64     // the Version that was disabled; 0: never
	DisabledReason  DisabledReason
	DisabledAt      time.Time
	// DisabledUntil is the end of the period whose quota is used up; zero: there is another reason.
	DisabledUntil time.Time
	// CertificateExpiresAt is the end of the receiver's certificate, as last reported by a
	// connection; zero: it did not end within ExpirySoon. CertificateVersion is the webhook's
	// Version at that time. A value from before URLVersion is that of another receiver.
	CertificateExpiresAt time.Time
	CertificateVersion   int64
	UpdatedAt            time.Time
}

// FailingFrom is the number of failures in a row from which a webhook is failing.
const FailingFrom = 5

// Circuit is the state of a webhook's circuit, as recorded by the dispatcher that owns the webhook.
type Circuit struct {
	OpenSince    time.Time // zero: it is closed
	Failures     int       // in a row
	FailingSince time.Time // the first of these failures; zero: the last attempt succeeded
	NextProbeAt  time.Time // zero: it is closed
	SaidAt       time.Time
	Last         *Answer // of a failed attempt; nil: none is known
	// Alarming: at least FailingFrom of the failures were not of alerts, so there may be an alert
	// about them. It is sent to the database but not stored.
	Alarming bool
}

// Acknowledgement notes that a person knows of a webhook's problem.
type Acknowledgement struct {
	Cause      string
	By         string // the person's sub
	At         time.Time
	MutedUntil time.Time // zero: until the cause changes, or the webhook fails again
}

// MaxAnswerBody is how many bytes of an answer's body an Answer keeps.
const MaxAnswerBody = 1024

// Answer is how an attempt ended.
type Answer struct {
	At     time.Time
	Status int // HTTP status; 0: no answer
	Class  Class
	Body   string // the beginning of the body
}

// AnswerOf returns how an attempt ended.
func AnswerOf(a *Attempt) Answer {
	body := a.ResponseBody
	if len(body) > MaxAnswerBody {
		body = strings.ToValidUTF8(body[:MaxAnswerBody], "") // the cut may be inside a character
	}
	class := a.Class
	if class == "" {
		class = ClassOf(a.Status) // it was recorded before there were classes
	}
	return Answer{At: a.StartedAt.Add(a.Duration), Status: a.Status, Class: class, Body: body}
}

// Inactive reports whether nothing is sent to w, and why.
func (w *Webhook) Inactive(h Health) (DisabledReason, bool) {
	if !w.Active {
		return DisabledManual, true
	}
	if h.DisabledVersion > 0 && h.DisabledVersion >= w.ActivatedVersion {
		return h.DisabledReason, true
	}
	return "", false
}

// Ends reports whether a delivery to w of an event that was accepted at that time ends without an
// attempt, and why. asked: a retry or a replay asked for the delivery.
func (w *Webhook) Ends(accepted time.Time, asked bool) (Change, bool) {
	switch {
	case w.Deleted:
		return ChangeDeleted, true
	case w.Delivery == DeliveryPull, !asked && !w.PushedSince.IsZero() && accepted.Before(w.PushedSince):
		return ChangePull, true
	}
	return 0, false
}

// InactiveSince returns when w last became inactive; zero: never.
func (w *Webhook) InactiveSince(h Health) time.Time {
	if h.DisabledAt.After(w.DeactivatedAt) {
		return h.DisabledAt
	}
	return w.DeactivatedAt
}

// Secrets returns the secrets that sign at now, the newest first: two during the
// overlap of a rotation, otherwise one.
func (w *Webhook) Secrets(now time.Time) []Secret {
	if w.PreviousSecret != "" && now.Before(w.PreviousSecretExpiresAt) {
		return []Secret{w.Secret, w.PreviousSecret}
	}
	return []Secret{w.Secret}
}

// Schedule returns the waits after failed attempts: the webhook's own or, if it has none, fallback.
func (w *Webhook) Schedule(fallback []time.Duration) []time.Duration {
	if w.RetrySchedule == nil {
		return fallback
	}
	return w.RetrySchedule
}
