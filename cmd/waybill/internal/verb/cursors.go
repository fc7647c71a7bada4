package verb

import (
	"net/http"
	"net/url"
)

// Webhooks is the noun whose commands feed, cursor and reconcile read feeds.
const Webhooks = "webhooks"

// Feed returns the path of a webhook's feed.
func Feed(webhook string) string {
	return fill(webhooksPath+"/{id}/feed", (&Input{Args: []string{webhook}}).names(webhookArg(), url.PathEscape))
}

// WebhookArg is the argument that names a webhook.
func WebhookArg() []Arg {
	arg := webhookArg()
	arg[0].Whole = true
	return arg
}

// Cursors returns the verbs for the named cursors of a webhook's feed.
func Cursors() Noun {
	const path = webhooksPath + "/{id}/cursors"
	named := append(webhookArg(), Arg{Word: "NAME", To: "name", List: path, ID: "name"})
	view := View{None: "There are no cursors.", Columns: []Column{
		{Title: "NAME", Member: "name"},
		{Title: "UPDATED", Member: "updatedAt", Form: Moment},
		{Title: "CURSOR", Member: "cursor"},
	}}
	return Noun{
		Name: "cursor", Short: "Show, set and delete how far a webhook's feed was read",
		Long: "A receiver keeps its place in a webhook's feed under a name, when all before it\nis processed. Explanations then tell whether an event was read.",
		Verbs: []Verb{
			{
				Name: "list", Short: "List the cursors of a webhook", Example: "  waybill webhooks cursor list 0198e5c2-…",
				Method: http.MethodGet, Path: path, Args: webhookArg(), Show: view,
			},
			{
				Name: "get", Short: "Show a cursor", Example: "  waybill webhooks cursor get 0198e5c2-… warehouse",
				Method: http.MethodGet, Path: path + "/{name}", Args: named, Show: view,
			},
			{
				Name: "set", Short: "Set a cursor", Example: "  waybill webhooks cursor set 0198e5c2-… warehouse CURSOR",
				Method: http.MethodPut, Path: path + "/{name}", Args: append(named[:2:2], Arg{Word: "CURSOR", To: "cursor"}), Body: AnObject, Show: view,
			},
			{
				Name: "delete", Short: "Delete a cursor", Example: "  waybill webhooks cursor delete 0198e5c2-… warehouse",
				Method: http.MethodDelete, Path: path + "/{name}", Args: named, Done: "Cursor {name} is deleted.",
				Confirm: "Delete cursor {name}? Who reads by it loses its place.",
			},
		},
	}
}
