package access

import (
	"net/url"
	"strings"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/buckets"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

// find returns the first consumers of the first buckets, and the actions on each.
func find(p *console.Page) []console.Hit {
	var hits []console.Hit
	if p.May(domain.ScopeBucketsWrite) {
		hits = append(hits, console.Hit{Label: "New bucket", Path: newBucketPath, Icon: "plus", Act: true})
	}
	var answer web.Listing[buckets.Bucket]
	if p.API.Try(account(p, "key-buckets"), url.Values{"limit": {number(maxBuckets)}, "include-consumers": {"true"}}, &answer) != nil {
		return hits
	}
	for _, b := range answer.Data {
		in := place{Bucket: b.Name}
		hits = append(hits, console.Hit{Label: b.Name, More: strings.TrimSuffix("bucket · "+b.Description, " · "), Path: in.Path(), Icon: "access"})
		for _, c := range web.Value(b.Consumers) {
			in.Consumer = c.Name
			more := strings.TrimSuffix("consumer in "+b.Name+" · "+c.Description, " · ")
			hits = append(hits, console.Hit{Label: c.Name, More: more, Path: in.Path(), Icon: "access"})
			if mayChange(p, c.Scopes) {
				hits = append(hits, console.Hit{Label: "New key for " + c.Name, More: more, Path: in.Path("new-key"), Icon: "plus", Act: true})
			}
		}
	}
	return hits
}
