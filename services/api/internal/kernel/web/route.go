package web

import (
	"strings"
	"time"

	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/news"
	"waybill.dev/shared/problem"
)

// Route is one operation: its path, its requirements, and its handler.
type Route struct {
	Method string
	// Path is a template: a {name} stands for one segment. The end of the name says what it identifies: bucketName a
	// bucket, keyId a key, and id an entry of the list that the segment before it names. If the thing does not exist,
	// the answer says so; if a change is refused, the audit log has the thing.
	Path string
	// Aliases are paths that are answered as Path is.
	Aliases []string
	// Operation is the id of the operation in the OpenAPI document.
	Operation string
	// Scope is the scope that the caller must have; empty: the route needs no key.
	Scope domain.Scope
	// Or is another scope that is enough; empty: none.
	Or domain.Scope
	// And is another scope that the caller must have, too; empty: none.
	And domain.Scope
	// Action is the name of the change in the audit log, as the store writes it; empty: the change is not in that log.
	Action string
	// Slashes lets parameters of the path have slashes, which are sent as %2F.
	Slashes bool
	// Long is for work without a bound: it gets 20 s instead of 1.8 s.
	Long bool
	// Wait is added to the time limit of the route, because it may wait that long for news.
	Wait time.Duration
	// Stream is for answers that last until the client or the server ends them. They have no deadline from the kernel,
	// and are not functions for gateway routes.
	Stream bool
	// News are the kinds of news after which a list may change; none: clients can't follow it.
	News []news.Kind
	// Tells are the kinds of things that the route changes. Pages and clients that watch the account hear of the change:
	// with the id in the path, or the id that the handler gives to Made, or without an id, which means many.
	Tells []news.Kind
	// Bytes is for bodies that are no JSON. They are no functions for gateway routes either.
	Bytes bool
	// Publishing has its requests counted apart from all others; see RateLimit.
	Publishing bool
	// Handle answers a request. An error is answered with its problem.
	Handle func(*Call) error
}

// permits reports whether a caller may use the route.
func (r *Route) permits(p apikey.Principal) bool {
	return (p.May(r.Scope) || r.Or != "" && p.May(r.Or)) && (r.And == "" || p.May(r.And))
}

// AccountPath is the path of an account's resources, and ProjectPath of a project's.
const (
	AccountPath = accountsPath + "/{accountName}"
	ProjectPath = AccountPath + "/projects/{projectName}"
)

const accountsPath = "/v1/accounts"

// Time limits of a request. The limit applies once before the body is read, which has a time limit of its own, and once
// after. The first is within the two seconds after which a caller must know that the store is away. The other is for
// work without a bound: a job counts its matches, and a bucket or a consumer is deleted with all of its keys.
const (
	budget     = 1800 * time.Millisecond
	longBudget = 20 * time.Second
)

// route is a Route with derived data.
type route struct {
	*Route
	limit   time.Duration    // time limit of each part of a request
	names   []pathName       // the parameters of the path, from the left
	missing *problem.Problem // the answer when the last thing in the path does not exist
	metrics ofRoute
}

// pathName is a parameter of a path, and the kind of thing that it identifies; empty: not shown.
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

// kindOf returns the kind of thing that a parameter identifies, given the segment before it.
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
