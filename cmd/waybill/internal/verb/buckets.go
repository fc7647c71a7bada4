package verb

import "net/http"

func buckets() Noun {
	view := View{None: "There are no such buckets.", Columns: append([]Column{
		{Title: "NAME", Member: "name"},
		{Title: "ID", Member: "id", Wide: true},
		{Title: "RETRIEVABLE", Member: "isRetrievable", Form: YesNo},
		taggedAs(), describedAs(),
	}, made()...)}
	one := []Arg{bucketArg()}
	return Noun{
		Name: "buckets", Short: "List, make, change and delete key buckets",
		Long: "A bucket holds consumers, and these hold API keys.",
		Verbs: []Verb{
			{
				Name: "list", Short: "List the buckets of the account",
				Example: "  waybill buckets list\n  waybill buckets list --tag team=web -o json",
				Method:  http.MethodGet, Path: bucketsPath, Flags: concat(having(), paging()), Show: view,
			},
			{
				Name: "create", Short: "Make a bucket",
				Long: "Makes a bucket. A name has 5 to 128 characters of a-z 0-9 -. You decide now\n" +
					"whether its keys can be shown again: with --retrievable=false, Waybill keeps\nnothing from which a key could be recovered.",
				Example: "  waybill buckets create partners --description 'Keys of our partners'\n" +
					"  waybill buckets create machines --retrievable=false --tag team=web",
				Method: http.MethodPost, Path: bucketsPath, Args: newBucket(), Body: AnObject,
				Flags: concat(describing(), tagging(), []Flag{
					{Name: "retrievable", Usage: "whether its keys can be shown again (default true)", Kind: Bool, To: "isRetrievable"},
				}),
				Show: view,
			},
			{
				Name: "get", Short: "Show a bucket", Example: "  waybill buckets get partners",
				Method: http.MethodGet, Path: bucketPath, Args: one, Flags: onlyIf(), Show: view,
			},
			{
				Name: "update", Short: "Change a bucket's description or tags",
				Example: "  waybill buckets update partners --description 'Keys of all partners'\n  waybill buckets update partners --tag ''",
				Method:  http.MethodPatch, Path: bucketPath, Args: one, Body: AnObject,
				Flags: concat(describing(), retagging(), onlyIf()), Show: view,
			},
			{
				Name: "delete", Short: "Delete a bucket with its consumers and keys",
				Long:    "Deletes a bucket with its consumers, keys and managers. Its keys stop working\nwhen the command is done, in other API processes within a second.",
				Example: "  waybill buckets delete partners\n  waybill buckets delete partners --yes",
				Method:  http.MethodDelete, Path: bucketPath, Args: one, Flags: onlyIf(),
				Done:    "Bucket {bucketName} is deleted, with its consumers and keys.",
				Confirm: "Delete bucket {bucketName} with its consumers and keys?",
			},
		},
	}
}
