package pipeline

import (
	"fmt"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
)

// maxLooked bounds how many deliveries are checked for one page, in the order of an index. 10,000
// took a tenth of a second where they lie far apart; see BenchmarkFilters.
const maxLooked = 4_000

// The class and status of the last attempt, also where the row does not have them: see the columns.
const (
	sqlClass  = `coalesce(d.last_class, CASE WHEN d.attempts = 1 AND d.attempt_status BETWEEN 200 AND 299 THEN 'ok' END)`
	sqlStatus = `coalesce(d.last_status, CASE WHEN d.attempts = 1 THEN d.attempt_status END)`
)

// condition is a part of a WHERE with its arguments.
type condition struct {
	sql  string
	args []any
}

// wantsFailed reports whether the filter asks for failed attempts: then the delivery is not delivered.
func (f DeliveryFilter) wantsFailed() bool {
	return f.Class != "" && f.Class != domain.ClassOK || f.StatusCode != 0 && domain.ClassOf(f.StatusCode) != domain.ClassOK
}

// indexedConditions returns the conditions for which an index has the order of the list. At most one of them
// says more than that the delivery is not delivered.
func (f DeliveryFilter) indexedConditions() []condition {
	var list []condition
	add := func(sql string, args ...any) { list = append(list, condition{sql, args}) }
	open := f.wantsFailed() || f.Reason != "" && !domain.Forged(f.Reason) || f.Status != "" && f.Status != domain.StatusDelivered
	if open {
		add("d.status <> 'delivered'")
	}
	switch {
	case f.StatusCode != 0 && domain.ClassOf(f.StatusCode) != domain.ClassOK:
		add("d.last_status = ?", f.StatusCode)
	case f.Class != "" && f.Class != domain.ClassOK:
		add("d.last_class = ?", string(f.Class))
	case domain.Forged(f.Reason):
		if !open {
			add("d.test")
		}
	case f.Reason == domain.ReasonWebhookDeleted, f.Reason == domain.ReasonCircuitOpen: // other rows are shown with it, too
	case f.Reason != "":
		add("d.reason = ? AND d.reason <> ''", f.Reason)
	case f.Test != nil && *f.Test && !open:
		add("d.test")
	}
	return list
}

// checkedConditions returns the conditions for which each delivery is checked.
func (f DeliveryFilter) checkedConditions() []condition {
	var list []condition
	add := func(sql string, args ...any) { list = append(list, condition{sql, args}) }
	if sql := loggedCondition(f.Status); sql != "" {
		add(sql)
	}
	if f.Reason != "" {
		add(shownReason(f.Reason), f.Reason)
	}
	if f.Type != "" {
		add("d.event_type = ?", string(f.Type))
	}
	if f.Class != "" {
		add(sqlClass+" = ?", string(f.Class))
	}
	if f.StatusCode != 0 {
		add(sqlStatus+" = ?", f.StatusCode)
	}
	if f.Test != nil {
		add("d.test = ?", *f.Test)
	}
	return list
}

// shownReason selects the rows that are shown with a reason, which is the argument of the
// condition: see deliveryListRow.shown.
func shownReason(reason string) string {
	const ended = "d.status IN ('delivered', 'failed')"
	asStored := "d.reason = ? AND (NOT " + sqlDead + " OR " + ended + ") AND (NOT " + sqlOpen + " OR " + sqlDead + ")"
	if reason == domain.ReasonWebhookDeleted {
		return "((" + asStored + ") OR (" + sqlDead + " AND NOT " + ended + "))"
	}
	const cut = sqlCut + " AND NOT " + sqlDead + " AND NOT " + sqlOpen
	switch reason {
	case domain.ReasonCircuitOpen:
		return "((" + asStored + ") OR (" + cut + "))"
	case domain.ReasonOverCap:
		return asStored + " AND NOT " + sqlCut
	}
	return asStored
}

// requested adds the filter's conditions to a query of open requests.
func (f DeliveryFilter) requested(query *gorm.DB) *gorm.DB {
	switch f.Reason {
	case "":
	case domain.ReasonWebhookDeleted:
		query = query.Where(sqlDeadRequest)
	default:
		query = query.Where("1 = 0")
	}
	if f.Type != "" {
		query = query.Where("r.event_type = ?", string(f.Type))
	}
	if f.Class != "" {
		query = query.Where(sqlClass+" = ?", string(f.Class))
	}
	if f.StatusCode != 0 {
		query = query.Where(sqlStatus+" = ?", f.StatusCode)
	}
	if f.Test != nil {
		query = query.Where("r.test = ?", *f.Test)
	}
	return query
}

// walkQuery selects deliveries in the order of an index, with the conditions that an index serves. The
// filter's other conditions are applied later.
func (scope deliveryScope) walkQuery(tx *gorm.DB) *gorm.DB {
	query := scope.bound(tx.Table("deliveries AS d"), "d", "d.id")
	if scope.byEvents() {
		return query // these are few, and are found by their ids
	}
	for _, c := range scope.filter.indexedConditions() {
		query = query.Where(c.sql, c.args...)
	}
	return query
}

// isBounded reports whether maxLooked applies: deliveries are checked one by one, and their events
// are not known.
func (scope deliveryScope) isBounded() bool {
	return !scope.byEvents() && len(scope.filter.checkedConditions()) > 0
}

// matching selects the deliveries that match the filter, among the first maxLooked where that applies.
func (scope deliveryScope) matching(tx *gorm.DB) *gorm.DB {
	query := scope.walkQuery(tx)
	if scope.isBounded() {
		query = tx.Table("(?) AS d", query.Select("d.*").Order("d.id DESC").Limit(maxLooked))
	}
	for _, c := range scope.filter.checkedConditions() {
		query = query.Where(c.sql, c.args...)
	}
	return query
}

// horizon returns the last delivery that was checked; empty: there are no more.
func (scope deliveryScope) horizon(tx *gorm.DB) (domain.DeliveryID, error) {
	if !scope.isBounded() {
		return "", nil
	}
	var ids []domain.DeliveryID
	err := scope.walkQuery(tx).Order("d.id DESC").Offset(maxLooked-1).Limit(1).Pluck("d.id", &ids).Error
	if err != nil {
		return "", fmt.Errorf("read log: %w", err)
	}
	if len(ids) == 0 {
		return "", nil
	}
	return ids[0], nil
}
