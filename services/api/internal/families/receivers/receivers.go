// Package receivers reports the health of webhooks' receivers. All pages and operations get a webhook's state from
// this package. It reads rollups and the circuits that dispatchers report; it counts only those deliveries that have
// not ended.
package receivers

import (
	"context"
	"math"
	"slices"
	"time"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/rollup"
)

// maxAnswers is how many of the last answers are shown.
const maxAnswers = 5

// Rollups has the counts of attempts.
type Rollups interface {
	Read(ctx context.Context, account string, queries ...rollup.Query) ([][]rollup.Row, error)
}

// Webhooks has the deliveries that are under way to webhooks.
type Webhooks interface {
	Circuits(ctx context.Context, ids []domain.WebhookID) (map[domain.WebhookID]domain.Circuit, error)
	CountOpen(ctx context.Context, account string, most int, ids ...domain.WebhookID) (map[domain.WebhookID]pipeline.OpenCounts, error)
	Acknowledgements(ctx context.Context, ids []domain.WebhookID) (map[domain.WebhookID]domain.Acknowledgement, error)
	LastAnswers(ctx context.Context, id domain.WebhookID, most int) ([]domain.Answer, error)
}

// Options of a Reader; all are required.
type Options struct {
	Rollups      Rollups
	Webhooks     Webhooks
	Retention    time.Duration // retention of the counts
	DisableAfter time.Duration // how long all attempts to a webhook must fail before it becomes inactive
}

// Reader reads the health of receivers.
type Reader struct{ Options }

// NewReader returns a Reader.
func NewReader(o Options) *Reader { return &Reader{o} }

// window is a time up to now that attempts are counted in.
type window struct {
	name string
	time time.Duration
}

// recently returns the window whose failures make a receiver degraded. A receiver without an attempt for idleAfter is
// idle.
func recently() window { return window{"1h", time.Hour} }

const idleAfter = 7 * 24 * time.Hour

// longer returns the windows that only the health of a single webhook has.
func longer() []window { return []window{{"24h", 24 * time.Hour}, {"7d", idleAfter}} }

// List returns the health of an account's webhooks, with the window of an hour. The number of statements does not
// depend on the number of webhooks.
func (r *Reader) List(ctx context.Context, account string, webhooks []domain.Webhook, healths []domain.Health) ([]Health, error) {
	return r.list(ctx, account, webhooks, healths, pipeline.CountedInLists)
}

// list counts up to most waiting deliveries for each webhook.
func (r *Reader) list(ctx context.Context, account string, webhooks []domain.Webhook, healths []domain.Health, most int) ([]Health, error) {
	if len(webhooks) == 0 {
		return nil, nil
	}
	now := time.Now()
	ids := make([]domain.WebhookID, len(webhooks))
	for i := range webhooks {
		ids[i] = webhooks[i].ID
	}
	circuits, err := r.Webhooks.Circuits(ctx, ids)
	if err != nil {
		return nil, err
	}
	open, err := r.Webhooks.CountOpen(ctx, account, most, ids...)
	if err != nil {
		return nil, err
	}
	// Rows of whole days, which are few, show when attempts last ended. Both queries end at the end of the day, so
	// that the current hour and the current day are one row each.
	day := rollup.Day.Duration()
	until := now.Truncate(day).Add(day)
	lists, err := r.Rollups.Read(ctx, account,
		rollup.Query{Webhooks: ids, Since: now.Add(-recently().time), Until: until, By: rollup.ByWebhookClass},
		rollup.Query{Webhooks: ids, Since: now.Add(-r.Retention).Truncate(day), Until: until, By: rollup.ByWebhookClass})
	if err != nil {
		return nil, err
	}
	hour, all := byWebhook(lists[0]), byWebhook(lists[1])
	list := make([]Health, len(webhooks))
	for i := range webhooks {
		w := &webhooks[i]
		list[i] = r.view(w, healths[i], circuits[w.ID], open[w.ID])
		list[i].Windows = map[string]Window{recently().name: viewWindow(hour[w.ID])}
		list[i].judge(w, healths[i], circuits[w.ID], all[w.ID], now)
	}
	return list, r.problems(ctx, account, webhooks, healths, circuits, list, now)
}

func byWebhook(rows []rollup.Row) map[domain.WebhookID][]rollup.Row {
	of := map[domain.WebhookID][]rollup.Row{}
	for i := range rows {
		of[rows[i].Webhook] = append(of[rows[i].Webhook], rows[i])
	}
	return of
}

// One returns the health of a webhook, with all windows and the last answers with their bodies. For compatibility, the
// state of a degraded webhook is healthy here, and its member degraded is true.
func (r *Reader) One(ctx context.Context, w domain.Webhook, health domain.Health) (Health, error) {
	list, err := r.list(ctx, w.Account, []domain.Webhook{w}, []domain.Health{health}, pipeline.MostCounted)
	if err != nil {
		return Health{}, err
	}
	h, now := list[0], time.Now()
	if h.State == Degraded {
		h.State = Healthy
	}
	answers, err := r.Webhooks.LastAnswers(ctx, w.ID, maxAnswers)
	if err != nil {
		return Health{}, err
	}
	var queries []rollup.Query
	for _, of := range longer() {
		// Counts from a dispatcher with a clock that is ahead are included as counts of now.
		queries = append(queries, rollup.Query{Webhook: w.ID, Since: now.Add(-of.time), Until: now.Add(time.Minute), By: rollup.ByClass})
	}
	lists, err := r.Rollups.Read(ctx, w.Account, queries...)
	if err != nil {
		return Health{}, err
	}
	for i, of := range longer() {
		h.Windows[of.name] = viewWindow(lists[i])
	}
	if h.last != nil {
		answers = pipeline.DistinctAnswers(append(answers, *h.last), maxAnswers)
	}
	h.Answers = web.Views(answers, viewAnswer)
	return h, nil
}

// Latency has quantiles in milliseconds.
type Latency struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// LatencyOf returns the latency quantiles, or nil when there was no attempt.
func LatencyOf(h rollup.Histogram) *Latency {
	if h.Total() == 0 {
		return nil
	}
	ms := func(q float64) float64 { return math.Round(h.Quantile(q).Seconds()*1e5) / 100 }
	return &Latency{ms(0.5), ms(0.95), ms(0.99)}
}

// lastAnswers returns the classes with which attempts ended, each with its last time, and all details of the last
// failed one.
func lastAnswers(rows []rollup.Row, last *domain.Answer) []domain.Answer {
	var answers []domain.Answer
	for i := range rows {
		if last == nil || last.Class != rows[i].Class {
			answers = append(answers, domain.Answer{At: rows[i].Last, Class: rows[i].Class})
		}
	}
	if last != nil {
		answers = append(answers, *last)
	}
	slices.SortFunc(answers, func(a, b domain.Answer) int { return b.At.Compare(a.At) })
	return answers[:min(len(answers), maxAnswers)]
}
