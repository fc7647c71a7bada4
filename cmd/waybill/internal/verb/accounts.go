package verb

import "net/http"

func accounts() Noun {
	view := View{None: "There are no accounts.", Columns: append([]Column{
		{Title: "NAME", Member: "name"}, {Title: "ID", Member: "id"}, {Title: "KEY", Member: "key"},
	}, made()...)}
	return Noun{
		Name: "accounts", Short: "List, make, show and recover accounts",
		Long: "An account owns webhooks, events, deliveries and key buckets. It sees nothing of\nother accounts. Only the bootstrap key makes accounts and sees all of them.",
		Verbs: []Verb{
			{
				Name: "list", Short: "List the accounts that the key may see", Example: "  waybill accounts list",
				Method: http.MethodGet, Path: "/v1/accounts", Flags: paging(), Show: view,
			},
			{
				Name: "create", Short: "Make an account with an admin key", Example: "  waybill accounts create northwind",
				Long:   "Makes an account and prints an admin key for it, this one time. A name has 1 to\n64 characters of a-z 0-9 -.",
				Method: http.MethodPost, Path: "/v1/accounts", Args: []Arg{newName("NAME")}, Body: AnObject,
				Show: view, Once: onceKey,
			},
			{
				Name: "get", Short: "Show an account", Example: "  waybill accounts get northwind",
				Method: http.MethodGet, Path: "/v1/accounts/{accountName}",
				Args: []Arg{{Word: "NAME", To: "accountName", List: "/v1/accounts", ID: "name"}}, Show: view,
			},
			{
				Name: "recover", Short: "Make an admin key for an account that has lost its own",
				Long:    "Makes another admin key for an account and prints it, this one time. Only the\nbootstrap key may do that. The audit logs of both accounts show it.",
				Example: "  waybill accounts recover northwind",
				Method:  http.MethodPost, Path: "/v1/accounts/{accountName}/admin-keys",
				Args: []Arg{{Word: "NAME", To: "accountName", List: "/v1/accounts", ID: "name"}},
				Show: View{Columns: []Column{{Title: "KEY", Member: "key"}, {Title: "ID", Member: "id"}}}, Once: onceKey,
			},
		},
	}
}

func projects() Noun {
	view := View{None: "There are no projects.", Columns: append([]Column{
		{Title: "NAME", Member: "name"}, {Title: "ACCOUNT", Member: "accountName", Spare: true}, {Title: "PRODUCTION", Member: "productionBranch"}, {Title: "ID", Member: "id", Wide: true},
	}, made()...)}
	return Noun{
		Name: "projects", Short: "List, make, show and change projects",
		Long: "A project comes with three key buckets: NAME-production, NAME-preview and\nNAME-working-copy.",
		Verbs: []Verb{
			{
				Name: "list", Short: "List the projects of the account", Example: "  waybill projects list",
				Method: http.MethodGet, Path: projectsPath, Flags: paging(), Show: view,
			},
			{
				Name: "get", Short: "Show a project", Example: "  waybill projects get parcels",
				Method: http.MethodGet, Path: projectsPath + "/{projectName}",
				Args: []Arg{projectArg("NAME")}, Show: view,
			},
			{
				Name: "update", Short: "Say which branch of a project is production",
				Long:    "The other branches are previews, but for working-copy, which is the development\nenvironment. A change counts from each branch's next build.",
				Example: "  waybill projects update parcels --production-branch release",
				Method:  http.MethodPatch, Path: projectsPath + "/{projectName}", Args: []Arg{projectArg("NAME")}, Body: AnObject,
				Flags: []Flag{{Name: "production-branch", Usage: "the `branch` that is production", To: "productionBranch"}}, Show: view,
			},
			{
				Name: "create", Short: "Make a project and its three buckets", Example: "  waybill projects create parcels",
				Long:   "Makes a project with its buckets NAME-production, NAME-preview and\nNAME-working-copy, all or none. A name has 1 to 100 characters of a-z 0-9 -.",
				Method: http.MethodPost, Path: "/v1/projects", Args: []Arg{newName("NAME")}, Body: AnObject, Show: view,
			},
		},
	}
}

func audit() Noun {
	return Noun{
		Name: "audit", Short: "Read the audit log",
		Long: "The audit log has every change that was made or refused through the API in the\nlast 90 days. Reading it needs an admin key.",
		Verbs: []Verb{{
			Name: "list", Short: "List changes, the newest first",
			Example: "  waybill audit list\n  waybill audit list --since 24h --success=false\n  waybill audit list --action delete-bucket -o json",
			Method:  http.MethodGet, Path: accountPath + "/audit-logs",
			Flags: concat([]Flag{
				{Name: "action", Usage: "only changes of this kind, such as create-bucket", In: InQuery},
				{Name: "actor", Usage: "only changes by this `sub`, such as partners/acme", In: InQuery},
				{Name: "success", Usage: "only changes that were made; =false: only refused ones", Kind: Bool, In: InQuery},
			}, span("startDate", "endDate"), []Flag{
				{Name: "limit", Usage: "how many to list, at most 100; default 20", Kind: Integer, In: InQuery},
				{Name: "offset", Usage: "how many to skip", Kind: Integer, In: InQuery},
			}),
			Show: View{None: "The audit log has no such entry.", Columns: []Column{
				{Title: "TIME", Member: "timestamp", Form: Moment},
				{Title: "ACTION", Member: "action"},
				{Title: "ACTOR", Member: "actor.sub", Shrinks: true},
				{Title: "RESOURCES", Member: "resources", Form: Things, Shrinks: true},
				{Title: "DONE", Member: "success", Form: YesNo},
			}},
		}},
	}
}
