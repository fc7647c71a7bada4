package policy

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"waybill.dev/services/gateway/internal/jsontree"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
	"waybill.dev/shared/problem"
)

// retryAfter is what callers are told to wait while keys can't be looked up.
const retryAfter = 2 * time.Second

// maxAccounts is how many accounts besides its own a route may name.
const maxAccounts = 1000

// undocumented is the option that keeps the published document from saying that a key is
// needed.
const undocumented = "disableAutomaticallyAddingKeyToOpenApi"

// anyAccount stands for every account in the option accounts.
const anyAccount = "*"

var accountName = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)

// apiKey lets callers pass who have a key of some accounts, with all of some scopes.
type apiKey struct {
	accounts []string // the route's own first; anyAccount among them: keys of all
	bucket   string   // that the key must be of; empty: any
	scopes   []domain.Scope
	optional bool // who has no key at all passes, too
}

func newAPIKey(options *input.Form, def *routefile.PolicyDef, env *Env) built {
	a := &apiKey{accounts: append([]string{env.Account}, readAccounts(options, def)...)}
	if env.Uploaded && options.Has("accounts") {
		options.Fault("can't be used in uploaded routes, which take the keys of their own account", "accounts")
	}
	a.bucket = env.Bucket
	if name, given := options.Text("bucketName", 1, 128); given {
		a.bucket = name
	}
	a.optional, _ = options.Bool("allowUnauthenticatedRequests")
	_, _ = options.Bool(undocumented)
	names, _ := options.Texts("scopes", 0, len(domain.Scopes()))
	for i, name := range names {
		if !slices.Contains(domain.Scopes(), domain.Scope(name)) {
			options.Fault("is not a scope of keys", "scopes", strconv.Itoa(i))
		}
		a.scopes = append(a.scopes, domain.Scope(name))
	}
	if a.optional && len(a.scopes) > 0 {
		options.Fault("can't be required when callers need no key", "scopes")
	}
	return built{in: a}
}

// readAccounts reads the option accounts: a list of names, in which * stands for all, or
// one text alone.
func readAccounts(options *input.Form, def *routefile.PolicyDef) []string {
	const option = "accounts"
	tree, _ := jsontree.Parse(def.Options) // the form has said what is wrong
	if text, ok := tree.Member(option).Text(); ok {
		options.Ignore(option)
		if text != anyAccount && !accountName.MatchString(text) {
			options.Fault("must be * or the name of an account", option)
		}
		return []string{text}
	}
	names, _ := options.Texts(option, 1, maxAccounts)
	for i, name := range names {
		if name != anyAccount && !accountName.MatchString(name) {
			options.Fault("must be * or the name of an account", option, strconv.Itoa(i))
		}
	}
	return names
}

// KeyDocumented tells whether the published document says, of routes with the policy, that
// a key is needed.
func KeyDocumented(def *routefile.PolicyDef) bool {
	if def.Type != APIKey {
		return false
	}
	form, err := input.ParseForm(def.Options)
	if err != nil {
		return true
	}
	off, _ := form.Bool(undocumented)
	return !off
}

// In finds out who calls. A principal that is there already was found out by a policy
// before, be it of the route from which a call from inside comes. A key of an account or
// bucket that the route is not for gets the answer of one that does not exist: whether it
// is anybody's is not the route's to tell.
func (a *apiKey) In(ctx context.Context, r *route.Request) (*route.Response, error) {
	principal := r.Principal
	if principal == nil {
		var err error
		if principal, err = a.authenticate(ctx, r); err != nil || principal == nil {
			return nil, err
		}
	}
	if !a.takes(principal) {
		return nil, problem.KeyRequired()
	}
	r.Principal = principal
	if !a.Permits(principal) {
		return nil, a.forbidden()
	}
	return nil, nil
}

// takes tells whether the route is for the caller's account and bucket. The bootstrap key is
// in no bucket.
func (a *apiKey) takes(principal *apikey.Principal) bool {
	return (slices.Contains(a.accounts, principal.Account) || slices.Contains(a.accounts, anyAccount)) &&
		(a.bucket == "" || a.bucket == principal.Bucket)
}

// forbidden says, in the words of RFC 6750, which scopes the route asks for: clients of MCP
// go by the header.
func (a *apiKey) forbidden() *problem.Problem {
	names := make([]string, len(a.scopes))
	for i, scope := range a.scopes {
		names[i] = string(scope)
	}
	p := problem.New(problem.Forbidden, "The key lacks the permission for this.")
	p.Challenge = `Bearer error="insufficient_scope", scope="` + strings.Join(names, " ") + `"`
	return p
}

func (a *apiKey) authenticate(ctx context.Context, r *route.Request) (*apikey.Principal, error) {
	header := r.Header
	if a.optional && len(header.Values("Authorization")) == 0 && len(header.Values("X-Api-Key")) == 0 {
		return nil, nil
	}
	key, ok := apikey.FromHeader(header)
	if !ok {
		return nil, problem.KeyRequired()
	}
	principal, err := r.Runtime.Authenticator.Authenticate(ctx, strings.Clone(key))
	switch {
	case errors.Is(err, apikey.ErrUnauthenticated):
		return nil, problem.KeyRequired()
	case errors.Is(err, domain.ErrUnavailable):
		p := problem.New(problem.Unavailable, "The store can't be reached now. Try again.")
		p.RetryAfter = retryAfter
		return nil, p
	case err != nil:
		return nil, fmt.Errorf("authenticate a caller: %w", err)
	}
	return &principal, nil
}

// Permits tells whether the route is for the caller, who has all of the scopes.
func (a *apiKey) Permits(principal *apikey.Principal) bool {
	if principal == nil {
		return a.optional
	}
	return a.takes(principal) && !slices.ContainsFunc(a.scopes, func(s domain.Scope) bool { return !principal.May(s) })
}
