package pipeline

import (
	"database/sql"
	"fmt"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/filter"
	"waybill.dev/shared/store"
)

// maxTried is the number of deliveries up to which a replay counts exactly how many pass the
// webhook's filter. If there are more, it reports how many there are before the filter. Each page
// is filtered in any case.
const maxTried = 100_000

// replayFilter returns the present filter of the webhook of a replay; nil: it has none, or the job
// is no replay.
func replayFilter(tx *gorm.DB, kind domain.JobKind, webhook domain.WebhookID) (*filter.Filter, error) {
	if kind != domain.JobReplay {
		return nil, nil
	}
	var texts []string
	if err := tx.Raw("SELECT filter FROM webhooks WHERE id = ? AND filter IS NOT NULL", string(webhook)).Scan(&texts).Error; err != nil {
		return nil, fmt.Errorf("read filter: %w", err)
	}
	if len(texts) == 0 {
		return nil, nil
	}
	chosen, faults := filter.Parse([]byte(texts[0]))
	if len(faults) > 0 {
		return nil, fmt.Errorf("parse filter of webhook %s: %s %s", webhook, faults[0].Pointer, faults[0].Detail)
	}
	return chosen, nil
}

// triedRow is a delivery with the payload of its event.
type triedRow struct {
	ID        string
	Status    string
	Test      bool
	UpdatedAt store.Instant
	Payload   []byte
}

// passes reports whether the delivery passes the filter. The filter does not apply to tests.
func (r *triedRow) passes(chosen *filter.Filter) bool {
	return r.Test || chosen.Matches(filter.Read(r.Payload))
}

// eachTried calls yield with each of the deliveries of a query, one at a time. A delivery whose event
// is lost is skipped, because it can't be sent.
func eachTried(tx, query *gorm.DB, yield func(*triedRow)) error {
	rows, err := query.Joins("JOIN events ev ON ev.account = d.account AND ev.id = d.event_id AND ev.day = d.day").
		Select("d.id, d.status, d.test, d.updated_at, ev.payload").Rows()
	if err != nil {
		return fmt.Errorf("read deliveries with events: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		row, err := scanTried(tx, rows)
		if err != nil {
			return err
		}
		yield(row)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read deliveries with events: %w", err)
	}
	return nil
}

func scanTried(tx *gorm.DB, rows *sql.Rows) (*triedRow, error) {
	row := &triedRow{}
	if err := tx.ScanRows(rows, row); err != nil {
		return nil, fmt.Errorf("read delivery with event: %w", err)
	}
	return row, nil
}

// filteredMatch is match for a replay of a webhook with a filter: it counts the deliveries that
// pass the filter, and returns how many are rejected.
func (f JobFilter) filteredMatch(tx *gorm.DB, scope deliveryScope, chosen *filter.Filter, all []matchedRow) (some []matchedRow, kept int, err error) {
	total := int64(0)
	for _, row := range all {
		total += row.Number
	}
	if total == 0 || total > maxTried {
		return all, 0, nil
	}
	m := matchedRow{WebhookID: string(f.Webhook)}
	err = eachTried(tx, f.matching(tx, scope), func(row *triedRow) {
		if !row.passes(chosen) {
			kept++
			return
		}
		m.add(row)
	})
	if err != nil || m.Number == 0 {
		return nil, kept, err
	}
	return []matchedRow{m}, kept, nil
}

// add counts a delivery.
func (m *matchedRow) add(row *triedRow) {
	m.Number++
	if row.Status == string(domain.StatusDelivered) {
		m.Delivered++
	}
	if m.First == "" || row.ID < m.First {
		m.First = row.ID
	}
	m.Last, m.Changed = max(m.Last, row.ID), max(m.Changed, row.UpdatedAt)
}

// dropRejected removes the deliveries that the webhook's filter rejects from a page. The page still ends at
// the same place.
func (step *jobStep) dropRejected(tx *gorm.DB, f JobFilter) error {
	chosen, err := replayFilter(tx, domain.JobKind(step.job.Kind), f.Webhook)
	if err != nil || chosen == nil || len(step.ids) == 0 {
		return err
	}
	query := tx.Table("deliveries AS d").Where("d.account = ? AND d.day = ? AND d.id IN ?", step.job.Account, step.day, step.ids).Order("d.id")
	step.ids = nil
	return eachTried(tx, query, func(row *triedRow) {
		if row.passes(chosen) {
			step.ids = append(step.ids, row.ID)
		}
	})
}
