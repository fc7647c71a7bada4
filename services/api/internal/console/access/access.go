// Package access has the console's pages of rights: buckets, consumers with their scopes, keys,
// managers, projects and accounts.
package access

import (
	"embed"
	"net/url"
	"strconv"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/shared/domain"
)

//go:embed templates/*.html
var files embed.FS

// The paths of the pages. place fills in {bucketName} and the names below it.
const (
	root          = "/console/access"
	bucketsPath   = root + "/buckets"
	bucketPath    = bucketsPath + "/{bucketName}"
	consumerPath  = bucketPath + "/consumers/{consumerName}"
	keyPath       = consumerPath + "/keys/{keyId}"
	managerPath   = consumerPath + "/managers/{managerId}"
	projectsPath  = root + "/projects"
	accountsPath  = root + "/accounts"
	adminKeyPath  = root + "/admin-key"
	newBucketPath = root + "/new-bucket"
)

// Module returns the pages.
func Module() console.Module {
	show, act := console.Shown, console.Acted
	return console.Module{
		Name: "access", Templates: files,
		Find: find,
		Nav:  []console.NavEntry{{Label: "Access", Path: root, Icon: "access", Order: console.OrderAccess, Key: "a", Scopes: []domain.Scope{domain.ScopeBucketsRead}}},
		Routes: []console.Route{
			show(root, listBuckets),
			show(newBucketPath, newBucket), act(newBucketPath, createBucket),
			show(bucketPath, showBucket),
			show(bucketPath+"/edit", editBucket), act(bucketPath+"/edit", updateBucket),
			show(bucketPath+"/delete", confirmBucket), act(bucketPath+"/delete", deleteBucket),
			show(bucketPath+"/new-consumer", newConsumer), act(bucketPath+"/new-consumer", createConsumer),
			show(consumerPath, showConsumer),
			show(consumerPath+"/edit", editConsumer), act(consumerPath+"/edit", updateConsumer),
			show(consumerPath+"/delete", confirmConsumer), act(consumerPath+"/delete", deleteConsumer),
			show(consumerPath+"/new-key", newKey), act(consumerPath+"/new-key", createKey),
			show(consumerPath+"/roll", newRoll), act(consumerPath+"/roll", roll),
			show(keyPath, showKey), act(keyPath, updateKey),
			show(keyPath+"/delete", confirmKey), act(keyPath+"/delete", deleteKey),
			show(consumerPath+"/new-manager", newManager), act(consumerPath+"/new-manager", createManager),
			show(managerPath+"/delete", confirmManager), act(managerPath+"/delete", deleteManager),
			show(projectsPath, listProjects), act(projectsPath, createProject),
			show(accountsPath, listAccounts), act(accountsPath, createAccount),
			show(adminKeyPath, confirmAdminKey), act(adminKeyPath, createAdminKey),
		},
	}
}

// few is how many entries a page of a list has.
const few = 50

// place is where a page's thing is: on the console, and in the API.
type place struct{ Bucket, Consumer, Key, Manager string }

func at(p *console.Page) place {
	return place{p.Param("bucketName"), p.Param("consumerName"), p.Param("keyId"), p.Param("managerId")}
}

// segments returns the part below the bucket that console paths and API paths have in common.
func (l place) segments(more []string) []string {
	list := []string{l.Bucket}
	if l.Consumer != "" {
		list = append(list, "consumers", l.Consumer)
	}
	if l.Key != "" {
		list = append(list, "keys", l.Key)
	}
	if l.Manager != "" {
		list = append(list, "managers", l.Manager)
	}
	return append(list, more...)
}

// Path returns the path of the thing's page, or of a page below it.
func (l place) Path(more ...string) string {
	return console.Path(append([]string{"console", "access", "buckets"}, l.segments(more)...)...)
}

// api returns the path of the thing in the API.
func (l place) api(p *console.Page, more ...string) string {
	return account(p, append([]string{"key-buckets"}, l.segments(more)...)...)
}

// bucket and consumer return the bucket and the consumer that the thing is in.
func (l place) bucket() place   { return place{Bucket: l.Bucket} }
func (l place) consumer() place { return place{Bucket: l.Bucket, Consumer: l.Consumer} }

// account returns a path below the session's account in the API.
func account(p *console.Page, more ...string) string {
	return console.Path(append([]string{"v1", "accounts", p.Account()}, more...)...)
}

// page returns the query for the part of a list that the address asks for.
func page(p *console.Page, limit int) url.Values {
	query := p.Pick("offset")
	query.Set("limit", strconv.Itoa(limit))
	return query
}

// tabs returns the three tabs of Access. Only the bootstrap key sees several accounts.
func tabs(current string) []console.Tab {
	list := []console.Tab{{Label: "Buckets", Path: root}, {Label: "Projects", Path: projectsPath}, {Label: "Accounts", Path: accountsPath}}
	for i := range list {
		list[i].Current = list[i].Path == current
	}
	return list
}

// writable reads the page's thing into a value. ok is false when the form can't be shown: the thing can't be
// read, or the page shows which scope is missing.
func writable(p *console.Page, l place, into any) (ok bool, err error) {
	if err := p.API.Get(l.api(p), nil, into); err != nil {
		return false, err
	}
	if !p.May(domain.ScopeBucketsWrite) {
		return false, needs(p, l.Path(), domain.ScopeBucketsWrite)
	}
	return true, nil
}

// mayChange reports whether the session's key may change a consumer: that needs buckets:write, and
// all that the consumer may do.
func mayChange(p *console.Page, scopes []domain.Scope) bool {
	if !p.May(domain.ScopeBucketsWrite) {
		return false
	}
	for _, s := range scopes {
		if !p.May(s) {
			return false
		}
	}
	return true
}
