package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
)

// Plan is what a job would do.
type Plan struct {
	Matched   int
	More      bool      // the filter may select more: only the oldest mostPlanned were checked
	Delivered int       // matched deliveries that were delivered already: their events arrive twice
	Oldest    time.Time // when the oldest matched event was accepted; zero: nothing matched
	// Takes is about how long the attempts take, see takes.
	Takes time.Duration
	None  *NoMatches
}

// NoMatches describes the deliveries in the time range of a replay that matches none.
type NoMatches struct {
	// ByStatus counts the deliveries of the time range by the status that they show; a delivery that was asked for already is pending.
	ByStatus      map[domain.Status]int
	FilterRejects int  // how many deliveries of the time range the webhook's filter rejects
	Truncated     bool // only the oldest mostPlanned were counted
}

// NewJob describes a job to make.
type NewJob struct {
	Kind   domain.JobKind
	By     string // the caller's sub
	Filter JobFilter
}

// matchedRow sums up the deliveries of one webhook that a job selects.
type matchedRow struct {
	WebhookID string
	Number    int64
	Delivered int64
	First     string
	Last      string
	Changed   store.Instant
}

// match counts the deliveries that a job selects in a scope, by webhook. kept is how many the filter of
// the replayed webhook rejects.
func (job NewJob) match(tx *gorm.DB, scope deliveryScope) (rows []matchedRow, kept int, err error) {
	if scope.empty {
		return nil, 0, nil
	}
	err = job.Filter.matching(tx, scope).
		Select(`d.webhook_id, count(*) AS number, sum(CASE WHEN d.status = 'delivered' THEN 1 ELSE 0 END) AS delivered,
			min(d.id) AS first, max(d.id) AS last, max(d.updated_at) AS changed`).
		Group("d.webhook_id").Scan(&rows).Error
	if err != nil {
		return nil, 0, fmt.Errorf("count deliveries: %w", err)
	}
	chosen, err := replayFilter(tx, job.Kind, job.Filter.Webhook)
	if err != nil || chosen == nil {
		return rows, 0, err
	}
	return job.Filter.filteredMatch(tx, scope, chosen, rows)
}

// PlanJob returns what a job would do if it was made now. It checks at most mostPlanned deliveries. ErrNotFound: the webhook of a replay
// does not exist; ErrConflict: it is read by pull.
func (p *Pipeline) PlanJob(ctx context.Context, job NewJob) (Plan, error) {
	var plan Plan
	err := p.db.Snapshot(ctx, func(tx *gorm.DB) error {
		if err := job.check(tx); err != nil {
			return err
		}
		scope, err := job.Filter.scope(tx)
		if err != nil {
			return err
		}
		if plan.More, err = job.Filter.cutShort(tx, &scope); err != nil {
			return err
		}
		rows, kept, err := job.match(tx, scope)
		if err != nil {
			return err
		}
		for _, row := range rows {
			plan.Matched += int(row.Number)
			plan.Delivered += int(row.Delivered)
			if at, _ := domain.DeliveryID(row.First).ReceivedAt(); plan.Oldest.IsZero() || at.Before(plan.Oldest) {
				plan.Oldest = at
			}
		}
		if plan.Takes, err = p.estimate(tx, job.Filter, rows); err != nil || plan.Matched > 0 || plan.More {
			return err
		}
		plan.None, err = job.describeNone(tx, kept)
		return err
	})
	return plan, store.Wrap("plan job", err)
}

// check returns an error if the webhook of a replay does not exist.
func (job NewJob) check(tx *gorm.DB) error {
	if job.Kind != domain.JobReplay {
		return nil
	}
	if err := liveWebhook(tx, job.Filter.Account, job.Filter.Webhook); err != nil {
		return err
	}
	return refusePull(tx, job.Filter.Webhook)
}

// assumedAttempt is how long an attempt is assumed to take at a webhook without recent answers.
const assumedAttempt = 100 * time.Millisecond

// pacesRead bounds the webhooks whose pace is read: those with the most deliveries to send.
const pacesRead = 100

// pace is how fast attempts at a webhook are.
type pace struct {
	ID            string
	RatePerSecond *float64
	MaxInFlight   int
	Microseconds  *float64
	OpenSince     *store.Instant // when its circuit opened
	NextProbeAt   *store.Instant
}

// estimate returns how long the attempts take at the slowest webhook: at its rate, with as many in
// flight as it allows, and each as long as its newest attempts with an answer of 2xx took on
// average. Deliveries that other jobs have asked for go first. While the circuit is open, the next
// probe is awaited.
func (p *Pipeline) estimate(tx *gorm.DB, f JobFilter, matched []matchedRow) (time.Duration, error) {
	if len(matched) == 0 && f.Webhook != "" {
		matched = []matchedRow{{WebhookID: string(f.Webhook)}}
	}
	if len(matched) == 0 {
		return 0, nil
	}
	slices.SortFunc(matched, func(a, b matchedRow) int { return cmp.Compare(b.Number, a.Number) })
	matched = matched[:min(len(matched), pacesRead)]
	numbers, ids := make(map[string]int64, len(matched)), make([]string, len(matched))
	for i, row := range matched {
		numbers[row.WebhookID], ids[i] = row.Number, row.WebhookID
	}
	if err := addAsked(tx, f.Account, numbers); err != nil {
		return 0, err
	}
	var paces []pace
	err := tx.Raw(`SELECT w.id, w.rate_per_second, w.max_in_flight, c.open_since, c.next_probe_at,
			(SELECT avg(s.attempt_us) FROM (
				SELECT d.attempt_us, d.attempt_status FROM deliveries d WHERE d.webhook_id = w.id ORDER BY d.id DESC LIMIT 20
			) s WHERE s.attempt_status BETWEEN 200 AND 299) AS microseconds
		FROM webhooks w LEFT JOIN webhook_circuits c ON c.webhook_id = w.id WHERE w.id IN ? AND w.account = ?`, ids, f.Account).Scan(&paces).Error
	if err != nil {
		return 0, fmt.Errorf("read paces of webhooks: %w", err)
	}
	longest := time.Duration(0)
	for _, at := range paces {
		longest = max(longest, at.duration(numbers[at.ID], p.db.Now()))
	}
	return longest, nil
}

// addAsked adds to the numbers of deliveries by webhook those that running jobs have asked for and no attempt has answered.
// If the new job matches deliveries of a webhook, addAsked adds the webhook's deliveries with an open request; if it
// matches none, it counts all deliveries of the webhook in these jobs. It checks at most mostPlanned deliveries.
func addAsked(tx *gorm.DB, account string, numbers map[string]int64) error {
	const mostJobs = 100 // the newest
	var jobs []string
	err := tx.Raw(`SELECT id FROM (SELECT id, cancelled, all_sent, delivered, failed, sent FROM jobs WHERE account = ? ORDER BY id DESC LIMIT ?) j
		WHERE NOT cancelled AND (NOT all_sent OR delivered + failed < sent)`, account, mostJobs).Scan(&jobs).Error
	if err != nil {
		return fmt.Errorf("read an account's jobs: %w", err)
	}
	type asked struct {
		WebhookID    string
		Number, Open int64
	}
	sums := make(map[string]asked)
	left := int64(mostPlanned)
	for _, job := range jobs {
		if left <= 0 {
			break
		}
		var rows []asked
		// One job at a time, and its deliveries first: otherwise Postgres may read the jobs of all accounts, and SQLite
		// all deliveries of the account.
		err := tx.Raw(`SELECT s.webhook_id, count(*) AS number, sum(s.open) AS open FROM (
			SELECT d.webhook_id, CASE WHEN `+sqlOpen+` THEN 1 ELSE 0 END AS open
			FROM (SELECT delivery_id, day FROM job_deliveries WHERE job_id = ? ORDER BY delivery_id LIMIT ?) jd CROSS JOIN deliveries d
			WHERE d.account = ? AND d.id = jd.delivery_id AND d.day = jd.day) s
		GROUP BY s.webhook_id`, job, left, account).Scan(&rows).Error
		if err != nil {
			return fmt.Errorf("count what jobs have asked for: %w", err)
		}
		for _, row := range rows {
			sum := sums[row.WebhookID]
			sums[row.WebhookID] = asked{Number: sum.Number + row.Number, Open: sum.Open + row.Open}
			left -= row.Number
		}
	}
	for webhook, sum := range sums {
		if matched, ok := numbers[webhook]; ok && matched == 0 {
			numbers[webhook] = sum.Number
		} else if ok {
			numbers[webhook] += sum.Open
		}
	}
	return nil
}

// duration returns how long this number of attempts takes.
func (p pace) duration(number int64, now time.Time) time.Duration {
	if number == 0 {
		return 0
	}
	each := assumedAttempt.Seconds()
	if p.Microseconds != nil {
		each = *p.Microseconds / 1e6
	}
	each /= float64(max(1, p.MaxInFlight))
	if p.RatePerSecond != nil && *p.RatePerSecond > 0 {
		each = max(each, 1 / *p.RatePerSecond)
	}
	wait := time.Duration(0)
	if p.OpenSince != nil && *p.OpenSince != 0 && p.NextProbeAt != nil {
		wait = max(0, p.NextProbeAt.Time().Sub(now))
	}
	return wait + time.Duration(min(float64(number)*each*float64(time.Second), math.MaxInt64/4))
}

// CreatedJob is a job that was made.
type CreatedJob struct {
	domain.Job

	None *NoMatches
}

// CreateJob makes a job that asks for another run of the deliveries that its filter selects now.
// Deliveries with an open request are left alone. About the first page is sent at once; AdvanceJob sends
// the others. ErrNotFound: the webhook of a replay does not exist; ErrConflict: it is read by pull.
func (p *Pipeline) CreateJob(ctx context.Context, job NewJob) (CreatedJob, error) {
	row, none, err := p.matchJob(ctx, job)
	if err == nil {
		err = p.db.Tx(ctx, func(tx *gorm.DB) error {
			if err := job.check(tx); err != nil {
				return err
			}
			if err := tx.Create(&row).Error; err != nil {
				return fmt.Errorf("insert job: %w", err)
			}
			if job.Kind == domain.JobReplay {
				return p.audit.Note(ctx, tx, auditlog.ActionReplayWebhook, row.Account, webhookResource(job.Filter.Webhook),
					domain.Resource{Type: auditlog.ResourceReplay, ID: row.ID})
			}
			return p.audit.Note(ctx, tx, auditlog.ActionRetryDeliveries, row.Account, jobResource(row.ID))
		})
	}
	if err != nil {
		return CreatedJob{}, store.Wrap("create job", err)
	}
	// The job is made. The relay sends the deliveries that can't be sent now.
	for sent, pages, more := 0, 0, true; more && sent < jobPage && pages < firstPages && err == nil; pages++ {
		var n int
		n, more, err = p.AdvanceJob(ctx, row.ID)
		sent += n
	}
	return CreatedJob{row.domain(), none}, nil
}

// firstPages bounds the pages that are sent at once, because a filter may reject nearly all of their deliveries.
const firstPages = 32

func jobResource(id string) domain.Resource {
	return domain.Resource{Type: auditlog.ResourceJob, ID: id}
}

// matchJob returns a new job with the deliveries that match now.
func (p *Pipeline) matchJob(ctx context.Context, job NewJob) (row jobRow, none *NoMatches, err error) {
	now := p.db.Now()
	row = jobRow{
		Account: job.Filter.Account, Kind: string(job.Kind), CreatedBy: job.By,
		CreatedAt: store.InstantOf(now), AsOf: store.InstantOf(now), AdvancedAt: store.InstantOf(now),
	}
	if row.Filter, err = job.Filter.encode(); err != nil {
		return row, nil, err
	}
	if row.ID, err = store.NewUUID(); err != nil {
		return row, nil, err
	}
	err = p.db.Snapshot(ctx, func(tx *gorm.DB) error {
		if err := job.check(tx); err != nil {
			return err
		}
		scope, err := job.Filter.scope(tx)
		if err != nil {
			return err
		}
		rows, kept, err := job.match(tx, scope)
		if err != nil {
			return err
		}
		if row = row.withMatches(rows); row.AllSent {
			none, err = job.describeNone(tx, kept)
		}
		return err
	})
	return row, none, err
}

// withMatches returns the job with what it will send. AsOf comes from the deliveries that were seen,
// because a dispatcher's clock may be ahead.
func (r jobRow) withMatches(rows []matchedRow) jobRow {
	first := ""
	for _, m := range rows {
		r.Matched += m.Number
		r.AsOf = max(r.AsOf, m.Changed)
		r.LastID = max(r.LastID, m.Last)
		if first == "" || m.First < first {
			first = m.First
		}
	}
	r.AllSent = r.Matched == 0
	if at, ok := domain.DeliveryID(first).ReceivedAt(); ok {
		r.Cursor = string(domain.DeliveryIDFloor(at))
	}
	return r
}

// describeNone describes what a replay's time range has if it matches nothing. It counts at most mostPlanned deliveries.
func (job NewJob) describeNone(tx *gorm.DB, kept int) (*NoMatches, error) {
	if job.Kind != domain.JobReplay {
		return nil, nil
	}
	none := &NoMatches{ByStatus: map[domain.Status]int{}, FilterRejects: kept}
	scope, err := newDeliveryScope(tx, job.Filter.DeliveryFilter, nil)
	if err != nil || scope.empty {
		return none, err
	}
	first := scope.bound(tx.Table("deliveries AS d"), "d", "d.id").
		Select("CASE WHEN " + sqlOpen + " THEN 'pending' ELSE d.status END AS status").Order("d.id").Limit(mostPlanned + 1)
	var rows []struct {
		Status domain.Status
		Number int
	}
	if err := tx.Table("(?) AS d", first).Select("status, count(*) AS number").Group("status").Scan(&rows).Error; err != nil {
		return nil, fmt.Errorf("count deliveries: %w", err)
	}
	all := 0
	for _, row := range rows {
		none.ByStatus[row.Status] = row.Number
		all += row.Number
	}
	none.Truncated = all > mostPlanned
	return none, nil
}

// GetJob returns a job of the account.
func (p *Pipeline) GetJob(ctx context.Context, account, id string) (domain.Job, error) {
	var row jobRow
	err := p.db.Reading(ctx).Where("id = ? AND account = ?", id, account).Take(&row).Error
	return row.domain(), store.Wrap("get job", err)
}

// ListJobs returns a page of an account's jobs, newest first, and the cursor of the next page. As
// an argument, an empty cursor asks for the first page; as a result, it means that there is no next
// one. ErrCursor: the cursor is not one of this list.
func (p *Pipeline) ListJobs(ctx context.Context, account string, limit int, cursor string) ([]domain.Job, string, error) {
	after, err := store.DecodeCursor(cursor, listJobs, account, isUsable)
	if err != nil {
		return nil, "", err
	}
	limit = pageSize(limit)
	query := p.db.Reading(ctx).Where("account = ?", account)
	if after != nil {
		query = query.Where("id < ?", after.ID)
	}
	var rows []jobRow
	if err := query.Order("id DESC").Limit(limit + 1).Find(&rows).Error; err != nil {
		return nil, "", store.Wrap("list jobs", err)
	}
	next := ""
	if len(rows) > limit {
		rows = rows[:limit]
		next = store.Cursor{List: listJobs, Account: account, ID: rows[limit-1].ID}.Encode()
	}
	jobs := store.All(rows, jobRow.domain)
	return jobs, next, nil
}

// CancelJob makes a running job send nothing more, and returns the job. A job that is over stays as it is.
// Dispatchers end the deliveries that were handed over and have had no attempt yet; see CancelledJobs.
func (p *Pipeline) CancelJob(ctx context.Context, account, id string) (domain.Job, error) {
	var row jobRow
	err := p.db.Tx(ctx, func(tx *gorm.DB) error {
		row = jobRow{}
		query := p.db.Lock(tx.Where("id = ? AND account = ?", id, account), store.LockChange)
		if err := query.Take(&row).Error; err != nil || row.domain().Status != domain.JobRunning {
			return err
		}
		row.Cancelled = true
		if err := tx.Model(&jobRow{}).Where("id = ?", id).UpdateColumn("cancelled", true).Error; err != nil {
			return err
		}
		return p.audit.Note(ctx, tx, auditlog.ActionCancelJob, account, jobResource(id))
	})
	return row.domain(), store.Wrap("cancel job", err)
}

// CancelledRun is the run of a delivery that a cancelled job has asked for and
// that no attempt has answered yet.
type CancelledRun struct {
	Delivery domain.DeliveryID
	Rev      domain.Revision // the first revision of the run
}

// CancelledJob is a cancelled job that waits for the first attempt of a delivery.
type CancelledJob struct {
	ID      string
	Account string
}

// CancelledJobs returns the cancelled jobs that wait for the first attempt of a delivery: the newest ones before an id, or of all
// for "". The index jobs_cancelled has only these jobs: SQLite uses it for a condition that is written like the index's own.
func (p *Pipeline) CancelledJobs(ctx context.Context, before string, limit int) ([]CancelledJob, error) {
	query := p.db.Reading(ctx).Model(&jobRow{}).Where("cancelled AND sent > delivered + failed")
	if before != "" {
		query = query.Where("id < ?", before)
	}
	var jobs []CancelledJob
	err := query.Select("id", "account").Order("id DESC").Limit(limit).Scan(&jobs).Error
	return jobs, store.Wrap("read cancelled jobs", err)
}

// CancelledRuns returns the deliveries of a cancelled job that had no attempt yet and have an id after the given one, in the
// order of ids.
func (p *Pipeline) CancelledRuns(ctx context.Context, job string, after domain.DeliveryID, limit int) ([]CancelledRun, error) {
	var runs []CancelledRun
	err := p.db.Reading(ctx).Table("job_deliveries").Select("delivery_id AS delivery, rev").
		Where("job_id = ? AND delivery_id > ?", job, string(after)).Order("delivery_id").Limit(limit).Scan(&runs).Error
	return runs, store.Wrap("read runs of cancelled jobs", err)
}

// RunCancelled reports whether a cancelled job has asked for the run of a delivery, and no attempt has answered it yet.
func (p *Pipeline) RunCancelled(ctx context.Context, run CancelledRun) (bool, error) {
	var found int64
	err := p.db.Reading(ctx).Raw(`SELECT count(*) FROM job_deliveries d JOIN jobs j ON j.id = d.job_id
		WHERE d.delivery_id = ? AND d.rev = ? AND j.cancelled`, string(run.Delivery), int64(run.Rev)).Scan(&found).Error
	return found > 0, store.Wrap("look for a run among those of cancelled jobs", err)
}
