package verb

import (
	"net/http"

	"waybill.dev/shared/domain"
)

// Beginnings of the paths of several operations.
const (
	accountPath  = "/v1/accounts/{account}"
	projectsPath = accountPath + "/projects"
	bucketsPath  = accountPath + "/key-buckets"
	bucketPath   = bucketsPath + "/{bucketName}"
	consumerPath = bucketPath + "/consumers/{consumerName}"

	webhooksPath   = "/v1/webhooks"
	eventsPath     = "/v1/events"
	deliveriesPath = "/v1/deliveries"
)

// onceKey is printed when an answer shows a key. onceConsumersKey is printed for a key whose bucket may
// store it.
const (
	onceKey          = "The key is shown in full only now. Keep it where only its user can read it."
	onceConsumersKey = "The key is shown in full only now, unless its bucket keeps keys. Keep it where only its user can read it."
)

func bucketArg() Arg {
	return Arg{Word: "BUCKET", To: "bucketName", List: bucketsPath, ID: "name"}
}

func projectArg(word string) Arg {
	return Arg{Word: word, To: "projectName", List: projectsPath, ID: "name"}
}

func consumerArg() Arg {
	return Arg{Word: "CONSUMER", To: "consumerName", List: bucketPath + "/consumers", ID: "name"}
}

func keyArg() Arg {
	return Arg{Word: "KEY-ID", To: "keyId", List: consumerPath + "/keys?key-format=none", ID: "id"}
}

func newName(word string) Arg { return Arg{Word: word, To: "name"} }

// newBucket and newConsumer are arguments for things that do not exist yet, without completion.
func newBucket() []Arg   { return []Arg{newName("BUCKET")} }
func newConsumer() []Arg { return []Arg{bucketArg(), newName("CONSUMER")} }

// paging returns the flags of lists that have a known length.
func paging() []Flag {
	return []Flag{
		{Name: "limit", Usage: "how many to list, at most 1000", Kind: Integer, In: InQuery},
		{Name: "offset", Usage: "how many to skip", Kind: Integer, In: InQuery},
	}
}

// scrolling returns the flags of lists with a cursor.
func scrolling() []Flag {
	return []Flag{
		{Name: "limit", Usage: "how many to list, at most 1000; default 100", Kind: Integer, In: InQuery},
		{Name: "cursor", Usage: "start of this page: nextCursor in the JSON of the page before", In: InQuery},
	}
}

// span returns the flags of a time range.
func span(since, until string) []Flag {
	return []Flag{
		{Name: "since", Usage: "a `time`, or how long ago, such as 90m", Kind: Past, In: InQuery, To: since},
		{Name: "until", Usage: "a `time`, or how long ago", Kind: Past, In: InQuery, To: until},
	}
}

func describing() []Flag { return []Flag{{Name: "description", Usage: "what it is for"}} }

func tagging() []Flag {
	return []Flag{{Name: "tag", Usage: "a `name=value` of its tags; may be repeated", Kind: Pairs, To: "tags"}}
}

// retagging returns the flags that change existing tags.
func retagging() []Flag {
	return []Flag{{Name: "tag", Usage: "a `name=value`; may be repeated; replaces all tags; empty: none", Kind: Pairs, To: "tags"}}
}

// having filters a list by tags.
func having() []Flag {
	return []Flag{{Name: "tag", Usage: "only those with this tag, `name=value`; may be repeated", Kind: Pairs, In: InQuery}}
}

// onlyIf returns the flag that refuses things without the tags.
func onlyIf() []Flag {
	return []Flag{{Name: "if-tag", Usage: "only if the bucket or consumer has this tag, `name=value`; may be repeated", Kind: Pairs, In: InQuery, To: "tag"}}
}

func keyFormat() []Flag {
	return []Flag{{
		Name: "key-format", Usage: "masked, none, or visible (in full, in a retrievable bucket)", In: InQuery,
		Choices: []string{"masked", "none", "visible"},
	}}
}

// including returns the flags that add the parts of a consumer.
func including() []Flag {
	return concat([]Flag{
		{Name: "include-api-keys", Usage: "with its keys", Kind: Bool, In: InQuery},
		{Name: "include-managers", Usage: "with its managers", Kind: Bool, In: InQuery},
	}, keyFormat())
}

func words[T ~string](list []T) []string {
	var texts []string
	for _, one := range list {
		texts = append(texts, string(one))
	}
	return texts
}

func eventTypes() []string { return words(domain.EventTypes()) }

// webhookTypes returns the types of events and alerts.
func webhookTypes() []string { return words(domain.WebhookTypes()) }

func describedAs() Column {
	return Column{Title: "DESCRIPTION", Member: "description", Shrinks: true, Spare: true}
}
func taggedAs() Column {
	return Column{Title: "TAGS", Member: "tags", Form: Labels, Shrinks: true, Spare: true}
}

// made returns the columns of when a thing was made and changed.
func made() []Column {
	return []Column{
		{Title: "CREATED", Member: "createdOn", Form: Moment, Spare: true},
		{Title: "UPDATED", Member: "updatedOn", Form: Moment, Wide: true},
	}
}

// whoAmI returns a noun that is also its only verb.
func whoAmI() Noun {
	return Noun{Name: "whoami", Self: &Verb{
		Name: "whoami", Short: "Show which account and consumer a key belongs to, and its scopes",
		Long:    "Shows the account of a key, its owner (bucket/consumer, or bootstrap) and its\nscopes.",
		Example: "  waybill whoami\n  WAYBILL_KEY=wbk_… waybill whoami -o json",
		Method:  http.MethodGet, Path: "/v1/who-am-i",
		Show: View{Columns: []Column{
			{Title: "ACCOUNT", Member: "account"}, {Title: "SUB", Member: "sub"}, {Title: "SCOPES", Member: "scopes", Form: Joined}, {Title: "EMAIL", Member: "email"},
		}},
	}}
}
