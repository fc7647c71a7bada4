package verb

import (
	"net/http"

	"waybill.dev/shared/domain"
)

func scoping() []Flag {
	return []Flag{{
		Name: "scope", Usage: "what its keys may do, a `list` or repeated:\n" +
			"webhooks:read, webhooks:write, events:read, events:write, buckets:read, buckets:write, mcp:use, admin",
		Kind: Words, To: "scopes", Choices: words(domain.Scopes()),
	}}
}

func metadata() []Flag {
	return []Flag{{Name: "metadata", Usage: "an object in `json`, stored as it is", Kind: Object}}
}

func consumerView() View {
	return View{
		None: "There are no such consumers.",
		Columns: append([]Column{
			{Title: "NAME", Member: "name"},
			{Title: "ID", Member: "id", Wide: true},
			{Title: "SCOPES", Member: "scopes", Form: Joined, Shrinks: true},
			{Title: "KEYS", Member: "apiKeys", Form: Count},
			{Title: "MANAGERS", Member: "managers", Form: Count},
			taggedAs(), describedAs(),
			{Title: "METADATA", Member: "metadata", Form: JSON, Wide: true},
		}, made()...),
		Parts: []Part{
			{Title: "API KEYS", Member: "apiKeys", Columns: keyColumns()},
			{Title: "MANAGERS", Member: "managers", Columns: managerColumns()},
		},
	}
}

func consumers() Noun {
	view, one := consumerView(), []Arg{bucketArg(), consumerArg()}
	return Noun{
		Name: "consumers", Short: "List, make, change and delete the holders of keys",
		Long: "A consumer holds API keys, and its scopes say what they may do.",
		Verbs: []Verb{
			{
				Name: "list", Short: "List the consumers of a bucket",
				Example: "  waybill consumers list partners\n  waybill consumers list partners --include-api-keys --tag plan=gold",
				Method:  http.MethodGet, Path: bucketPath + "/consumers", Args: []Arg{bucketArg()},
				Flags: concat(having(), []Flag{{Name: "search", Usage: "only those with this `text` in their name or description", To: "q", In: InQuery},
					{Name: "manager-email", Usage: "only those with this manager", In: InQuery},
				}, including(), paging()),
				Show: view,
			},
			{
				Name: "create", Short: "Make a consumer",
				Long: "Makes a consumer. A name has 1 to 128 characters of a-z 0-9 -. Without --scope\nits keys may only ask whoami. You can't give scopes that you do not have.",
				Example: "  waybill consumers create partners acme --scope events:write,events:read\n" +
					"  waybill consumers create partners acme --with-api-key \\\n    --metadata '{\"plan\":\"gold\"}'",
				Method: http.MethodPost, Path: bucketPath + "/consumers", Args: newConsumer(), Body: AnObject,
				Flags: concat(scoping(), describing(), tagging(), metadata(), []Flag{
					{Name: "manager", Usage: "`email` of a manager, a list or repeated", Kind: Words, To: "managers"},
					{Name: "with-api-key", Usage: "make its first key too", Kind: Bool, In: InQuery},
				}),
				Show: view, Once: onceConsumersKey,
			},
			{
				Name: "get", Short: "Show a consumer", Example: "  waybill consumers get partners acme --include-api-keys",
				Method: http.MethodGet, Path: consumerPath, Args: one, Flags: concat(including(), onlyIf()), Show: view,
			},
			{
				Name: "update", Short: "Change a consumer",
				Long:    "Changes the fields that you give. Scopes, tags and metadata are replaced as a\nwhole. New scopes hold for existing keys too.",
				Example: "  waybill consumers update partners acme --scope events:read\n  waybill consumers update partners acme --tag plan=gold",
				Method:  http.MethodPatch, Path: consumerPath, Args: one, Body: AnObject,
				Flags: concat(scoping(), describing(), retagging(), metadata(), onlyIf()), Show: view,
			},
			{
				Name: "delete", Short: "Delete a consumer with its keys", Example: "  waybill consumers delete partners acme",
				Method: http.MethodDelete, Path: consumerPath, Args: one, Flags: onlyIf(),
				Done:    "Consumer {consumerName} is deleted, with its keys.",
				Confirm: "Delete consumer {consumerName} with its keys?",
			},
			rollKeys("consumers"),
		},
	}
}

func managerColumns() []Column {
	return []Column{
		{Title: "ID", Member: "id", Form: Ident},
		{Title: "EMAIL", Member: "email", Shrinks: true},
		{Title: "SUB", Member: "sub", Shrinks: true, Spare: true},
		{Title: "ACCEPTED", Member: "acceptedOn", Form: Moment},
		{Title: "CREATED", Member: "createdOn", Form: Moment, Wide: true},
	}
}

func managers() Noun {
	view := View{None: "The consumer has no managers.", Columns: managerColumns()}
	path, one := consumerPath+"/managers", []Arg{bucketArg(), consumerArg()}
	return Noun{
		Name: "managers", Short: "List, invite and delete the managers of a consumer",
		Long: "A manager is a person who looks after a consumer in the console,\nwith its scopes. Who is invited counts once they have accepted, when they sign\nin there.",
		Verbs: []Verb{
			{
				Name: "list", Short: "List the managers of a consumer", Example: "  waybill managers list partners acme",
				Method: http.MethodGet, Path: path, Args: one, Flags: concat(onlyIf(), paging()), Show: view,
			},
			{
				Name: "create", Short: "Invite a manager", Example: "  waybill managers create partners acme ada@example.com --sub ada",
				Method: http.MethodPost, Path: path, Args: append(one[:2:2], Arg{Word: "EMAIL", To: "email"}), Body: AnObject,
				Flags: concat([]Flag{{Name: "sub", Usage: "id of the manager at their identity provider", Required: true}}, onlyIf()), Show: view,
			},
			{
				Name: "get", Short: "Show a manager", Example: "  waybill managers get partners acme eusr_…",
				Method: http.MethodGet, Path: path + "/{managerId}", Args: append(one[:2:2], Arg{Word: "MANAGER-ID", To: "managerId", List: path, ID: "id"}), Show: view,
			},
			{
				Name: "delete", Short: "Delete a manager", Example: "  waybill managers delete partners acme eusr_…",
				Method: http.MethodDelete, Path: path + "/{managerId}",
				Args: append(one[:2:2], Arg{Word: "MANAGER-ID", To: "managerId", List: path, ID: "id"}), Flags: onlyIf(),
				Done: "Manager {managerId} is deleted.", Confirm: "Delete manager {managerId}?",
			},
		},
	}
}
