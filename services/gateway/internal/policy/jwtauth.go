package policy

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/upstream"
	"waybill.dev/shared/input"
	"waybill.dev/shared/jwt"
	"waybill.dev/shared/problem"
)

// JWTAuth is the type of the policy that asks for an access token.
const JWTAuth = "jwt-auth-inbound"

const (
	defaultSkew = 60 // in seconds

	// maxClaim is how long the header of a claim may be, in bytes.
	maxClaim = 4 << 10
)

// jwtAuth lets callers in that have an access token of an issuer.
type jwtAuth struct {
	rules  jwt.Rules
	jwks   string   // empty: the issuer's metadata names it
	base   *url.URL // the configured URL: that of the keys (jwksUrl), or that of the issuer if there is none
	claims map[string]string
}

// jwtAuthOptions are the options that the schema of jwtAuthPolicy allows.
type jwtAuthOptions struct {
	Issuer           string
	Audience         accounts // a list, or a single text
	JWKSURL          string   `json:"jwksUrl"`
	Algorithms       []string
	ClockSkewSeconds *int
	ClaimsToHeaders  map[string]string
}

func jwtAuthPolicy() Policy {
	algorithms := `"` + strings.Join(jwt.Algorithms(), `", "`) + `"`
	return Policy{
		Name: JWTAuth, Export: "JWTAuthInboundPolicy",
		About: "Lets callers pass who have an [access token](gateway.md#access-tokens) of an issuer: a JWT, as `Authorization: Bearer`. Its signature, `iss`, `aud`, `exp` and `nbf` are checked. " +
			"Other callers get 401, and 503 while the issuer's keys can't be read.",
		Options: `{
			"type": "object", "additionalProperties": false, "required": ["issuer", "audience"],
			"properties": {
				"issuer": {
					"type": "string", "minLength": 1, "maxLength": 2048,
					"description": "Who issues the tokens: the URL that ` + "`iss`" + ` has, to the letter."
				},
				"audience": {
					"type": ["array", "string"], "minLength": 1, "maxLength": 2048, "minItems": 1, "maxItems": 20, "items": {"type": "string", "minLength": 1, "maxLength": 2048},
					"description": "What ` + "`aud`" + ` must name: one text, or a list of which one is enough. For an MCP server, it is the URL of the server."
				},
				"jwksUrl": {
					"type": "string", "minLength": 1, "maxLength": 2048,
					"description": "Where the issuer's keys are. Without it, the document at ` + "`/.well-known/openid-configuration`" + ` below the issuer names it."
				},
				"algorithms": {
					"type": "array", "minItems": 1, "uniqueItems": true, "items": {"type": "string", "enum": [` + algorithms + `]},
					"description": "How tokens may be signed. Without it, in each of these ways. Tokens without a signature, or with one of a shared secret, are never taken."
				},
				"clockSkewSeconds": {
					"type": "integer", "minimum": 0, "maximum": 300, "default": ` + strconv.Itoa(defaultSkew) + `,
					"description": "How far the issuer's clock may be off."
				},
				"claimsToHeaders": {
					"type": "object", "maxProperties": 20, "additionalProperties": {"type": "string", "minLength": 1, "maxLength": 256, "format": "request-header-name"},
					"description": "Headers that tell the back end of claims, as ` + "`{claim: header}`" + `. Callers can't set these headers."
				}
			}
		}`,
		Example: `{"issuer": "https://id.example.com", "audience": "https://api.example.com", "claimsToHeaders": {"sub": "X-User"}}`,
		New:     typed(newJWTAuth),
	}
}

func newJWTAuth(o *jwtAuthOptions, env *Env) (Parts, []Fault) {
	p := &jwtAuth{
		rules: jwt.Rules{Issuer: o.Issuer, Audience: o.Audience, Algorithms: o.Algorithms, Skew: defaultSkew * time.Second},
		jwks:  o.JWKSURL, claims: o.ClaimsToHeaders,
	}
	if o.ClockSkewSeconds != nil {
		p.rules.Skew = time.Duration(*o.ClockSkewSeconds) * time.Second
	}
	var faults []Fault
	for _, of := range []struct{ option, url string }{{"issuer", o.Issuer}, {"jwksUrl", o.JWKSURL}} {
		if of.url == "" {
			continue
		}
		base, err := upstream.ParseRoute(env.Egress, of.url, env.Uploaded, env.Built)
		switch {
		case err != nil:
			faults = append(faults, Fault{Pointer: "/" + of.option, Detail: err.Error()})
		case of.option == "issuer" && (base.RawQuery != "" || base.ForceQuery):
			faults = append(faults, Fault{Pointer: "/issuer", Detail: "must not have a query"})
		}
		p.base = base
	}
	return Parts{In: p}, append(faults, o.sameHeaders()...)
}

// sameHeaders returns faults for claims that share a header with another claim.
func (o *jwtAuthOptions) sameHeaders() (faults []Fault) {
	seen := make(map[string]bool)
	for claim, header := range o.ClaimsToHeaders {
		folded := strings.ReplaceAll(strings.ToLower(header), "_", "-")
		if seen[folded] {
			faults = append(faults, Fault{Pointer: input.Pointer("claimsToHeaders", claim), Detail: "is the header of another claim, too"})
		}
		seen[folded] = true
	}
	return faults
}

// Issues implements route.TakesTokens.
func (p *jwtAuth) Issues(*route.Runtime) (issuer string, scopes []string) { return p.rules.Issuer, nil }

// In holds the token of a request to the rules.
func (p *jwtAuth) In(ctx context.Context, r *route.Request) (*route.Response, error) {
	token, ok := bearer(r.Header)
	if !ok {
		return nil, &tokenError{reason: "there is none"}
	}
	verified, err := p.rules.Verify(ctx, token, r.Runtime.Upstreams.Keys(p.rules.Issuer, p.jwks, p.base))
	switch {
	case errors.Is(err, jwt.ErrUnavailable):
		return nil, &issuerError{err}
	case err != nil:
		return nil, &tokenError{err.Error(), true}
	}
	identity := &route.Identity{Issuer: p.rules.Issuer, Subject: verified.Subject, Says: make(map[string]string, len(p.claims))}
	for claim, header := range p.claims {
		value := headerValue(verified.Claim(claim))
		if len(value) > maxClaim {
			return nil, &tokenError{"a claim is too long for its header", true}
		}
		identity.Says[header] = value
	}
	r.Identity = identity
	identity.Tell(r)
	return nil, nil
}

// issuerError says that an issuer's keys can't be read.
type issuerError struct{ err error }

// Error implements error.
func (e *issuerError) Error() string { return e.err.Error() }

// Unwrap returns the problem that the caller gets.
func (e *issuerError) Unwrap() error {
	p := problem.New(problem.Unavailable, "Access tokens can't be checked now. Try again.")
	p.RetryAfter = retryAfter
	return p
}

// Entry implements route.Told.
func (e *issuerError) Entry() (message string, attributes []any) {
	return "The access token could not be checked: " + e.Error() + ".", nil
}

// headerValue returns a claim as the value of a header: a text as it is, a list of texts separated by commas, anything
// else as JSON. Characters that a header can't have, and the percent sign, are percent-encoded; in a list, also the
// comma.
func headerValue(claim jsontext.Value) string {
	if claim.Kind() == '"' {
		var text string
		_ = json.Unmarshal(claim, &text) // can't fail: it was parsed before
		return encoded(text, "%")
	}
	var list []string
	if claim.Kind() == '[' && json.Unmarshal(claim, &list) == nil {
		for i, text := range list {
			list[i] = encoded(text, "%,")
		}
		return strings.Join(list, ",")
	}
	return encoded(string(claim), "%")
}

// encoded percent-encodes everything except visible ASCII and inner blanks. It also encodes the bytes in besides.
func encoded(text, besides string) string {
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		blank := c == ' ' && i > 0 && i < len(text)-1
		if c > ' ' && c <= '~' && strings.IndexByte(besides, c) < 0 || blank {
			b.WriteByte(c)
			continue
		}
		const digits = "0123456789ABCDEF"
		b.Write([]byte{'%', digits[c>>4], digits[c&15]})
	}
	return b.String()
}
