package verb

import (
	"net/http"
	"slices"
)

const (
	metersPath       = bucketPath + "/meters"
	featuresPath     = bucketPath + "/features"
	plansPath        = bucketPath + "/plans"
	subscriptionPath = consumerPath + "/subscription"
)

// bodyFromFile returns a function for Verb.Adjust. The function makes the request's body from the file that argument
// number at names.
func bodyFromFile(at int) func(*Request, *Input) error {
	return func(r *Request, in *Input) error {
		text, err := in.Read(in.Args[at])
		r.Body = text
		return err
	}
}

func fileArg() Arg { return Arg{Word: "FILE", To: "file", File: true} }

func meteringStamps() []Column { return []Column{{Title: "MADE", Member: "createdAt", Form: Moment}} }

func meters() Noun {
	view := View{None: "The bucket has no meters.", Columns: slices.Concat([]Column{
		{Title: "SLUG", Member: "slug"}, {Title: "NAME", Member: "name"}, {Title: "AGGREGATION", Member: "aggregation"}, {Title: "EVENT TYPE", Member: "eventType"},
	}, meteringStamps())}
	values := View{Rows: "data", None: "Nothing was counted.", Columns: []Column{
		{Title: "FROM", Member: "windowStart", Form: Mark}, {Title: "TO", Member: "windowEnd", Form: Mark}, {Title: "CONSUMER", Member: "subject"}, {Title: "VALUE", Member: "value"},
	}}
	one := []Arg{bucketArg(), {Word: "METER", To: "meterIdOrSlug", List: metersPath, ID: "slug"}}
	path := metersPath + "/{meterIdOrSlug}"
	return Noun{
		Name: "meters", Short: "Count what consumers use",
		Long: "Meters count the requests that the policy metering-inbound lets pass, and the\ndeliveries to the webhooks of consumers.",
		Verbs: []Verb{
			{Name: "list", Short: "List the meters of a bucket", Example: "  waybill meters list partners", Method: http.MethodGet, Path: metersPath, Args: one[:1:1], Flags: paging(), Show: view},
			{
				Name: "create", Short: "Make a meter, from a file", Example: "  waybill meters create partners meter.json",
				Long:   "Makes a meter of a JSON object with slug, aggregation, eventType and so on.\n-: standard input.",
				Method: http.MethodPost, Path: metersPath, Args: []Arg{bucketArg(), fileArg()}, Adjust: bodyFromFile(1), Show: view,
			},
			{Name: "get", Short: "Show a meter", Example: "  waybill meters get partners api_requests", Method: http.MethodGet, Path: path, Args: one, Show: view},
			{
				Name: "update", Short: "Change the name, texts and groups of a meter, from a file", Example: "  waybill meters update partners api_requests meter.json",
				Method: http.MethodPut, Path: path, Args: append(one[:2:2], fileArg()), Adjust: bodyFromFile(2), Show: view,
			},
			{
				Name: "query", Short: "Show what a meter has counted", Example: "  waybill meters query partners api_requests --window DAY --group subject",
				Method: http.MethodGet, Path: path + "/query", Args: one, Show: values,
				Flags: []Flag{
					{Name: "from", Usage: "count events from this full hour on (RFC 3339)", In: InQuery}, {Name: "to", Usage: "count events before this full hour", In: InQuery},
					{Name: "window", Usage: "HOUR, DAY or MONTH; default: the whole time", To: "windowSize", In: InQuery},
					{Name: "consumer", Usage: "the name of a consumer; default: all", To: "subject", In: InQuery},
					{Name: "group", Usage: "a group of the meter, subject or customer_id", To: "groupBy", In: InQuery},
				},
			},
			{
				Name: "values", Short: "List the values that a group of a meter has had", Example: "  waybill meters values partners api_requests route",
				Method: http.MethodGet, Path: path + "/group-by/{groupByKey}/values", Args: append(one[:2:2], Arg{Word: "GROUP", To: "groupByKey"}),
				Flags: []Flag{
					{Name: "from", Usage: "of events from this full hour on (RFC 3339)", In: InQuery}, {Name: "to", Usage: "of events before this full hour", In: InQuery},
				},
				Show: View{None: "The group has had no value.", Columns: []Column{{Title: "VALUE", Member: "value"}}},
			},
			{
				Name: "delete", Short: "Remove a meter", Example: "  waybill meters delete partners api_requests", Method: http.MethodDelete, Path: path, Args: one,
				Done: "Meter {meterIdOrSlug} is removed.", Confirm: "Remove meter {meterIdOrSlug}? It counts nothing from now on.",
			},
		},
	}
}

func features() Noun {
	view := View{None: "The bucket has no features.", Columns: slices.Concat([]Column{
		{Title: "ID", Member: "id", Form: Ident}, {Title: "KEY", Member: "key"}, {Title: "NAME", Member: "name"}, {Title: "METER", Member: "meterSlug"},
	}, meteringStamps())}
	one := []Arg{bucketArg(), {Word: "FEATURE-ID", To: "featureId", List: featuresPath, ID: "id"}}
	path := featuresPath + "/{featureId}"
	return Noun{
		Name: "features", Short: "Say what plans may include", Long: "A feature with a meter is metered.",
		Verbs: []Verb{
			{Name: "list", Short: "List the features of a bucket", Example: "  waybill features list partners", Method: http.MethodGet, Path: featuresPath, Args: one[:1:1], Flags: paging(), Show: view},
			{
				Name: "create", Short: "Make a feature", Example: "  waybill features create partners calls --name Calls --meter api_requests",
				Method: http.MethodPost, Path: featuresPath, Args: []Arg{bucketArg(), {Word: "KEY", To: "key"}}, Body: AnObject, Show: view,
				Flags: []Flag{{Name: "name", Usage: "name for people", Required: true}, {Name: "meter", Usage: "slug of its meter; default: none", To: "meterSlug"}},
			},
			{Name: "get", Short: "Show a feature", Example: "  waybill features get partners 01K…", Method: http.MethodGet, Path: path, Args: one, Show: view},
			{
				Name: "delete", Short: "Archive a feature", Example: "  waybill features delete partners 01K…", Method: http.MethodDelete, Path: path, Args: one,
				Done: "Feature {featureId} is archived.", Confirm: "Archive feature {featureId}? New plans can't have it any more.",
			},
		},
	}
}

func plans() Noun {
	view := View{None: "The bucket has no plans.", Columns: slices.Concat([]Column{
		{Title: "ID", Member: "id", Form: Ident}, {Title: "KEY", Member: "key"}, {Title: "VERSION", Member: "version"}, {Title: "NAME", Member: "name"}, {Title: "STATUS", Member: "status"},
	}, meteringStamps())}
	one := []Arg{bucketArg(), {Word: "PLAN-ID", To: "planId", List: plansPath, ID: "id"}}
	path := plansPath + "/{planId}"
	return Noun{
		Name: "plans", Short: "Say what consumers may use", Long: "A plan goes from draft to active to archived. Only drafts change.",
		Verbs: []Verb{
			{Name: "list", Short: "List the plans of a bucket", Example: "  waybill plans list partners", Method: http.MethodGet, Path: plansPath, Args: one[:1:1], Flags: paging(), Show: view},
			{
				Name: "create", Short: "Make the next version of a plan, from a file", Example: "  waybill plans create partners plan.json",
				Method: http.MethodPost, Path: plansPath, Args: []Arg{bucketArg(), fileArg()}, Adjust: bodyFromFile(1), Show: view,
			},
			{Name: "get", Short: "Show a plan", Example: "  waybill plans get partners 01K… -o json", Method: http.MethodGet, Path: path, Args: one, Show: view},
			{
				Name: "update", Short: "Replace what a draft says, from a file", Example: "  waybill plans update partners 01K… plan.json",
				Method: http.MethodPut, Path: path, Args: append(one[:2:2], fileArg()), Adjust: bodyFromFile(2), Show: view,
			},
			{Name: "publish", Short: "Make an active plan of a draft", Example: "  waybill plans publish partners 01K…", Method: http.MethodPost, Path: path + "/publish", Args: one, Show: view},
			{
				Name: "archive", Short: "Archive an active plan", Example: "  waybill plans archive partners 01K…", Method: http.MethodPost, Path: path + "/archive", Args: one, Show: view,
				Confirm: "Archive plan {planId}? Consumers who have it keep it.",
			},
			{
				Name: "delete", Short: "Remove a draft", Example: "  waybill plans delete partners 01K…", Method: http.MethodDelete, Path: path, Args: one,
				Done: "Plan {planId} is removed.", Confirm: "Remove plan {planId}?",
			},
		},
	}
}

func subscriptions() Noun {
	view := View{Columns: []Column{
		{Title: "CONSUMER", Member: "consumer"}, {Title: "PLAN", Member: "planKey"}, {Title: "VERSION", Member: "version"}, {Title: "PHASE", Member: "phase"}, {Title: "SINCE", Member: "activeFrom", Form: Moment},
	}}
	one := []Arg{bucketArg(), consumerArg()}
	return Noun{
		Name: "subscriptions", Short: "Give consumers plans", Long: "A consumer has one plan, or none.",
		Verbs: []Verb{
			{Name: "get", Short: "Show the plan of a consumer", Example: "  waybill subscriptions get partners acme", Method: http.MethodGet, Path: subscriptionPath, Args: one, Show: view},
			{
				Name: "set", Short: "Give a consumer a plan", Example: "  waybill subscriptions set partners acme basic",
				Method: http.MethodPut, Path: subscriptionPath, Args: append(one[:2:2], Arg{Word: "PLAN", To: "planKey"}), Body: AnObject, Show: view,
				Flags: []Flag{{Name: "version", Usage: "version of the plan; default: the latest active one", Kind: Integer}},
			},
			{
				Name: "access", Short: "Show what a consumer may do and has used", Example: "  waybill subscriptions access partners acme -o json",
				Method: http.MethodGet, Path: consumerPath + "/access", Args: one, Show: View{Columns: []Column{{Title: "ENTITLEMENTS", Member: "entitlements"}}},
			},
			{
				Name: "delete", Short: "Take a consumer's plan away", Example: "  waybill subscriptions delete partners acme", Method: http.MethodDelete, Path: subscriptionPath, Args: one,
				Done: "Consumer {consumerName} has no plan any more.", Confirm: "Take the plan of consumer {consumerName} away? Metered routes refuse it then.",
			},
		},
	}
}
