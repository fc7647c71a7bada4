package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// Bounds of what a job does at a time.
const (
	// jobPage is how many deliveries a page asks for. One page keeps SQLite's one writer for a few ms.
	jobPage = 500
	// jobWindow is how many requests of a job may be open. Single retries, and other jobs, wait
	// behind no more than that.
	jobWindow = 8 * jobPage
	// maxSending bounds the jobs of a turn.
	maxSending = 1000
)

// SendingJobs returns the jobs that have deliveries left to send and are next: for each account,
// the job whose last page is the longest ago.
func (p *Pipeline) SendingJobs(ctx context.Context) ([]string, error) {
	var ids []string
	err := p.db.Reading(ctx).Raw(`
		SELECT id FROM (
			SELECT id, advanced_at, row_number() OVER (PARTITION BY account ORDER BY advanced_at, id) AS place
			FROM jobs WHERE NOT all_sent AND NOT cancelled) s
		WHERE place = 1 ORDER BY advanced_at LIMIT ?`, maxSending).Scan(&ids).Error
	return ids, store.Wrap("read sending jobs", err)
}

// errAdvanced is returned inside the transaction when another process has advanced or ended the job.
var errAdvanced = errors.New("the job was advanced by another")

// jobStep is a page of a job: the deliveries to ask for, and where the job is after that.
type jobStep struct {
	job     jobRow
	day     store.Date
	lastID  string // the last id of the day, or of the job
	ids     []string
	cursor  string
	allSent bool
}

// AdvanceJob asks for the next page of a job's deliveries in one transaction, and returns how many it has asked for. A page
// checks at most maxLooked deliveries of one day, in the order of their ids. more says whether another page can follow now: it
// can't when the job has sent everything, or has so many open requests that it must wait. If several processes advance a job
// at the same time, one of them does it. Deliveries that have changed since the job was made are skipped, so that the job
// sends each delivery once, and none that fails later.
func (p *Pipeline) AdvanceJob(ctx context.Context, id string) (sent int, more bool, err error) {
	step, err := p.nextStep(ctx, id)
	if err != nil || step == nil {
		return 0, false, store.Wrap("read page of job", err)
	}
	err = p.db.Tx(ctx, func(tx *gorm.DB) (err error) {
		sent, err = p.takePage(tx, step)
		return err
	})
	if errors.Is(err, errAdvanced) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, store.Wrap("advance job", err)
	}
	return sent, !step.allSent && step.cursor != step.job.Cursor, nil
}

// nextStep reads the next page; nil: there is none.
func (p *Pipeline) nextStep(ctx context.Context, id string) (*jobStep, error) {
	var step *jobStep
	err := p.db.Snapshot(ctx, func(tx *gorm.DB) error {
		var job jobRow
		err := tx.Where("id = ? AND NOT all_sent AND NOT cancelled", id).Take(&job).Error
		if errors.Is(err, gorm.ErrRecordNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		var open int64
		err = tx.Raw("SELECT count(*) FROM (SELECT 1 FROM requests WHERE id > ? AND id < ? LIMIT ?) s", id+"-", id+".", jobWindow).Scan(&open).Error
		if err != nil {
			return fmt.Errorf("count open requests: %w", err)
		}
		step = &jobStep{job: job, cursor: job.Cursor}
		if open+jobPage > jobWindow {
			return nil
		}
		return step.read(tx)
	})
	return step, err
}

func (step *jobStep) read(tx *gorm.DB) error {
	f, err := step.job.filter()
	if err != nil {
		return err
	}
	scope, err := f.scope(tx)
	if err != nil {
		return err
	}
	from, _ := domain.DeliveryID(step.job.Cursor).ReceivedAt()
	to, _ := domain.DeliveryID(step.job.LastID).ReceivedAt()
	step.day = store.DateOf(from)
	last := step.day >= store.DateOf(to)
	if step.lastID = step.job.LastID; !last {
		step.lastID = string(domain.DeliveryIDFloor((step.day + 1).Time()))
	}
	end := ""
	if !scope.empty {
		if end, err = step.pageEnd(tx, f, scope); err != nil {
			return err
		}
		page := step.unchecked(f.matching(tx, scope)).Where("d.updated_at <= ?", step.job.AsOf)
		if end != "" {
			page = page.Where("d.id <= ?", end)
		}
		if err := page.Limit(jobPage).Pluck("d.id", &step.ids).Error; err != nil {
			return err
		}
	}
	switch n := len(step.ids); {
	case n == jobPage:
		step.cursor = step.ids[n-1]
	case end != "":
		step.cursor = end
	default:
		step.cursor, step.allSent = step.lastID, last
	}
	return step.dropRejected(tx, f)
}

// unchecked narrows a query to the deliveries of the day that the job has not checked yet, in order. The id ends the walk
// through an index, and the day selects the partition on Postgres.
func (step *jobStep) unchecked(query *gorm.DB) *gorm.DB {
	return query.Where("d.day = ? AND d.id > ? AND d.id <= ?", step.day, step.job.Cursor, step.lastID).Order("d.id")
}

// pageEnd returns the last of the maxLooked deliveries that a page checks; empty: the day has fewer.
func (step *jobStep) pageEnd(tx *gorm.DB, f JobFilter, scope deliveryScope) (string, error) {
	if scope.byEvents() {
		return "", nil
	}
	var ids []string
	err := step.unchecked(f.walkQuery(tx, scope)).Offset(maxLooked-1).Limit(1).Pluck("d.id", &ids).Error
	if err != nil || len(ids) == 0 {
		return "", err
	}
	return ids[0], nil
}

// takePage asks for a page. It takes the lock on the job's row last, as the recorder does, so that
// neither waits for the other while it holds the row.
func (p *Pipeline) takePage(tx *gorm.DB, step *jobStep) (sent int, err error) {
	if len(step.ids) > 0 {
		if sent, err = p.insertRequests(tx, step); err != nil {
			return 0, err
		}
	}
	// Deliveries that dispatchers had not recorded when the job was made are sent, too.
	result := tx.Exec(`UPDATE jobs SET cursor = ?, all_sent = ?, sent = sent + ?, advanced_at = ?,
			matched = CASE WHEN matched < sent + ? THEN sent + ? ELSE matched END
		WHERE id = ? AND cursor = ? AND NOT all_sent AND NOT cancelled`,
		step.cursor, step.allSent, sent, store.InstantOf(p.db.Now()), sent, sent, step.job.ID, step.job.Cursor)
	if result.Error == nil && result.RowsAffected == 0 {
		return 0, errAdvanced
	}
	return sent, result.Error
}

// insertRequests inserts the requests of a page and notes which answers the job waits for. A request's id is that of the job, a
// dash and that of the delivery. So if two processes ask for a page at the same time, one of them meets the other's id,
// or its delivery.
func (p *Pipeline) insertRequests(tx *gorm.DB, step *jobStep) (int, error) {
	job := step.job
	result := tx.Exec(`
		INSERT INTO requests (id, kind, account, webhook_id, event_id, event_type, day, delivery_id, test, created_at)
		SELECT ? || '-' || d.id, ?, d.account, d.webhook_id, d.event_id, d.event_type, d.day, d.id, d.test, ?
		FROM deliveries d
		WHERE d.account = ? AND d.day = ? AND d.id IN ? AND d.updated_at <= ? AND d.status <> 'pending' AND NOT `+sqlUnsendable+` AND `+sqlKept+`
		ON CONFLICT DO NOTHING`,
		job.ID, job.Kind, store.InstantOf(p.db.Now()), job.Account, step.day, step.ids, job.AsOf)
	if result.Error != nil || result.RowsAffected == 0 {
		return 0, result.Error
	}
	err := tx.Exec(`
		INSERT INTO job_deliveries (delivery_id, job_id, day, rev)
		SELECT d.id, ?, d.day, (d.rev / ? + 1) * ?
		FROM deliveries d JOIN requests r ON r.id = ? || '-' || d.id
		WHERE d.account = ? AND d.day = ? AND d.id IN ?`,
		job.ID, domain.RunStep, domain.RunStep, job.ID, job.Account, step.day, step.ids).Error
	if err != nil {
		return 0, fmt.Errorf("note what is to be answered: %w", err)
	}
	return int(result.RowsAffected), nil
}

// endJobs counts deliveries as failed that no attempt can answer any more because the log has lost
// them. It removes the jobs that were made before floor.
func (p *Pipeline) endJobs(ctx context.Context, floor time.Time) error {
	for {
		var lost []string
		err := p.db.Tx(ctx, func(tx *gorm.DB) error {
			lost = nil
			err := tx.Raw(`DELETE FROM job_deliveries WHERE (delivery_id, job_id) IN (
					SELECT delivery_id, job_id FROM job_deliveries WHERE day < ? LIMIT ?) RETURNING job_id`,
				store.DateOf(floor), store.BatchRows).Scan(&lost).Error
			if err != nil {
				return err
			}
			failed := map[string]int{}
			for _, id := range lost {
				failed[id]++
			}
			for _, id := range slices.Sorted(maps.Keys(failed)) {
				if err := tx.Exec("UPDATE jobs SET failed = failed + ? WHERE id = ?", failed[id], id).Error; err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if len(lost) < store.BatchRows {
			break
		}
	}
	_, err := p.db.Purge(ctx, "jobs", "id", "created_at < ?", store.InstantOf(floor))
	return err
}
