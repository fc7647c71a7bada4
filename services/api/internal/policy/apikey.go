package policy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"waybill.dev/services/api/internal/auth"
	"waybill.dev/services/api/internal/input"
	"waybill.dev/services/api/internal/problem"
	"waybill.dev/services/api/internal/route"
	"waybill.dev/services/api/internal/routefile"
	"waybill.dev/shared/domain"
)

// retryAfter is what callers are told to wait while keys can't be looked up.
const retryAfter = 2 * time.Second

// undocumented is the option that keeps the published document from saying that a key is
// needed.
const undocumented = "disableAutomaticallyAddingKeyToOpenApi"

// apiKey lets callers pass who have a key with all of some scopes.
type apiKey struct {
	keys     auth.Authenticator
	scopes   []domain.Scope
	optional bool // who has no key at all passes, too
}

func newAPIKey(options *input.Form, _ *routefile.PolicyDef, env *Env) built {
	a := &apiKey{keys: env.Authenticator}
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
		options.Fault("can't be asked of callers who need no key", "scopes")
	}
	return built{in: a}
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
// before, be it of the route from which a call from inside comes.
func (a *apiKey) In(ctx context.Context, r *route.Request) (*route.Response, error) {
	if r.Principal == nil {
		principal, err := a.authenticate(ctx, r.Header)
		if err != nil {
			return nil, err
		}
		r.Principal = principal
	}
	if r.Principal != nil && !a.Permits(r.Principal) {
		return nil, a.forbidden()
	}
	return nil, nil
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

func (a *apiKey) authenticate(ctx context.Context, header http.Header) (*auth.Principal, error) {
	if a.optional && len(header.Values("Authorization")) == 0 && len(header.Values("X-Api-Key")) == 0 {
		return nil, nil
	}
	key, ok := auth.Key(header)
	if !ok {
		return nil, unauthenticated()
	}
	principal, err := a.keys.Authenticate(ctx, strings.Clone(key))
	switch {
	case errors.Is(err, auth.ErrUnauthenticated):
		return nil, unauthenticated()
	case errors.Is(err, domain.ErrUnavailable):
		p := problem.New(problem.Unavailable, "The store can't be reached now. Try again.")
		p.RetryAfter = retryAfter
		return nil, p
	case err != nil:
		return nil, fmt.Errorf("authenticate a caller: %w", err)
	}
	return &principal, nil
}

// Permits tells whether the caller has all of the scopes.
func (a *apiKey) Permits(principal *auth.Principal) bool {
	if principal == nil {
		return a.optional
	}
	return !slices.ContainsFunc(a.scopes, func(s domain.Scope) bool { return !principal.May(s) })
}

func unauthenticated() *problem.Problem {
	return problem.New(problem.Unauthenticated, "A valid API key is required, as Authorization: Bearer or X-API-Key.")
}
