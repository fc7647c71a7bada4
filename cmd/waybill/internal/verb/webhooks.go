package verb

import (
	"net/http"

	"waybill.dev/shared/domain"
)

// onceSecret is said when an answer shows a signing secret.
const onceSecret = "The signing secret is shown only now. The receiver needs it to check callbacks."

func webhookArg() []Arg {
	return []Arg{{Word: "WEBHOOK-ID", To: "id", List: webhooksPath, ID: "id"}}
}

// webhookFields returns the flags that registration and change have in common.
func webhookFields() []Flag {
	return []Flag{
		{Name: "description", Usage: "what it is for"},
		webhookAuth(),
		{Name: "header", Usage: "header for its callbacks, `name=value`; may be repeated", Kind: Pairs, To: "headers"},
		{
			Name: "retry-schedule", Usage: "waits in seconds after each failed attempt, a `list`", Kind: Numbers,
			To: "retryScheduleSeconds",
		},
		{Name: "timeout", Usage: "how long to wait for an answer, 1s to 30s", Kind: Seconds, To: "timeoutSeconds"},
		{Name: "max-in-flight", Usage: "how many callbacks may be in flight at once", Kind: Integer, To: "maxInFlight"},
		{Name: "rate-per-second", Usage: "most callbacks a second; none: no limit", Kind: Rate, To: "ratePerSecond"},
		{Name: "signing", Usage: "v1: with the secret, v1a: with the account's key, or both", Choices: words(domain.Signings())},
		{Name: "ordering", Usage: "in which order callbacks go out: none, or shipment: one after the other for each shipment", Choices: words(domain.Orderings())},
		{Name: "ordering-max-wait", Usage: "how long one waits for the one before it, up to 168h; 0s: for ever", Kind: Seconds, To: "orderingMaxWaitSeconds"},
		{Name: "filter", Usage: "which events it gets, a `FILE` with JSON, or -; none: all", In: InVerb},
		{Name: "delivery", Usage: "push: events are sent; pull: the receiver reads the feed, and needs no URL", Choices: []string{"push", "pull"}},
		{Name: "active", Usage: "whether callbacks are sent; =false: they are held", Kind: Bool},
	}
}

func eventsFlag(usage string) Flag {
	return Flag{Name: "events", Usage: usage, Kind: Words, Choices: webhookTypes()}
}

func webhookView() View {
	return View{None: "There are no webhooks.", Columns: []Column{
		{Title: "ID", Member: "id", Form: Ident},
		{Title: "ACTIVE", Member: "active", Form: YesNo, Spare: true},
		{Title: "URL", Member: "url", Form: Link, Shrinks: true, Least: 18},
		{Title: "EVENTS", Member: "events", Form: Types, Shrinks: true},
		{Title: "STATE", Member: stateMember, Shrinks: true},
		{Title: "SECRET", Member: "secret"},
		{Title: "DISABLED", Member: "disabledReason", Wide: true},
		{Title: "FAULT", Member: "fault", Wide: true},
		{Title: "DESCRIPTION", Member: "description", Wide: true},
		{Title: "HEADERS", Member: "headerNames", Form: Joined, Wide: true},
		{Title: "AUTH", Member: "authType", Wide: true},
		{Title: "RETRIES", Member: "retryScheduleSeconds", Form: Joined, Wide: true},
		{Title: "TIMEOUT", Member: "timeoutSeconds", Form: Span, Wide: true},
		{Title: "IN FLIGHT", Member: "maxInFlight", Wide: true},
		{Title: "RATE", Member: "ratePerSecond", Null: "none", Wide: true},
		{Title: "SIGNING", Member: "signing", Wide: true},
		{Title: "ORDERING", Member: "ordering", Wide: true},
		{Title: "MAX WAIT", Member: "orderingMaxWaitSeconds", Form: Span, Wide: true},
		{Title: "FILTER", Member: "filter", Wide: true, Rare: true},
		{Title: "DELIVERY", Member: "delivery", Wide: true},
		{Title: "RECEIVER'S CERTIFICATE ENDS", Member: "receiverCertificateExpiresAt", Form: Moment, Wide: true, Rare: true},
		{Title: "PREVIOUS SECRET ENDS", Member: "previousSecretExpiresAt", Form: Moment, Wide: true, Rare: true},
		{Title: "CREATED", Member: "createdAt", Form: Moment, Wide: true},
		{Title: "UPDATED", Member: "updatedAt", Form: Moment, Wide: true},
	}}
}

func webhooks() Noun {
	view := webhookView()
	return Noun{
		Name: Webhooks, Short: "Register, change, test and delete webhooks",
		Long: "A webhook is a URL that gets a signed callback for each event of its types.",
		Verbs: append([]Verb{
			{
				Name: "list", Short: "List the webhooks, the oldest first, with their health",
				Example: "  waybill webhooks list\n  waybill webhooks list --troubled",
				Method:  http.MethodGet, Path: webhooksPath,
				Flags:  concat(paging(), []Flag{{Name: "troubled", Usage: "only those that are not healthy or idle", Kind: Bool, In: InQuery}}),
				Adjust: func(r *Request, _ *Input) error { r.Query.Set("include", "health"); return nil },
				Show:   view, More: stateOfWebhooks,
			},
			{
				Name: "create", Short: "Register a webhook",
				Long: "Registers a webhook and prints its signing secret, this one time.",
				Example: "  waybill webhooks create https://example.com/hooks\n" +
					"  waybill webhooks create https://example.com/hooks \\\n    --events shipment.delivered --timeout 5s --retry-schedule 5,60,600",
				Method: http.MethodPost, Path: webhooksPath, Args: []Arg{{Word: "URL", To: "url", URL: true, Flag: "url", Optional: true}}, Body: AnObject,
				Flags: concat([]Flag{
					{Name: "url", Usage: "the `URL`, if it is not given as an argument", In: InVerb},
					eventsFlag("event types, a `list`; default all four"),
					{Name: "secret", Usage: "signing secret, whsec_…; default a new one"},
				}, webhookFields()),
				Adjust: newWebhook, Show: view, Once: onceSecret,
			},
			{
				Name: "get", Short: "Show a webhook", Example: "  waybill webhooks get 0198e5c2-…",
				Method: http.MethodGet, Path: webhooksPath + "/{id}", Args: webhookArg(), Show: view,
			},
			{
				Name: "update", Short: "Change a webhook",
				Long:    "Changes the fields that you give. The change holds for every event that is\naccepted after the command is done.",
				Example: "  waybill webhooks update 0198e5c2-… --active=false\n  waybill webhooks update 0198e5c2-… --url https://example.com/v2",
				Method:  http.MethodPatch, Path: webhooksPath + "/{id}", Args: webhookArg(), Body: AnObject,
				Flags: concat([]Flag{
					{Name: "url", Usage: "the new `URL`", Kind: Address, Former: "target"}, eventsFlag("event types, a `list`"),
				}, webhookFields()),
				Adjust: webhookFiles, Show: view,
			},
			{
				Name: "delete", Short: "Delete a webhook; its delivery log stays", Example: "  waybill webhooks delete 0198e5c2-…",
				Method: http.MethodDelete, Path: webhooksPath + "/{id}", Args: webhookArg(),
				Done: "Webhook {id} is deleted. Its undelivered deliveries have failed.", Confirm: "Delete webhook {id}? Its undelivered deliveries fail.",
			},
		}, webhookActions()...),
	}
}

// webhookActions returns the actions on a webhook.
func webhookActions() []Verb {
	return []Verb{
		webhookHealth(), filterTest(),
		{
			Name: "rotate", Short: "Make a new signing secret",
			Long:    "Makes a new signing secret and prints it, this one time. Until the overlap ends,\ncallbacks carry both signatures.",
			Example: "  waybill webhooks rotate 0198e5c2-…\n  waybill webhooks rotate 0198e5c2-… --overlap 1h",
			Method:  http.MethodPost, Path: webhooksPath + "/{id}/rotate-secret", Args: webhookArg(), Body: Optional,
			Flags: []Flag{{Name: "overlap", Usage: "how long the old secret signs too; default 24h, at most 168h", Kind: Seconds, To: "overlapSeconds"}},
			Show: View{Columns: []Column{
				{Title: "SECRET", Member: "secret"},
				{Title: "PREVIOUS ENDS", Member: "previousSecretExpiresAt", Form: Moment},
			}}, Once: onceSecret,
		},
		{
			Name: "acknowledge", Short: "Say that you know of what is the matter with a webhook",
			Long:    "The webhook's problem is quiet until its cause changes, or until it recovers and\nfails anew; with --mute-until, until then, whatever the cause.",
			Example: "  waybill webhooks acknowledge 0198e5c2-…\n  waybill webhooks acknowledge 0198e5c2-… --mute-until 8h",
			Method:  http.MethodPut, Path: webhooksPath + "/{id}/acknowledgement", Args: webhookArg(), Body: Optional,
			Flags: []Flag{{Name: "mute-until", Usage: "a `time`, or how long from now, such as 8h; at most 90 days", Kind: Future, To: "mutedUntil"}},
			Show: View{Columns: []Column{
				{Title: "BY", Member: "by"},
				{Title: "AT", Member: "at", Form: Moment},
				{Title: "MUTED UNTIL", Member: "mutedUntil", Form: Moment},
			}},
		},
		{
			Name: "reopen", Short: "Take an acknowledgement back", Example: "  waybill webhooks reopen 0198e5c2-…",
			Method: http.MethodDelete, Path: webhooksPath + "/{id}/acknowledgement", Args: webhookArg(), Done: "The problem of webhook {id} is not quiet any more.",
		},
		{
			Name: "test", Short: "Send a sample event to a webhook",
			Long: "Sends a sample event to a webhook, also to one that is inactive. With --forge it\n" +
				"is one that a good receiver refuses: the answer is waited for, and judged.",
			Example: "  waybill webhooks test 0198e5c2-… --type shipment.delivered\n  waybill webhooks test 0198e5c2-… --file data.json\n" +
				"  waybill webhooks test 0198e5c2-… --forge wrongSecret",
			Method: http.MethodPost, Path: webhooksPath + "/{id}/test", Args: webhookArg(), Body: Optional,
			Flags: []Flag{
				{Name: "type", Usage: "event type; default the webhook's first", Choices: eventTypes()},
				{Name: "file", Usage: "the data to send instead of a sample's, a `FILE` with JSON, or -", In: InVerb},
				{Name: "forge", Usage: "what a good receiver refuses: wrongSecret or oldTime", Choices: []string{"wrongSecret", "oldTime"}},
			},
			Adjust: withData, Judged: func(in *Input) bool { return in.Text("forge") != "" },
			Show: View{Columns: []Column{{Title: "DELIVERY", Member: "deliveryId"}}},
		},
		{
			Name: "replay", Short: "Send the deliveries of a time range again",
			Example: "  waybill webhooks replay 0198e5c2-… --since 24h\n  waybill webhooks replay 0198e5c2-… --since 2h --until 1h --status all\n  waybill webhooks replay 0198e5c2-… --since 24h --dry-run",
			Method:  http.MethodPost, Path: webhooksPath + "/{id}/replay", Args: webhookArg(), Body: AnObject,
			Flags: concat([]Flag{
				{Name: "since", Usage: "a `time`, or how long ago, such as 24h", Kind: Past, Required: true},
				{Name: "until", Usage: "a `time`, or how long ago; default now", Kind: Past},
				{Name: "status", Usage: "undelivered, failed or all; default undelivered", Choices: []string{"undelivered", "failed", "all"}},
			}, resendFilters(), []Flag{dryRun()}),
			Show: View{Columns: madeColumns("REPLAY")}, Wait: true,
		},
	}
}
