package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// DeliveryFilter selects deliveries of one account. Zero fields select nothing away.
type DeliveryFilter struct {
	Account string
	Webhook domain.WebhookID
	EventID string
	Status  domain.Status // as shown, see ListDeliveries
	Reason  string        // as shown
	Type    domain.EventType
	// Shipment is data.shipmentId of the event.
	Shipment string
	// Class and StatusCode are those of the last attempt.
	Class      domain.Class
	StatusCode int
	Test       *bool
	// Since (inclusive) and Until (exclusive) bound the acceptance of the event.
	Since, Until time.Time
	Limit        int    // 1..1000; 0: 100
	Cursor       string // where the page before ended
}

// sqlDead is whether a delivery's webhook is deleted. sqlOpen is whether a retry or replay of the
// delivery was asked for and not answered. Both change how the delivery is shown.
const (
	sqlDead = `EXISTS (SELECT 1 FROM webhooks w WHERE w.id = d.webhook_id AND w.deleted)`
	sqlOpen = `EXISTS (SELECT 1 FROM requests r WHERE r.delivery_id = d.id)`

	// sqlCut holds for a delivery that overflowed before its webhook's circuit opened: it now waits for the circuit, too.
	// Such deliveries are not written when the circuit opens or closes. With EXISTS, Postgres would read all circuits.
	sqlCut = `(d.in_lane AND d.reason = '` + domain.ReasonOverCap + `' AND d.status IN ('pending', 'retrying')
		AND coalesce((SELECT c.open_since IS NOT NULL FROM webhook_circuits c WHERE c.webhook_id = d.webhook_id), FALSE))`

	sqlDeadRequest = `EXISTS (SELECT 1 FROM webhooks w WHERE w.id = r.webhook_id AND w.deleted)`

	// sqlUnsendable holds for a delivery that jobs don't send again: a forged test, or one whose webhook is deleted or
	// read by pull.
	sqlUnsendable = `(d.reason IN ('` + domain.ReasonWrongSecret + `', '` + domain.ReasonOldTime + `') OR EXISTS (SELECT 1 FROM webhooks w WHERE w.id = d.webhook_id AND (w.deleted OR w.delivery = 'pull')))`
)

const sqlListed = `d.day, d.id, d.account, d.webhook_id, d.event_id, d.event_type, d.status, d.attempts,
	d.next_attempt_at, d.in_lane, d.reason, d.test, d.sequence, d.updated_at, d.last_class, d.last_status, d.attempt_status`

// sqlWhole has all columns of a delivery's row, including those of the attempt in the row.
const sqlWhole = sqlListed + `, d.rev, d.run_attempts, d.run_started_at, d.attempt_id, d.attempt_number, d.attempt_started_at,
	d.attempt_us, d.attempt_class, d.attempt_error, d.attempt_body, d.attempt_transcript`

// sqlRequested has the columns of a request as those of the delivery that it asks for, with the
// values of an earlier run.
const sqlRequested = `r.day, r.delivery_id AS id, r.account, r.webhook_id, r.event_id, r.event_type,
	coalesce(d.status, 'pending') AS status, coalesce(d.attempts, 0) AS attempts,
	r.test, d.sequence, r.created_at AS updated_at, d.last_class, d.last_status, d.attempt_status`

// sqlNew holds for a request that has no delivery yet. Only tests make such requests; the others are for a delivery in the log.
const sqlNew = "r.kind = '" + requestTest + "' AND d.id IS NULL"

const sqlRequestJoin = `requests AS r LEFT JOIN deliveries AS d
	ON d.account = r.account AND d.id = r.delivery_id AND d.day = r.day`

// deliveryListRow is a delivery with the facts that change how it is shown.
type deliveryListRow struct {
	Delivery deliveryRow `gorm:"embedded"` // exported, because gorm ignores unexported fields
	Open     bool
	Dead     bool
	Cut      bool
}

// shown returns the delivery as the log shows it: as failed when its webhook was deleted before the delivery ended, as
// pending while a request for it is open, and as retrying while the circuit that it waits for is open.
func (r deliveryListRow) shown() domain.Delivery {
	d := r.Delivery.domain()
	switch {
	case r.Dead && d.Status != domain.StatusDelivered && d.Status != domain.StatusFailed:
		d.Status, d.Reason, d.NextAttemptAt = domain.StatusFailed, domain.ReasonWebhookDeleted, time.Time{}
	case r.Open && !r.Dead:
		d.Status, d.Reason, d.NextAttemptAt = domain.StatusPending, "", time.Time{}
	case r.Cut && !r.Dead:
		d.Status, d.Reason = domain.StatusRetrying, domain.ReasonCircuitOpen
	}
	return d
}

// ListDeliveries returns a page of deliveries, those of the newest events first, and the cursor of the next page; empty: there
// is none. A delivery whose retry or replay was asked for is shown as pending. A test is listed as soon as it was asked for. A
// delivery that had not ended when its webhook was deleted is shown as failed. The filters by status and reason use what is
// shown. A page may be shorter than the limit, and even empty, when few of the deliveries that were checked match the filter:
// the next cursor goes on. ErrCursor: the cursor is not one of this list.
func (p *Pipeline) ListDeliveries(ctx context.Context, f DeliveryFilter) ([]domain.Delivery, string, error) {
	filter := f.digest()
	after, err := store.DecodeCursor(f.Cursor, listDeliveries, f.Account, leadsWith(filter))
	if err != nil {
		return nil, "", err
	}
	limit := pageSize(f.Limit)
	var found []domain.Delivery
	var looked domain.DeliveryID
	err = p.db.Snapshot(ctx, func(tx *gorm.DB) error {
		scope, err := newDeliveryScope(tx, f, after)
		if err != nil || scope.empty {
			return err
		}
		found, looked, err = scope.page(tx, limit+1)
		return err
	})
	if err != nil {
		return nil, "", store.Wrap("list deliveries", err)
	}
	if len(found) > limit {
		found = found[:limit]
		looked = found[limit-1].ID
	}
	next := ""
	if looked != "" {
		next = store.Cursor{List: listDeliveries, Account: f.Account, ID: string(looked), Filter: filter}.Encode()
	}
	return found, next, nil
}

// digest returns a number that differs for other filters, to recognise the cursors of this one.
func (f DeliveryFilter) digest() uint64 {
	test := "any"
	if f.Test != nil {
		test = strconv.FormatBool(*f.Test)
	}
	return digest(f.Webhook, f.EventID, f.Status, f.Reason, f.Type, f.Shipment, f.Class, f.StatusCode, test, f.Since.UnixNano(), f.Until.UnixNano())
}

// deliveryScope is a filter expressed by ids, which sort by time and contain the day.
type deliveryScope struct {
	filter     DeliveryFilter
	from, to   domain.DeliveryID // the first id, and the first one after the last; empty: no bound
	events     []acceptance      // of the event or shipment in the filter
	empty      bool
	olderExist bool // there are older events
}

func newDeliveryScope(tx *gorm.DB, f DeliveryFilter, after *store.Cursor) (deliveryScope, error) {
	scope := deliveryScope{filter: f}
	if !f.Since.IsZero() {
		scope.from = domain.DeliveryIDFloor(ceilMillisecond(f.Since))
	}
	if !f.Until.IsZero() {
		scope.to = domain.DeliveryIDFloor(ceilMillisecond(f.Until))
	}
	if after != nil && (scope.to == "" || domain.DeliveryID(after.ID) < scope.to) {
		scope.to = domain.DeliveryID(after.ID)
	}
	if !scope.byEvents() {
		return scope, nil
	}
	var err error
	if scope.events, scope.olderExist, err = acceptances(tx, f, scope.to); err != nil {
		return scope, err
	}
	scope.empty = len(scope.events) == 0
	return scope, nil
}

// byEvents reports whether the filter names an event or a shipment, so that the events are known.
func (scope deliveryScope) byEvents() bool {
	return scope.filter.EventID != "" || scope.filter.Shipment != ""
}

// bound adds the filter's conditions to a query. table and id name the columns.
func (scope deliveryScope) bound(query *gorm.DB, table, id string) *gorm.DB {
	f := scope.filter
	whose, owner := table+".account = ?", f.Account
	switch {
	case f.Webhook == "":
	case table == "d": // IS TRUE: the list of a webhook is short, whatever the statistics say
		whose, owner = "d.webhook_id = ?", string(f.Webhook)
		query = query.Where("(d.account = ?) IS TRUE", f.Account)
	default: // requests: their index begins with the account
		query = query.Where(table+".webhook_id = ?", string(f.Webhook))
	}
	if scope.from != "" {
		query = query.Where(id+" >= ? AND "+table+".day >= ?", string(scope.from), store.DateOf(ceilMillisecond(f.Since)))
	}
	if scope.to != "" {
		at, _ := scope.to.ReceivedAt()
		query = query.Where(id+" < ? AND "+table+".day <= ?", string(scope.to), store.DateOf(at))
	}
	if !scope.byEvents() {
		return query.Where(whose, owner)
	}
	// With the day in the query, only one partition of deliveries is planned. The table of requests has no
	// partitions, and its index by day would lead to all requests of the day.
	if day := store.DateOf(scope.events[0].at); table == "d" && day == store.DateOf(scope.events[len(scope.events)-1].at) {
		query = query.Where(table+".day = ?", day)
	}
	// The owner is in each of the ranges, and nowhere else. Otherwise SQLite would read everything that the owner has.
	var ranges []string
	var args []any
	for _, e := range scope.events {
		ranges = append(ranges, "("+whose+" AND "+id+" >= ? AND "+id+" < ? AND "+table+".event_id = ? AND "+table+".day = ?)")
		args = append(args, owner, string(domain.DeliveryIDFloor(e.at)), string(domain.DeliveryIDFloor(e.at.Add(time.Millisecond))), e.id, store.DateOf(e.at))
	}
	return query.Where("("+strings.Join(ranges, " OR ")+")", args...)
}

// eventsAtOnce is for how many events deliveries are read at a time. The events are of one day:
// otherwise the partitions would be planned for every event.
const eventsAtOnce = 50

// page reads up to limit deliveries. If it has found fewer without having checked all deliveries,
// looked is where it stopped; empty: there are no more.
func (scope deliveryScope) page(tx *gorm.DB, limit int) (found []domain.Delivery, looked domain.DeliveryID, err error) {
	if !scope.byEvents() {
		return scope.list(tx, limit)
	}
	all := scope.events
	for len(all) > 0 && len(found) < limit {
		n := 1
		// Events of the same millisecond are read together, because they are sorted by id.
		for n < len(all) && (n < eventsAtOnce || all[n].at.Equal(all[n-1].at)) && store.DateOf(all[n].at) == store.DateOf(all[0].at) {
			n++
		}
		scope.events, all = all[:n], all[n:]
		more, _, err := scope.list(tx, limit-len(found))
		if err != nil {
			return nil, "", err
		}
		found = append(found, more...)
	}
	if len(found) < limit && len(all) == 0 && scope.olderExist {
		looked = domain.DeliveryIDFloor(scope.events[len(scope.events)-1].at)
	}
	return found, looked, nil
}

// list reads up to limit deliveries from the log and from the open requests.
func (scope deliveryScope) list(tx *gorm.DB, limit int) (found []domain.Delivery, looked domain.DeliveryID, err error) {
	var rows []deliveryListRow
	err = scope.matching(tx).Select(sqlListed + ", " + sqlOpen + " AS open, " + sqlDead + " AS dead, " + sqlCut + " AS cut").
		Order("d.id DESC").Limit(limit).Scan(&rows).Error
	if err != nil {
		return nil, "", fmt.Errorf("read log: %w", err)
	}
	if len(rows) < limit {
		if looked, err = scope.horizon(tx); err != nil {
			return nil, "", err
		}
	}
	if condition := requestedCondition(scope.filter.Status); condition != "" {
		var requested []deliveryListRow
		query := scope.bound(tx.Table(sqlRequestJoin), "r", "r.delivery_id").
			Select(sqlRequested + ", " + sqlDeadRequest + " AS dead").Where(condition)
		if looked != "" {
			query = query.Where("r.delivery_id >= ?", string(looked))
		}
		err := scope.filter.requested(query).Order("r.delivery_id DESC").Limit(limit).Scan(&requested).Error
		if err != nil {
			return nil, "", fmt.Errorf("read requests: %w", err)
		}
		for _, row := range requested {
			row.Open = true
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b deliveryListRow) int { return cmp.Compare(b.Delivery.ID, a.Delivery.ID) })
	found = make([]domain.Delivery, min(len(rows), limit))
	for i := range found {
		found[i] = rows[i].shown()
	}
	return found, looked, nil
}

// loggedCondition selects the rows of deliveries that are shown with status, with conditions that
// the partial indexes have.
func loggedCondition(status domain.Status) string {
	switch status {
	case domain.StatusFailed:
		return "d.status <> 'delivered' AND (" + sqlDead + " OR (d.status = 'failed' AND NOT " + sqlOpen + "))"
	case domain.StatusDelivered:
		return "d.status = 'delivered' AND (" + sqlDead + " OR NOT " + sqlOpen + ")"
	case domain.StatusRetrying:
		return "d.status <> 'delivered' AND (d.status = 'retrying' OR " + sqlCut + ") AND NOT " + sqlOpen + " AND NOT " + sqlDead
	case domain.StatusPending:
		return "d.status <> 'delivered' AND d.status = 'pending' AND NOT " + sqlCut + " AND NOT " + sqlOpen + " AND NOT " + sqlDead
	case domain.StatusHeld:
		return "d.status <> 'delivered' AND d.status = '" + string(status) + "' AND NOT " + sqlOpen + " AND NOT " + sqlDead
	}
	return ""
}

// requestedCondition selects the open requests that are listed with status in addition to the log:
// those that have no delivery yet and, for pending, all of them.
func requestedCondition(status domain.Status) string {
	switch status {
	case "":
		return sqlNew
	case domain.StatusPending:
		return "NOT " + sqlDeadRequest
	case domain.StatusFailed:
		return sqlNew + " AND " + sqlDeadRequest
	}
	return ""
}

// GetDelivery returns one delivery as the log shows it, with its attempts in their order.
func (p *Pipeline) GetDelivery(ctx context.Context, account string, id domain.DeliveryID) (domain.Delivery, []domain.Attempt, error) {
	at, ok := id.ReceivedAt()
	if !ok {
		return domain.Delivery{}, nil, store.Wrap("get delivery", domain.ErrNotFound)
	}
	var found domain.Delivery
	var attempts []domain.Attempt
	err := p.db.Snapshot(ctx, func(tx *gorm.DB) error {
		row, err := takeDelivery(tx, nil, account, id, store.DateOf(at))
		if err != nil {
			return err
		}
		found = row.shown()
		attempts, err = takeAttempts(tx, row)
		return err
	})
	return found, attempts, store.Wrap("get delivery", err)
}

// takeDelivery reads one delivery as it is shown: from the log, with lock, or from the request for it.
func takeDelivery(tx *gorm.DB, lock []clause.Expression, account string, id domain.DeliveryID, day store.Date) (deliveryListRow, error) {
	var row deliveryListRow
	err := tx.Table("deliveries AS d").Select(sqlWhole+", "+sqlOpen+" AS open, "+sqlDead+" AS dead, "+sqlCut+" AS cut").Clauses(lock...).
		Where("d.account = ? AND d.id = ? AND d.day = ?", account, string(id), day).Take(&row).Error
	if !errors.Is(err, gorm.ErrRecordNotFound) {
		return row, err
	}
	err = tx.Table(sqlRequestJoin).Select(sqlRequested+", "+sqlDeadRequest+" AS dead").
		Where("r.account = ? AND r.delivery_id = ?", account, string(id)).Take(&row).Error
	row.Open = true
	return row, err
}

// maxAttempts bounds the attempts that are shown with a delivery, to the newest ones, so that an
// account that asks for more and more retries of a delivery can't make the answer longer and longer.
const maxAttempts = 1000

func takeAttempts(tx *gorm.DB, row deliveryListRow) ([]domain.Attempt, error) {
	var rows []attemptRow
	if err := tx.Where("day = ? AND delivery_id = ?", row.Delivery.Day, row.Delivery.ID).
		Order("number DESC").Limit(maxAttempts).Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("read attempts: %w", err)
	}
	attempts := make([]domain.Attempt, 0, len(rows)+1)
	if first, ok := row.Delivery.firstAttempt(); ok {
		attempts = append(attempts, first)
	}
	for _, r := range rows {
		attempts = append(attempts, r.domain())
	}
	slices.SortFunc(attempts, func(a, b domain.Attempt) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), a.StartedAt.Compare(b.StartedAt), cmp.Compare(a.ID, b.ID))
	})
	return attempts, nil
}
