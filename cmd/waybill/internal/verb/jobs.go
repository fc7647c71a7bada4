package verb

import (
	"net/http"
	"net/url"

	"waybill.dev/shared/domain"
)

const jobsPath = "/v1/jobs"

// dryRun returns the flag that makes an operation only show a preview.
func dryRun() Flag {
	return Flag{Name: "dry-run", Usage: "only say what it would do", Kind: Bool, To: "dryRun"}
}

// madeColumns returns the columns of a new job, or of its preview.
func madeColumns(title string) []Column {
	return []Column{
		{Title: title, Member: "id"},
		{Title: "DELIVERIES", Member: "matched"},
		{Title: "MAY BE MORE", Member: "more"},
		{Title: "NONE BECAUSE", Member: "reason"},
		{Title: "OLDEST", Member: "oldest", Form: Moment},
		{Title: "ARRIVE TWICE", Member: "alreadyDelivered"},
		{Title: "TAKES ABOUT", Member: "estimatedSeconds", Form: Span},
	}
}

func jobColumns() []Column {
	return []Column{
		{Title: "ID", Member: "id", Form: Ident},
		{Title: "KIND", Member: "kind"},
		{Title: "STATUS", Member: "status"},
		{Title: "CREATED", Member: "createdAt", Form: Moment},
		{Title: "MATCHED", Member: "matched"},
		{Title: "SENT", Member: "sent"},
		{Title: "DELIVERED", Member: "delivered"},
		{Title: "FAILED", Member: "failed"},
		{Title: "BY", Member: "createdBy", Shrinks: true, Spare: true},
		{Title: "FILTER", Member: "filter", Form: JSON, Wide: true},
	}
}

// retryMany returns the verb that sends the deliveries of a filter again.
func retryMany() Verb {
	return Verb{
		Name: "retry-all", Short: "Send all deliveries that a filter selects again",
		Long: "Sends deliveries again in the background, by a job. At least one filter must be\n" +
			"given. Without --status it sends what is undelivered: what failed, and what\n" +
			"waits for its next attempt. --dry-run only says how many there are. --wait\n" +
			"follows the job to its end, and fails when a delivery of it does.",
		Example: "  waybill deliveries retry-all --since 6h --dry-run\n  waybill deliveries retry-all --webhook 0198e5c2-… --status failed\n" +
			"  waybill deliveries retry-all --class timeout --since 1h --wait",
		Method: http.MethodPost, Path: deliveriesPath + "/retry", Body: AnObject,
		Flags: concat([]Flag{
			{Name: "webhook", Usage: "only to the webhook with this `id`", To: "webhookId", List: webhooksPath},
			{
				Name: "status", Usage: "undelivered, all, or a status; default undelivered",
				Choices: append([]string{"undelivered", "all"}, words(domain.Statuses())...),
			},
			{Name: "since", Usage: "a `time`, or how long ago, such as 24h", Kind: Past},
			{Name: "until", Usage: "a `time`, or how long ago; default now", Kind: Past},
		}, resendFilters(), []Flag{dryRun()}),
		Show: View{Columns: madeColumns("JOB")}, Wait: true,
	}
}

// resendFilters returns the flags that select the deliveries to send again.
func resendFilters() []Flag {
	return []Flag{
		{Name: "event", Usage: "only of the event with this `id`", To: "eventId"},
		{Name: "type", Usage: "only of this event type", To: "eventType", Choices: webhookTypes()},
		{Name: "shipment", Usage: "only of the shipment with this `id`", To: "shipmentId"},
		{Name: "reason", Usage: "only with this reason", Choices: domain.Reasons()},
		{Name: "class", Usage: "how the last attempt ended", Choices: words(domain.Classes())},
		{Name: "code", Usage: "HTTP status of the last attempt", Kind: Integer, To: "statusCode"},
		{Name: "test", Usage: "only tests; --test=false: no tests", Kind: Bool},
	}
}

// JobView shows a job.
func JobView() View { return View{Columns: jobColumns()} }

// JobPath returns the path of a job.
func JobPath(id string) string { return jobsPath + "/" + url.PathEscape(id) }

func jobs() Noun {
	one := []Arg{{Word: "JOB-ID", To: "id", List: jobsPath, ID: "id"}}
	return Noun{
		Name: "jobs", Short: "List, show and cancel retries and replays of many deliveries",
		Long: "A job sends many deliveries again in the background. `waybill deliveries\nretry-all` and `waybill webhooks replay` make jobs.",
		Verbs: []Verb{
			{
				Name: "list", Short: "List jobs, the newest first", Example: "  waybill jobs list",
				Method: http.MethodGet, Path: jobsPath, Flags: scrolling(),
				Show: View{None: "There are no jobs.", Columns: jobColumns()},
			},
			{
				Name: "get", Short: "Show a job with its progress", Example: "  waybill jobs get 0198e5d0-…",
				Method: http.MethodGet, Path: jobsPath + "/{id}", Args: one, Show: JobView(),
			},
			{
				Name: "cancel", Short: "Send nothing more of a job", Long: "What was sent goes on. A job that is over stays as it is.",
				Example: "  waybill jobs cancel 0198e5d0-…",
				Method:  http.MethodDelete, Path: jobsPath + "/{id}", Args: one, Show: JobView(),
				Confirm: "Send nothing more of the job {id}?",
			},
		},
	}
}
