package rollup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// By is what the rows of a query are grouped by, besides the time.
type By string

// The values of By; empty: rows are not grouped.
const (
	ByWebhook By = "webhook"
	ByType    By = "type"
	ByClass   By = "class"
	// ByWebhookClass is for a query about several webhooks.
	ByWebhookClass By = "webhookClass"
)

// Query selects counts of an account.
type Query struct {
	Webhook domain.WebhookID // empty: of the whole account
	// Webhooks are the webhooks of a query by webhook and class.
	Webhooks []domain.WebhookID
	// Since and Until bound the time, rounded down and up to whole minutes.
	Since, Until time.Time
	Step         Step // 0: one step for the whole time
	By           By
	// Most is how many rows there may be at most; 0: any number.
	Most int
}

// Row has the counts of a step.
type Row struct {
	Start   time.Time        // zero: the query has no steps
	Webhook domain.WebhookID // Webhook, Type and Class: set as By says
	Type    domain.EventType
	Class   domain.Class
	Counts
	Succeeded int64 // attempts
}

// Failed returns how many attempts failed.
func (r *Row) Failed() int64 { return r.Attempts - r.Succeeded }

// Read answers queries about an account, all on one view of the database. Rows are ordered by time and then by what
// they are grouped by. Steps without counts have no row. domain.ErrLimit: there are more rows than a query allows.
func (r *Rollups) Read(ctx context.Context, account string, queries ...Query) ([][]Row, error) {
	answers := make([]rowSet, len(queries))
	err := r.db.Snapshot(ctx, func(tx *gorm.DB) error {
		c := r.db.Beneath(tx)
		for i, q := range queries {
			answers[i] = rowSet{Query: q, account: account, rows: map[rowSetKey]*Row{}, webhooks: map[domain.WebhookID]bool{}}
			for _, id := range q.Webhooks {
				answers[i].webhooks[id] = true
			}
			for _, part := range q.cover() {
				if err := readPart(ctx, c, &answers[i], part); err != nil {
					return err
				}
			}
		}
		return readDeltas(ctx, c, account, answers)
	})
	if err != nil {
		return nil, store.Wrap("read rollups", err)
	}
	lists := make([][]Row, len(queries))
	for i := range answers {
		lists[i] = answers[i].sorted()
	}
	return lists, nil
}

// span is a span of minutes that rows of one step cover.
type span struct {
	step        Step
	from, until int64
}

// cover divides the query's time into parts, so that each is read from the longest rows that fit.
func (q *Query) cover() []span {
	from, until := q.minutes()
	longest := q.Step
	longest = cmp.Or(longest, Day)
	var parts []span
	var divide func(from, until int64, step Step)
	divide = func(from, until int64, step Step) {
		if from >= until {
			return
		}
		if step == Minute {
			parts = append(parts, span{Minute, from, until})
			return
		}
		shorter := Minute
		if step == Day {
			shorter = Hour
		}
		first, last := step.floor(from+int64(step)-1), step.floor(until)
		if first >= last {
			divide(from, until, shorter)
			return
		}
		divide(from, first, shorter)
		parts = append(parts, span{step, first, last})
		divide(last, until, shorter)
	}
	divide(from, until, longest)
	return parts
}

// minutes returns the first minute and the minute after the last.
func (q *Query) minutes() (from, until int64) {
	return minuteOf(q.Since), minuteOf(q.Until.Add(time.Minute - time.Nanosecond))
}

const ofWebhook = `SELECT ` + rollupColumns + ` FROM rollups
	WHERE account = $1 AND webhook_id = $2 AND step = $3 AND start >= $4 AND start < $5`

// ofEachWebhook jumps from one webhook to the next in the primary key, because the rows in between
// are of other times. CROSS JOIN makes SQLite begin with the webhooks.
const ofEachWebhook = `WITH RECURSIVE w (id) AS (
		SELECT min(webhook_id) FROM rollups WHERE account = $1 AND webhook_id > $2
		UNION ALL
		SELECT (SELECT min(webhook_id) FROM rollups WHERE account = $1 AND webhook_id > w.id) FROM w WHERE w.id IS NOT NULL
	)
	SELECT r.account, r.webhook_id, r.step, r.start, r.event_type, r.class, r.events, r.deliveries, r.attempts, r.last_at, r.latency
	FROM w CROSS JOIN rollups r
	WHERE r.account = $1 AND r.webhook_id = w.id AND r.step = $3 AND r.start >= $4 AND r.start < $5`

// ofWebhooksPostgres looks each webhook up separately, whatever was known of the table when the statement was
// planned. ofWebhooks is for SQLite.
const (
	ofWebhooks = `SELECT ` + rollupColumns + ` FROM rollups
	WHERE account = $1 AND webhook_id IN (SELECT value FROM json_each($2)) AND step = $3 AND start >= $4 AND start < $5`
	ofWebhooksPostgres = `SELECT ` + rollupColumns + ` FROM unnest($2::text[]) w (id) CROSS JOIN LATERAL (SELECT ` + rollupColumns + ` FROM rollups
		WHERE account = $1 AND webhook_id = w.id AND step = $3 AND start >= $4 AND start < $5 OFFSET 0) r`
)

func readPart(ctx context.Context, c store.Conn, a *rowSet, p span) error {
	query, webhook := ofWebhook, any(string(a.Webhook))
	switch {
	case a.By == ByWebhookClass && c.SQLite():
		query, webhook = ofWebhooks, c.List(a.Webhooks)
	case a.By == ByWebhookClass:
		query, webhook = ofWebhooksPostgres, a.Webhooks
	case a.By == ByWebhook && a.Webhook == "":
		query = ofEachWebhook
	}
	return c.Query(ctx, query, scanRollups(func(key rowKey, counts *Counts) error { return a.add(key.Key, counts) }),
		a.account, webhook, int(p.step), c.Moment(timeOf(p.from)), c.Moment(timeOf(p.until)))
}

func readDeltas(ctx context.Context, c store.Conn, account string, answers []rowSet) error {
	var deltas []delta
	err := c.Query(ctx, "SELECT "+deltaColumns+" FROM rollup_deltas WHERE account = '' OR account = $1", scanDeltas(&deltas), account)
	if err != nil {
		return err
	}
	for i := range deltas {
		var failed error
		err := deltas[i].each(account, func(key Key, counts *Counts) {
			for j := range answers {
				if err := answers[j].addDelta(key, counts); err != nil {
					failed = err
				}
			}
		})
		if err := cmp.Or(err, failed); err != nil {
			return fmt.Errorf("delta %d: %w", deltas[i].ID, err)
		}
	}
	return nil
}

func scanRollups(each func(rowKey, *Counts) error) func(store.Scan) error {
	return func(scan store.Scan) error {
		var key rowKey
		var counts Counts
		var start, last store.Instant
		var latency []byte
		err := scan(&key.Account, &key.Webhook, &key.step, &start, &key.Type, &key.Class,
			&counts.Events, &counts.Deliveries, &counts.Attempts, &last, &latency)
		if err != nil {
			return err
		}
		key.Minute, counts.Last = minuteOf(start.Time()), last.Time()
		if counts.Latency, err = decodeHistogram(latency); err != nil {
			return err
		}
		return each(key, &counts)
	}
}

// rowSet gathers the rows of a query.
type rowSet struct {
	Query
	account  string
	rows     map[rowSetKey]*Row
	webhooks map[domain.WebhookID]bool // the set of Query.Webhooks
}

// rowSetKey identifies a row of a rowSet.
type rowSetKey struct {
	start   int64
	webhook domain.WebhookID
	group   string // the event type or class by which the query groups
}

// addDelta adds counts that are not merged yet, if the query asks for them.
func (a *rowSet) addDelta(key Key, counts *Counts) error {
	from, until := a.minutes()
	switch {
	case key.Minute < from || key.Minute >= until:
		return nil
	case a.Webhook != "" && key.Webhook != a.Webhook, a.By == ByWebhook && key.Webhook == "", a.By == ByWebhookClass && !a.webhooks[key.Webhook]:
		return nil
	}
	return a.add(key, counts)
}

func (a *rowSet) add(key Key, counts *Counts) error {
	if (a.By == ByClass || a.By == ByWebhookClass) && key.Class == "" {
		return nil // accepted events have no class
	}
	at := rowSetKey{}
	if a.Step > 0 {
		at.start = a.Step.floor(key.Minute)
	}
	row := Row{}
	switch a.By {
	case ByWebhook:
		at.webhook, row.Webhook = key.Webhook, key.Webhook
	case ByType:
		at.group, row.Type = string(key.Type), key.Type
	case ByClass:
		at.group, row.Class = string(key.Class), key.Class
	case ByWebhookClass:
		at.webhook, row.Webhook, at.group, row.Class = key.Webhook, key.Webhook, string(key.Class), key.Class
	}
	into := a.rows[at]
	if into == nil {
		if a.Most > 0 && len(a.rows) >= a.Most {
			return domain.ErrLimit
		}
		if a.Step > 0 {
			row.Start = timeOf(at.start)
		}
		into = &row
		a.rows[at] = into
	}
	into.Add(counts)
	if key.Class == domain.ClassOK {
		into.Succeeded += counts.Attempts
	}
	return nil
}

func (a *rowSet) sorted() []Row {
	list := make([]Row, 0, len(a.rows))
	for _, row := range a.rows {
		list = append(list, *row)
	}
	slices.SortFunc(list, func(x, y Row) int {
		return cmp.Or(x.Start.Compare(y.Start), cmp.Compare(x.Webhook, y.Webhook), cmp.Compare(x.Type, y.Type), cmp.Compare(x.Class, y.Class))
	})
	return list
}
