package verb

import "net/http"

// onceSecret is said when an answer shows a signing secret.
const onceSecret = "The signing secret is shown this once: its receiver needs it to check callbacks."

func webhookArg() []Arg {
	return []Arg{{Word: "WEBHOOK-ID", To: "id", List: webhooksPath, ID: "id"}}
}

// webhookFields are what registration and change have in common.
func webhookFields() []Flag {
	return []Flag{
		{Name: "description", Usage: "what it is for"},
		{Name: "header", Usage: "header of its callbacks, `name=value`; may be repeated", Kind: Pairs, To: "headers"},
		{
			Name: "retry-schedule", Usage: "seconds to wait after each failed attempt, `list`", Kind: Numbers,
			To: "retryScheduleSeconds",
		},
		{Name: "timeout", Usage: "how long an answer is waited for, 1s to 30s", Kind: Seconds, To: "timeoutSeconds"},
		{Name: "max-in-flight", Usage: "how many callbacks may be under way at once", Kind: Integer, To: "maxInFlight"},
		{Name: "rate-per-second", Usage: "callbacks a second at most; none: no limit", Kind: Rate, To: "ratePerSecond"},
		{Name: "active", Usage: "whether callbacks are sent; =false holds them", Kind: Bool},
	}
}

func webhookEvents(usage string) Flag {
	return Flag{Name: "events", Usage: usage, Kind: Words, Choices: eventTypes()}
}

func webhookView() View {
	return View{None: "There are no webhooks.", Columns: []Column{
		{Title: "ID", Member: "id"},
		{Title: "ACTIVE", Member: "active", Form: YesNo, Spare: true},
		{Title: "URL", Member: "url", Shrinks: true, Least: 18},
		{Title: "EVENTS", Member: "events", Form: Types, Shrinks: true},
		{Title: "STATE", Member: stateMember, Shrinks: true},
		{Title: "SECRET", Member: "secret"},
		{Title: "DISABLED", Member: "disabledReason", Wide: true},
		{Title: "FAULT", Member: "fault", Wide: true},
		{Title: "DESCRIPTION", Member: "description", Wide: true},
		{Title: "HEADERS", Member: "headerNames", Form: Joined, Wide: true},
		{Title: "RETRIES", Member: "retryScheduleSeconds", Form: Joined, Wide: true},
		{Title: "TIMEOUT", Member: "timeoutSeconds", Form: Span, Wide: true},
		{Title: "IN FLIGHT", Member: "maxInFlight", Wide: true},
		{Title: "RATE", Member: "ratePerSecond", Null: "none", Wide: true},
		{Title: "CREATED", Member: "createdAt", Form: Moment, Wide: true},
		{Title: "UPDATED", Member: "updatedAt", Form: Moment, Wide: true},
	}}
}

func webhooks() Noun {
	view := webhookView()
	return Noun{
		Name: "webhooks", Short: "Register, change, test and delete webhooks",
		Long: "A webhook is a URL that gets a signed callback for each event it asked for.",
		Verbs: append([]Verb{
			{
				Name: "list", Short: "List the webhooks, the oldest first", Example: "  waybill webhooks list",
				Method: http.MethodGet, Path: webhooksPath, Flags: paging(), Show: view, More: stateOfWebhooks,
			},
			{
				Name: "create", Short: "Register a webhook",
				Long: "Registers a webhook and prints its signing secret, this once.",
				Example: "  waybill webhooks create https://example.com/hooks\n" +
					"  waybill webhooks create https://example.com/hooks \\\n    --events shipment.delivered --timeout 5s --retry-schedule 5,60,600",
				Method: http.MethodPost, Path: webhooksPath, Args: []Arg{{Word: "URL", To: "url", URL: true, Flag: "url"}}, Body: AnObject,
				Flags: concat([]Flag{
					{Name: "url", Usage: "the `URL`, when it is not given as an argument", In: InVerb},
					webhookEvents("event types, `list`; else all four"),
					{Name: "secret", Usage: "signing secret, whsec_…; else a new one"},
				}, webhookFields()),
				Adjust: allEvents, Show: view, Once: onceSecret,
			},
			{
				Name: "get", Short: "Show a webhook", Example: "  waybill webhooks get 0198e5c2-…",
				Method: http.MethodGet, Path: webhooksPath + "/{id}", Args: webhookArg(), Show: view,
			},
			{
				Name: "update", Short: "Change a webhook",
				Long:    "Changes the fields that are given. The change holds for every event that is\naccepted after the command is done.",
				Example: "  waybill webhooks update 0198e5c2-… --active=false\n  waybill webhooks update 0198e5c2-… --url https://example.com/v2",
				Method:  http.MethodPatch, Path: webhooksPath + "/{id}", Args: webhookArg(), Body: AnObject,
				Flags: concat([]Flag{
					{Name: "url", Usage: "the `URL` that it gets from now on", Kind: Address, Former: "target"}, webhookEvents("event types, `list`"),
				}, webhookFields()),
				Show: view,
			},
			{
				Name: "delete", Short: "Delete a webhook; its log stays", Example: "  waybill webhooks delete 0198e5c2-…",
				Method: http.MethodDelete, Path: webhooksPath + "/{id}", Args: webhookArg(),
				Done: "Webhook {id} is deleted. What was not delivered has failed.", Confirm: "Delete webhook {id}? What is not delivered fails.",
			},
		}, webhookActions()...),
	}
}

// webhookActions are what a webhook can be told to do.
func webhookActions() []Verb {
	return []Verb{
		{
			Name: "rotate", Short: "Make a new signing secret",
			Long:    "Makes a new signing secret and prints it, this once. Until the overlap ends,\ncallbacks carry both signatures.",
			Example: "  waybill webhooks rotate 0198e5c2-…\n  waybill webhooks rotate 0198e5c2-… --overlap 1h",
			Method:  http.MethodPost, Path: webhooksPath + "/{id}/rotate-secret", Args: webhookArg(), Body: Optional,
			Flags: []Flag{{Name: "overlap", Usage: "how long the old one signs too; else 24h, at most 168h", Kind: Seconds, To: "overlapSeconds"}},
			Show: View{Columns: []Column{
				{Title: "SECRET", Member: "secret"},
				{Title: "PREVIOUS ENDS", Member: "previousSecretExpiresAt", Form: Moment},
			}}, Once: onceSecret,
		},
		{
			Name: "test", Short: "Send a sample event to a webhook",
			Example: "  waybill webhooks test 0198e5c2-… --type shipment.delivered",
			Method:  http.MethodPost, Path: webhooksPath + "/{id}/test", Args: webhookArg(), Body: Optional,
			Flags: []Flag{{Name: "type", Usage: "event type; else the first of the webhook's", Choices: eventTypes()}},
			Show:  View{Columns: []Column{{Title: "DELIVERY", Member: "deliveryId"}}},
		},
		{
			Name: "replay", Short: "Send deliveries of a span of time again",
			Example: "  waybill webhooks replay 0198e5c2-… --since 24h\n  waybill webhooks replay 0198e5c2-… --since 2h --until 1h --status all",
			Method:  http.MethodPost, Path: webhooksPath + "/{id}/replay", Args: webhookArg(), Body: AnObject,
			Flags: []Flag{
				{Name: "since", Usage: "a `time`, or how long ago, such as 24h", Kind: Past, Required: true},
				{Name: "until", Usage: "a `time`, or how long ago; else now", Kind: Past},
				{Name: "status", Usage: "undelivered, failed or all; else undelivered", Choices: []string{"undelivered", "failed", "all"}},
			},
			Show: View{Columns: []Column{{Title: "REPLAY", Member: "id"}, {Title: "DELIVERIES", Member: "matched"}}},
		},
	}
}
