package web

import (
	"strings"
	"time"

	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/news"
	"waybill.dev/shared/problem"
)

// Route is one operation: where it is, what it needs, and what answers it.
type Route struct {
	Method string
	// Path is a template: a {name} stands for one segment. What the name ends on tells what
	// it names: bucketName a bucket, keyId a key, and id what the segment before it lists.
	// Where it is not there, the answer says so, and the audit log keeps it of a refused
	// change.
	Path string
	// Aliases are paths that are answered as Path is.
	Aliases []string
	// Operation names it in the OpenAPI document.
	Operation string
	// Scope is what the caller must have; empty: the route is open to all.
	Scope domain.Scope
	// Or is another scope that will do; empty: there is none.
	Or domain.Scope
	// And is another scope that the caller must have, too; empty: there is none.
	And domain.Scope
	// Action names the change in the audit log, as the store does; empty: it is not in that
	// log.
	Action string
	// Slashes lets parameters of the path have slashes, which are sent as %2F.
	Slashes bool
	// Long is for work that has no bound: it gets 20 s instead of 1.8 s.
	Long bool
	// Wait is added to the time that the route has, because it may wait that long for news.
	Wait time.Duration
	// Stream is for answers that go on until the client or the server ends them. They have no
	// deadline of the kernel's, and are no functions for gateway routes.
	Stream bool
	// News are the kinds of news after which a list may be another; none: nobody follows it.
	News []news.Kind
	// Tells are the kinds of things that the route changes. Pages and clients that watch the account hear of the change:
	// with the id in the path, or the id that the handler gives to Made, or without an id, which means many.
	Tells []news.Kind
	// Bytes is for bodies that are no JSON. They are no functions for gateway routes either.
	Bytes bool
	// Publishing has its requests counted apart from all others; see RateLimit.
	Publishing bool
	// Handle answers. An error is answered as the problem that it stands for.
	Handle func(*Call) error
}

// permits reports whether a caller may do what the route does.
func (r *Route) permits(p apikey.Principal) bool {
	return (p.May(r.Scope) || r.Or != "" && p.May(r.Or)) && (r.And == "" || p.May(r.And))
}

// AccountPath is where what belongs to an account is, and ProjectPath what belongs to a project.
const (
	AccountPath = accountsPath + "/{accountName}"
	ProjectPath = AccountPath + "/projects/{projectName}"
)

const accountsPath = "/v1/accounts"

// Bounds of the time that a request may take, once before its body is read, which has a
// time of its own, and once after. The first is within the two seconds after
// which a caller must know that the store is away. The other is for what has no bound: a
// job counts what it matches, and with a bucket or a consumer all of its keys go.
const (
	budget     = 1800 * time.Millisecond
	longBudget = 20 * time.Second
)

// route is a Route with what follows from it.
type route struct {
	*Route
	limit   time.Duration    // of each part of a request
	names   []pathName       // what the path names, from the left
	missing *problem.Problem // the answer when what the path ends at is not there
	metrics ofRoute
}

// pathName is a parameter of a path, and the kind of thing that it names; empty: none that is
// told.
type pathName struct{ parameter, kind string }

func prepare(declared *Route) *route {
	r := &route{Route: declared, limit: budget, missing: problem.Missing()}
	if r.Long {
		r.limit = longBudget
	}
	r.limit += r.Wait
	before, kind := "", ""
	for segment := range strings.SplitSeq(r.Path, "/") {
		if parameter, ok := strings.CutPrefix(segment, "{"); ok {
			parameter = strings.TrimSuffix(parameter, "}")
			kind = kindOf(before, parameter)
			r.names = append(r.names, pathName{parameter, kind})
		}
		before = segment
	}
	if kind != "" {
		r.missing = problem.New(problem.NotFound, "There is no such "+kind+".")
	}
	return r
}

// kindOf returns what a parameter names that comes after the segment before.
func kindOf(before, parameter string) string {
	if parameter == "id" {
		if stem, ok := strings.CutSuffix(before, "ies"); ok {
			return stem + "y"
		}
		return strings.TrimSuffix(before, "s")
	}
	for _, ending := range []string{"Name", "Id"} {
		if kind, ok := strings.CutSuffix(parameter, ending); ok {
			return kind
		}
	}
	return ""
}
