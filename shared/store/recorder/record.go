package recorder

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// RecordResult is what Record did.
type RecordResult struct {
	// Attempts is how many attempts were written that were not in the log before.
	Attempts int
	// Outdated is how many outcomes and events were left out, because the log does not have their
	// day any more, or not yet, or because their account is not valid.
	Outdated int
	// Jobs are the jobs with changed counts.
	Jobs []JobKey
	// Alerts are the alerts that were added. They wait for the relay to publish them.
	Alerts []domain.EventKey
	// Disabled are the webhooks that are inactive now because a quota is used up.
	Disabled []domain.HealthChange
}

// JobKey names a job.
type JobKey struct{ Account, ID string }

// Record writes what dispatchers report, in one transaction. The same batches may come again: an
// attempt counts once by its id, and a delivery changes only to a state that is greater by (Rev,
// UpdatedAt) than the stored one. Events are added unless their id is in the log for that day;
// settled events leave the outbox; a request is answered by an outcome that names it. Each
// transition gets one alert.
func (r *Recorder) Record(ctx context.Context, batches []domain.RecordBatch) (RecordResult, error) {
	work := newRecordWork(batches)
	work.now, work.publicURL = r.db.Now(), r.publicURL
	if work.empty() {
		return RecordResult{}, nil
	}
	var result RecordResult
	var unknown []time.Time // days without a partition, found by the last try
	err := r.db.Again(ctx, func() (err error) {
		result, unknown, err = r.recordOnce(ctx, work, unknown)
		return err
	})
	if err != nil {
		return RecordResult{}, store.Wrap("record outcomes", err)
	}
	return result, nil
}

// recordOnce makes one try. If a partition was missing, the next try begins by making it, or by
// leaving out what belongs to a closed day.
func (r *Recorder) recordOnce(ctx context.Context, work *recordWork, missing []time.Time) (RecordResult, []time.Time, error) {
	if r.db.SQLite() || len(missing) > 0 {
		floor, err := r.db.Floor(ctx)
		if err != nil {
			return RecordResult{}, missing, err
		}
		work.leaveOut(floor, store.DateOf(r.db.Now())+store.DaysAhead)
		if err := r.db.PrepareDays(ctx, work.dayList()...); err != nil {
			return RecordResult{}, missing, err
		}
	}
	result, err := r.write(ctx, work)
	result.Outdated = work.outdated
	if store.MissingPartition(err) {
		missing = work.dayList()
	}
	return result, missing, err
}

// compareState orders the states of a delivery.
func compareState(a, b *domain.Outcome) int {
	return cmp.Or(cmp.Compare(a.Rev, b.Rev), cmp.Compare(a.UpdatedAt.UnixMicro(), b.UpdatedAt.UnixMicro()))
}

func cleanAttempt(a domain.Attempt) domain.Attempt {
	a.Error, a.ResponseBody = plainText(a.Error), plainText(a.ResponseBody)
	a.Class = domain.Class(plainText(string(a.Class)))
	return a
}

// storedClass returns the class of an attempt as its row has it: nothing when it follows from the status.
func storedClass(a *domain.Attempt) *string {
	if a.Status > 0 && a.Class == domain.ClassOf(a.Status) {
		return nil
	}
	return (*string)(&a.Class)
}

// lastAttempt returns the class and status of the last attempt as a delivery's row has them.
func lastAttempt(a *domain.Attempt) (class *string, status *int) {
	if a == nil {
		return nil, nil
	}
	return (*string)(&a.Class), &a.Status
}

// bornLast is last for a new row, which has the attempt: nothing when it was answered with 2xx.
func bornLast(a *domain.Attempt) (class *string, status *int) {
	if a != nil && a.Class == domain.ClassOK {
		return nil, nil
	}
	return lastAttempt(a)
}

// plainText makes text fit for a text column. One row that the database refuses would hold up every
// batch that it is in.
func plainText(text string) string {
	if utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// maxRepeats bounds the text of an event's repeats: about a hundred of them.
const maxRepeats = 1400

// repeatText returns what an event's row has for another acceptance of its id.
func repeatText(at time.Time) string { return strconv.FormatInt(at.UnixMilli(), 10) + " " }

// healthFailing stores that a webhook began to fail (failing_since) or recovered (NULL), unless a
// newer change is stored. Of two beginnings the earlier one counts, unless the webhook was
// activated after it: then a dispatcher starts again, and takes over what is stored.
const healthFailing = `
	INSERT INTO webhook_health (webhook_id, failing_since, changed_at, disabled_version, disabled_reason, updated_at)
	VALUES ($1, $2, $3, 0, '', $4)
	ON CONFLICT (webhook_id) DO UPDATE SET
		failing_since = CASE
			WHEN excluded.failing_since IS NOT NULL AND webhook_health.failing_since < excluded.failing_since
				AND NOT EXISTS (SELECT 1 FROM webhooks w WHERE w.id = webhook_health.webhook_id AND w.activated_at > webhook_health.failing_since)
			THEN webhook_health.failing_since ELSE excluded.failing_since END,
		changed_at = excluded.changed_at, updated_at = excluded.updated_at
	WHERE webhook_health.changed_at IS NULL OR webhook_health.changed_at <= excluded.changed_at`

// circuitSaid stores a record of a circuit, unless a newer one is stored. A record without an
// answer keeps the last answer.
const circuitSaid = `
	INSERT INTO webhook_circuits AS c (webhook_id, open_since, failures, failing_since, next_probe_at, said_at,
		answer_at, answer_class, answer_status, answer_body)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
	ON CONFLICT (webhook_id) DO UPDATE SET open_since = excluded.open_since, failures = excluded.failures,
		failing_since = excluded.failing_since, next_probe_at = excluded.next_probe_at, said_at = excluded.said_at,
		answer_class = CASE WHEN excluded.answer_at IS NULL THEN c.answer_class ELSE excluded.answer_class END,
		answer_status = CASE WHEN excluded.answer_at IS NULL THEN c.answer_status ELSE excluded.answer_status END,
		answer_body = CASE WHEN excluded.answer_at IS NULL THEN c.answer_body ELSE excluded.answer_body END,
		answer_at = coalesce(excluded.answer_at, c.answer_at)
	WHERE c.said_at <= excluded.said_at`

// healthCertificate stores what a connection saw of a receiver's certificate, unless that is from
// an earlier state of the webhook than what is stored.
const healthCertificate = `
	INSERT INTO webhook_health (webhook_id, certificate_expires_at, certificate_version, disabled_version, disabled_reason, updated_at)
	VALUES ($1, $2, $3, 0, '', $4)
	ON CONFLICT (webhook_id) DO UPDATE SET certificate_expires_at = excluded.certificate_expires_at,
		certificate_version = excluded.certificate_version, updated_at = excluded.updated_at
	WHERE webhook_health.certificate_version <= excluded.certificate_version`

// healthDisabled stores that a webhook was disabled at a version. The first reason for a version stays.
const healthDisabled = `
	INSERT INTO webhook_health (webhook_id, disabled_version, disabled_reason, disabled_at, updated_at)
	VALUES ($1, $2, $3, $4, $5)
	ON CONFLICT (webhook_id) DO UPDATE SET disabled_version = excluded.disabled_version,
		disabled_reason = excluded.disabled_reason, disabled_at = excluded.disabled_at, disabled_until = NULL, updated_at = excluded.updated_at
	WHERE webhook_health.disabled_version < excluded.disabled_version`
