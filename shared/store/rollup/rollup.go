// Package rollup has the counts behind statistics: how many events, deliveries and attempts there
// were in each minute, hour and day, by webhook, event type and class.
//
// A transaction that writes events or attempts also appends a delta, so each event and each attempt
// counts exactly once. A delta is one row for a whole transaction, and no row is changed, so
// writers never wait for each other. One process merges the deltas into the rows of minutes, hours
// and days every minute or so. Readers add the deltas that are not merged yet, so their numbers are
// exact at any time.
package rollup

import (
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// Rollups reads and merges the counts.
type Rollups struct{ db *store.Store }

// New returns a Rollups for the counts in db.
func New(db *store.Store) *Rollups { return &Rollups{db} }

// Key is what events and attempts are counted by.
type Key struct {
	Account string
	Webhook domain.WebhookID // empty: counts of the account
	Type    domain.EventType
	Class   domain.Class // empty: counts of accepted events
	Minute  int64        // of Unix time
}

// Counts is what was counted.
type Counts struct {
	Events     int64 // accepted
	Deliveries int64 // first attempts
	Attempts   int64
	Last       time.Time // when the last attempt ended; zero: there was none
	Latency    Histogram // of the attempts
}

// Add adds other.
func (c *Counts) Add(other *Counts) {
	c.Events += other.Events
	c.Deliveries += other.Deliveries
	c.Attempts += other.Attempts
	if other.Last.After(c.Last) {
		c.Last = other.Last
	}
	c.Latency = c.Latency.Merge(other.Latency)
}

// minuteOf returns the minute of t, in Unix time.
func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// Step is the length of time that the counts of a row cover, in minutes.
type Step int

// All steps.
const (
	Minute Step = 1
	Hour   Step = 60
	Day    Step = 24 * 60
)

func steps() [3]Step { return [3]Step{Minute, Hour, Day} }

// Duration returns how long the step is.
func (s Step) Duration() time.Duration { return time.Duration(s) * time.Minute }

// floor returns the first minute of the step that contains minute.
func (s Step) floor(minute int64) int64 { return minute - minute%int64(s) }

// rowKey names a row of rollups.
type rowKey struct {
	Key  // Minute is the row's first
	step Step
}

func timeOf(minute int64) time.Time { return time.Unix(minute*60, 0).UTC() }
