package access

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/buckets"
	"waybill.dev/services/api/internal/families/consumers"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

type bucketsView struct {
	Tabs    []console.Tab
	Buckets []bucketRow
	Paging  console.Paging
	May     bool
}

func listBuckets(p *console.Page) error {
	var answer web.Listing[buckets.Bucket]
	if err := p.API.Get(account(p, "key-buckets"), page(p, maxBuckets), &answer); err != nil {
		return err
	}
	v := bucketsView{Tabs: tabs(root), Paging: p.Offsets(answer.Offset, len(answer.Data), answer.Total), May: p.May(domain.ScopeBucketsWrite)}
	for _, b := range answer.Data {
		v.Buckets = append(v.Buckets, bucketOf(p, b))
	}
	p.CLI("buckets list")
	return p.Show("buckets.html", "Access", v)
}

// bucketOf counts the keys of a bucket, of its first consumers.
func bucketOf(p *console.Page, b buckets.Bucket) bucketRow {
	line := bucketRow{Bucket: b}
	in := place{Bucket: b.Name}
	var found web.Listing[consumers.Consumer]
	line.NoConsumers = p.API.Try(in.api(p, "consumers"), url.Values{"include-api-keys": {"true"}, "limit": {number(few)}}, &found)
	line.Consumers, line.More = found.Total, found.Total > len(found.Data)
	for _, c := range found.Data {
		one := lineOf(in, c, p.Now())
		line.Keys += one.Keys
		if one.Ends != nil && (line.Ends == nil || *one.Ends < *line.Ends) {
			line.Ends = one.Ends
		}
	}
	return line
}

// maxBuckets is how many buckets a page has: the page asks the API for the consumers of each.
const maxBuckets = 20

// bucketRow is a bucket of the list.
type bucketRow struct {
	buckets.Bucket

	Consumers   int
	Keys        int     // number of live keys
	More        bool    // the bucket has further consumers, whose keys are not counted
	Ends        *string // end of the first live key to expire; nil: none expires
	NoConsumers *console.Problem
}

// bucketForm is the form for a new bucket, or for a change of one.
type bucketForm struct {
	Place  place // zero: a new bucket
	Form   *console.Form
	Action string
	Back   string
}

func newBucket(p *console.Page) error {
	var answer web.Listing[buckets.Bucket]
	if err := p.API.Get(account(p, "key-buckets"), url.Values{"limit": {"1"}}, &answer); err != nil {
		return err
	}
	if !p.May(domain.ScopeBucketsWrite) {
		return needs(p, root, domain.ScopeBucketsWrite)
	}
	p.CLI("buckets create NAME --description TEXT")
	return p.Show("bucket-form.html", "New bucket", bucketForm{Form: console.NewForm(url.Values{"isRetrievable": {"false"}}), Action: newBucketPath, Back: root})
}

func createBucket(p *console.Page) error {
	values, err := p.Form()
	if err != nil {
		return err
	}
	body := struct {
		Name          string            `json:"name"`
		Description   string            `json:"description"`
		IsRetrievable bool              `json:"isRetrievable"`
		Tags          map[string]string `json:"tags"`
	}{values.Get("name"), values.Get("description"), values.Get("isRetrievable") == "true", parseTags(values.Get("tags"))}
	form := console.NewForm(values)
	if err := p.API.Send(http.MethodPost, account(p, "key-buckets"), body, nil); form.Failed(err) {
		return p.ShowInvalid("bucket-form.html", "New bucket", bucketForm{Form: form, Action: newBucketPath, Back: root}, form)
	} else if err != nil {
		return err
	}
	return p.Done("The bucket is there. Now make a consumer, who holds the keys.", place{Bucket: body.Name}.Path())
}

type bucketView struct {
	Place     place
	Bucket    buckets.Bucket
	Tags      []tag
	Scopes    []domain.Scope
	Consumers []consumerLine
	Total     int
	Paging    console.Paging
	Problem   *console.Problem // the reason why consumers are missing
	Email     string
	Search    string
	May       bool
}

// consumerLine is a line of the matrix of consumers and scopes.
type consumerLine struct {
	Name, Description, Path string
	Held                    []held
	Keys                    int
	Ends                    *string // end of the first live key to expire; nil: none expires
	Ended                   int     // number of expired keys
}

// held is a scope, with whether a consumer has it: directly, or by admin, which includes all others.
type held struct {
	Scope        domain.Scope
	Own, ByAdmin bool
}

func showBucket(p *console.Page) error {
	v := bucketView{Place: at(p), Scopes: domain.Scopes(), Email: p.Query("manager-email"), Search: p.Query("q"), May: p.May(domain.ScopeBucketsWrite)}
	if err := p.API.Get(v.Place.api(p), nil, &v.Bucket); err != nil {
		return err
	}
	p.CLI("consumers list " + v.Place.Bucket + " --include-api-keys")
	v.Tags = tagsOf(v.Bucket.Tags)
	query := page(p, few)
	query.Set("include-api-keys", "true")
	for name, value := range map[string]string{"manager-email": v.Email, "q": v.Search} {
		if value != "" {
			query.Set(name, value)
		}
	}
	var answer web.Listing[consumers.Consumer]
	if v.Problem = p.API.Try(v.Place.api(p, "consumers"), query, &answer); v.Problem == nil {
		v.Total, v.Paging = answer.Total, p.Offsets(answer.Offset, len(answer.Data), answer.Total)
		for _, c := range answer.Data {
			v.Consumers = append(v.Consumers, lineOf(v.Place, c, p.Now()))
		}
	}
	return p.Show("bucket.html", v.Bucket.Name, v)
}

func lineOf(in place, c consumers.Consumer, now time.Time) consumerLine {
	line := consumerLine{Name: c.Name, Description: c.Description, Path: place{Bucket: in.Bucket, Consumer: c.Name}.Path()}
	admin := slices.Contains(c.Scopes, domain.ScopeAdmin)
	for _, s := range domain.Scopes() {
		own := slices.Contains(c.Scopes, s)
		line.Held = append(line.Held, held{s, own, admin && !own})
	}
	for _, k := range web.Value(c.APIKeys) {
		switch {
		case ended(k.ExpiresOn, now):
			line.Ended++
		default:
			line.Keys++
			if k.ExpiresOn != nil && (line.Ends == nil || *k.ExpiresOn < *line.Ends) {
				line.Ends = k.ExpiresOn
			}
		}
	}
	return line
}

func editBucket(p *console.Page) error {
	l := at(p)
	var b buckets.Bucket
	if err := p.API.Get(l.api(p), nil, &b); err != nil {
		return err
	}
	p.CLI("buckets update " + l.Bucket + " --description TEXT")
	form := console.NewForm(url.Values{"description": {b.Description}, "tags": {formatTags(b.Tags)}})
	return p.Show("bucket-form.html", "Edit bucket", bucketForm{l, form, l.Path("edit"), l.Path()})
}

func updateBucket(p *console.Page) error {
	l := at(p)
	values, err := p.Form()
	if err != nil {
		return err
	}
	body := struct {
		Description string            `json:"description"`
		Tags        map[string]string `json:"tags"`
	}{values.Get("description"), parseTags(values.Get("tags"))}
	form := console.NewForm(values)
	if err := p.API.Send(http.MethodPatch, l.api(p), body, nil); form.Failed(err) {
		return p.ShowInvalid("bucket-form.html", "Edit bucket", bucketForm{l, form, l.Path("edit"), l.Path()}, form)
	} else if err != nil {
		return err
	}
	return p.Done("The bucket is changed.", l.Path())
}

func confirmBucket(p *console.Page) error {
	l := at(p)
	var b buckets.Bucket
	if err := p.API.Get(l.api(p), nil, &b); err != nil {
		return err
	}
	facts := []console.Fact{{Name: "Bucket", Value: b.Name}}
	var found web.Listing[consumers.Consumer]
	if p.API.Try(l.api(p, "consumers"), url.Values{"limit": {"1"}}, &found) == nil {
		facts = append(facts, console.Fact{Name: "Consumers", Value: number(found.Total)})
	}
	p.CLI("buckets delete " + l.Bucket)
	return p.ShowConfirm(console.Confirm{
		Title: "Delete bucket " + b.Name + "?", Effect: "Its consumers, their keys and managers go with it, at once. Whoever uses one of the keys is refused from then on. It can't be undone.",
		Facts: facts, Verb: "Delete the bucket", Danger: true, Action: l.Path("delete"), Back: l.Path(),
	})
}

func deleteBucket(p *console.Page) error {
	l := at(p)
	if err := p.API.Send(http.MethodDelete, l.api(p), nil, nil); err != nil {
		return err
	}
	return p.Done("Bucket "+l.Bucket+" is deleted, with its consumers and keys.", root)
}
