package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/jwt"
	"waybill.dev/shared/problem"
)

// retryAfter is the wait that callers are asked for while keys can't be looked up.
const retryAfter = 2 * time.Second

// anyAccount stands for every account in the option accounts.
const anyAccount = "*"

// APIKey is the type of the policy that asks for a key.
const APIKey = "api-key-inbound"

// apiKey lets callers in that have a key of one of the accounts, with all of the scopes.
type apiKey struct {
	accounts []string // the route's own account first; with anyAccount, keys of all accounts
	bucket   string   // bucket of the key; empty: any
	scopes   []domain.Scope
	optional bool // callers without any key are let in, too
}

// apiKeyOptions are the options that apiKeySchema allows.
type apiKeyOptions struct {
	Scopes               []domain.Scope
	Accounts             accounts
	BucketName           string
	AllowUnauthenticated bool `json:"allowUnauthenticatedRequests"`
	Undocumented         bool `json:"disableAutomaticallyAddingKeyToOpenApi"`
}

// accounts are given as a list, or as one text.
type accounts []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *accounts) UnmarshalJSON(value []byte) error {
	if jsontext.Value(value).Kind() == '"' {
		*a = make([]string, 1)
		return json.Unmarshal(value, &(*a)[0])
	}
	return json.Unmarshal(value, (*[]string)(a))
}

func apiKeyPolicy() Policy {
	names := make([]string, len(domain.Scopes()))
	for i, scope := range domain.Scopes() {
		names[i] = strconv.Quote(string(scope))
	}
	return Policy{
		Name: APIKey, Export: "ApiKeyInboundPolicy",
		About: "Lets callers pass who have an [API key](access.md). Other callers get 401, and 403 if the key lacks a scope.",
		Options: `{
			"type": "object", "additionalProperties": false,
			"properties": {
				"scopes": {
					"type": "array", "maxItems": ` + strconv.Itoa(len(names)) + `, "items": {"type": "string", "enum": [` + strings.Join(names, ",") + `]},
					"description": "The scopes that the key must have, all of them."
				},
				"accounts": {
					"type": ["array", "string"], "format": "account", "minItems": 1, "maxItems": 1000, "items": {"type": "string", "format": "account"},
					"description": "The accounts whose keys it takes, besides the account of the routes: a list, or one name. ` + "`*`" + ` stands for all accounts. See [whose keys](gateway.md#whose-keys). It can't be used in a deployment."
				},
				"bucketName": {
					"type": "string", "minLength": 1, "maxLength": 128,
					"description": "The bucket that the key must be in. Without it, any bucket will do; in a deployment, only the bucket of its project and environment."
				},
				"allowUnauthenticatedRequests": {
					"type": "boolean", "default": false,
					"description": "Callers without any key pass, too. A key that is wrong is still refused."
				},
				"disableAutomaticallyAddingKeyToOpenApi": {
					"type": "boolean", "default": false,
					"description": "The [published document](gateway.md#the-published-document) does not say that a key is needed."
				}
			}
		}`,
		Example: `{"scopes": ["events:read"], "accounts": ["acme"]}`,
		New:     typed(newAPIKey),
	}
}

func newAPIKey(o *apiKeyOptions, env *Env) (Parts, []Fault) {
	var faults []Fault
	if env.Uploaded && len(o.Accounts) > 0 {
		faults = append(faults, Fault{Pointer: "/accounts", Detail: "can't be used in uploaded routes, which take the keys of their own account"})
	}
	if o.AllowUnauthenticated && len(o.Scopes) > 0 {
		faults = append(faults, Fault{Pointer: "/scopes", Detail: "can't be required when callers need no key"})
	}
	return Parts{In: &apiKey{
		accounts: append([]string{env.Account}, o.Accounts...),
		bucket:   cmp.Or(o.BucketName, env.Bucket), scopes: o.Scopes, optional: o.AllowUnauthenticated,
	}}, faults
}

// KeyDocumented reports whether the published document says, of routes with the policy, that
// a key is needed.
func KeyDocumented(def *routefile.PolicyDef) bool {
	if def.Type != APIKey {
		return false
	}
	options, err := read[apiKeyOptions](def.Options)
	return err != nil || !options.Undocumented
}

// In finds out who the caller is. A principal that is already set comes from an earlier policy, possibly one of the
// route that makes this call from inside the gateway. A key of an account or bucket that the route is not for is
// answered like a key that does not exist: the route must not reveal whether the key exists.
func (a *apiKey) In(ctx context.Context, r *route.Request) (*route.Response, error) {
	principal := r.Principal
	if principal == nil {
		var err error
		if principal, err = a.caller(ctx, r); err != nil || principal == nil {
			return nil, err
		}
	}
	if !a.takes(principal) {
		return nil, problem.KeyRequired()
	}
	r.Principal, r.Admitter = principal, a
	if !a.Permits(principal) {
		return nil, a.forbidden(principal)
	}
	return nil, nil
}

// Again implements route.Admitter.
func (a *apiKey) Again(ctx context.Context, r *route.Request) *apikey.Principal {
	principal, err := a.caller(ctx, r)
	if p, ok := errors.AsType[*problem.Problem](err); errors.Is(err, domain.ErrUnavailable) || ok && p.Code == problem.Unavailable {
		return r.Principal
	}
	if err != nil || principal == nil || !a.takes(principal) || !a.Permits(principal) {
		return nil
	}
	return principal
}

// takes reports whether the route is for the caller's account and bucket. The bootstrap key is
// in no bucket.
func (a *apiKey) takes(principal *apikey.Principal) bool {
	return (slices.Contains(a.accounts, principal.Account) || slices.Contains(a.accounts, anyAccount)) &&
		(a.bucket == "" || a.bucket == principal.Bucket)
}

// forbidden says, in the words of RFC 6750, which scopes the route asks for: clients of MCP
// go by the header.
func (a *apiKey) forbidden(principal *apikey.Principal) *problem.Problem {
	p := problem.Lacking(problem.Listed(a.scopes, " and "), problem.Scopes{Required: a.scopes, Granted: principal.Scopes})
	p.Challenge = `Bearer error="insufficient_scope", scope="` + problem.Listed(a.scopes, " ") + `"`
	return p
}

// caller finds out who the caller is by a key or, where access tokens are accepted, by a token. A credential that has
// the form of a key is looked up as a key first.
func (a *apiKey) caller(ctx context.Context, r *route.Request) (*apikey.Principal, error) {
	principal, err := a.authenticate(ctx, r)
	if p, ok := errors.AsType[*problem.Problem](err); !ok || p.Code != problem.Unauthenticated || r.Tokens == nil {
		return principal, err
	}
	token, ok := bearer(r.Header)
	if !ok || !jwt.LooksLikeJWT(token) {
		return nil, err
	}
	who, err := r.Tokens.AuthenticateToken(ctx, token, r.Path, r.Query.Get("account"), r.Query.Get("consumer"))
	switch {
	case errors.Is(err, apikey.ErrUnauthenticated):
		return nil, &tokenError{err.Error(), true}
	case err != nil:
		return nil, err
	}
	return &who, nil
}

// Issues implements route.TakesTokens.
func (*apiKey) Issues(runtime *route.Runtime) (issuer string, scopes []string) {
	if runtime.Tokens == nil {
		return "", nil
	}
	return runtime.Tokens.Issuer(), runtime.Tokens.Scopes()
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

// Permits reports whether the route is for the caller, and the caller has all of the scopes.
func (a *apiKey) Permits(principal *apikey.Principal) bool {
	if principal == nil {
		return a.optional
	}
	return a.takes(principal) && !slices.ContainsFunc(a.scopes, func(s domain.Scope) bool { return !principal.May(s) })
}
