package jobs

import (
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/families/jobs"
	"waybill.dev/services/api/internal/families/webhooks"
	"waybill.dev/shared/domain"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, Module(), samples())
}

// samples are data to try the templates with.
func samples() map[string][]any {
	const hostile = "<script>\u202e"
	full := job{jobs.Job{
		ID: "0198e5d0-1111-7222-8333-444455556666", Kind: "retry", Status: domain.JobRunning, Matched: 1234, Sent: 1000, Delivered: 960, Failed: 12, CreatedAt: new("2026-11-18T12:30:00.000Z"), CreatedBy: hostile,
		Filter: jsontext.Value(`{"status":"failed","webhookId":"<script>","statusCode":500}`),
	}}
	done := full
	done.Status, done.Sent, done.Delivered, done.Failed = "done", 1234, 1234, 0
	cancelled := full
	cancelled.Status = "cancelled"
	hooks := deliverylog.Webhooks{{Webhook: webhooks.Webhook{ID: "<script>", URL: new("https://x.example/" + hostile)}}}
	views := []any{jobView{}}
	for _, j := range slices.Concat([]job{full}, []job{done, cancelled}) {
		views = append(views, jobView{Job: j, Facts: deliverylog.Describe(j.filter().Get, hooks), MaySend: true, Left: "about 3 min", Failed: againPath, Log: "/console/deliveries"})
	}
	return map[string][]any{
		"list.html": {listView{}, listView{Rows: []row{{full, summary(full, hooks)}, {done, ""}}, Paging: console.Paging{Older: "?a"}}},
		"job.html":  views,
	}
}
