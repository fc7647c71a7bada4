package auth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/authenticator"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/jwt"
	"waybill.dev/shared/problem"
)

const (
	// tokenSkew is how far the issuer's clock may be off.
	tokenSkew = time.Minute
	// issuerTime bounds a request to the issuer.
	issuerTime = 5 * time.Second
	// tokenTime bounds the look-up of a token's person; it ends before the request's own time limit.
	tokenTime = 1500 * time.Millisecond
	// shownConsumers is how many consumers the answer to a person that has to name one lists.
	shownConsumers = 10
)

// Managers finds the people who manage consumers.
type Managers interface {
	ManagedHolders(ctx context.Context, who access.Person, account, bucket, consumer string, limit int) ([]domain.KeyHolder, error)
}

// Tokens recognises managers by access tokens of the OpenID issuer. The manager is looked up at each request, so
// a person who was removed as a manager is refused at the next one.
type Tokens struct {
	issuer, publicURL string
	keys              *jwt.Keys
	managers          Managers
}

// NewTokens returns the checker of an issuer's tokens; nil: there is no issuer. PublicURL is the address under which
// clients use Waybill; empty: only clients on the same machine can be told which tokens are for Waybill.
func NewTokens(issuer, publicURL string, managers Managers) *Tokens {
	if issuer == "" {
		return nil
	}
	client := &http.Client{Timeout: issuerTime, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &Tokens{issuer, publicURL, jwt.NewKeys(jwt.Source{Issuer: issuer, Do: client.Do}), managers}
}

// Issuer returns the issuer of the tokens.
func (t *Tokens) Issuer() string { return t.issuer }

// Scopes returns the scopes that a client may ask the issuer for. admin is not among them: clients should not ask for
// it by default.
func (t *Tokens) Scopes() []string {
	var names []string
	for _, scope := range domain.Scopes() {
		if scope != domain.ScopeAdmin {
			names = append(names, string(scope))
		}
	}
	return names
}

// Authenticate finds out which consumer a token's person acts for, at the MCP server with a path. The principal has the
// scopes that both the token and the consumer have. A person with several consumers names one by its account, by
// bucket/consumer, or by both.
func (t *Tokens) Authenticate(ctx context.Context, token, path, account, consumer string) (apikey.Principal, error) {
	rules := jwt.Rules{Issuer: t.issuer, Audience: t.audience(ctx, path), Skew: tokenSkew}
	verified, err := rules.Verify(ctx, token, t.keys)
	switch {
	case errors.Is(err, jwt.ErrUnavailable):
		return apikey.Principal{}, fmt.Errorf("verify access token: %w: %w", domain.ErrUnavailable, err)
	case err != nil:
		return apikey.Principal{}, fmt.Errorf("%w: %w", apikey.ErrUnauthenticated, err)
	}
	who := access.Person{Sub: verified.Subject}
	if string(verified.Claim("email_verified")) == "true" {
		who.Email = verified.Text("email")
	}
	holder, err := t.holder(ctx, who, account, consumer)
	if err != nil {
		return apikey.Principal{}, err
	}
	p := authenticator.PrincipalOf(holder)
	p.Type, p.Scopes = apikey.TypeManager, shared(p.Scopes, verified.Scopes)
	return p, nil
}

// audience returns the names of the server that a token may have as its audience. The Host header is not among them,
// as a caller with a token for another server could send that server's name. Without a public URL, the only
// certain names are those of the loopback address on which the connection arrived.
func (t *Tokens) audience(ctx context.Context, path string) []string {
	if t.publicURL != "" {
		return []string{t.publicURL + path, t.publicURL}
	}
	local, _ := ctx.Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil {
		return nil
	}
	at, err := netip.ParseAddrPort(local.String())
	if err != nil || !at.Addr().Unmap().IsLoopback() {
		return nil
	}
	var names []string
	for _, host := range []string{at.Addr().Unmap().String(), "localhost"} {
		for _, scheme := range []string{"http://", "https://"} {
			base := scheme + net.JoinHostPort(host, strconv.Itoa(int(at.Port())))
			names = append(names, base+path, base)
		}
	}
	return names
}

// holder returns the one consumer that the person acts for.
func (t *Tokens) holder(ctx context.Context, who access.Person, account, consumer string) (domain.KeyHolder, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenTime)
	defer cancel()
	bucket, name := "", ""
	if consumer != "" {
		var ok bool
		if bucket, name, ok = strings.Cut(consumer, "/"); !ok || bucket == "" || name == "" {
			return domain.KeyHolder{}, problem.Invalid(problem.Fault{Parameter: "consumer", Detail: "must be bucket/consumer"})
		}
	}
	holders, err := t.managers.ManagedHolders(ctx, who, account, bucket, name, shownConsumers+1)
	switch {
	case err != nil:
		return domain.KeyHolder{}, fmt.Errorf("look a manager up: %w", err)
	case len(holders) == 1:
		return holders[0], nil
	case len(holders) == 0:
		return domain.KeyHolder{}, problem.New(problem.Forbidden, "You are no manager of such a consumer. A manager counts after accepting the invitation, in the console.")
	}
	return domain.KeyHolder{}, several(holders)
}

// several is the problem that asks a person which consumer the request is for. The consumers that it lists are the
// person's own.
func several(holders []domain.KeyHolder) *problem.Problem {
	var names []string
	for _, h := range holders[:min(len(holders), shownConsumers)] {
		names = append(names, "account="+h.Account+"&consumer="+h.Bucket+"/"+h.Consumer)
	}
	text := strings.Join(names, ", ")
	if len(holders) > shownConsumers {
		text += " and others"
	}
	return problem.New(problem.Forbidden, "You manage several consumers. Name one in the query of the server's URL: "+text+".")
}

// shared returns the scopes that a consumer and a token both have.
func shared(consumer []domain.Scope, token []string) []domain.Scope {
	asked := make([]domain.Scope, len(token))
	for i, name := range token {
		asked[i] = domain.Scope(name)
	}
	has, may := apikey.Principal{Scopes: consumer}, apikey.Principal{Scopes: asked}
	return slices.DeleteFunc(domain.Scopes(), func(s domain.Scope) bool { return !has.May(s) || !may.May(s) })
}
