package console

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-json-experiment/json"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/problem"
)

// OIDC says who signs people in besides keys: an OpenID Connect provider, at which the console is
// a client. It is off without an Issuer. Who signs in so must be a manager of a consumer, by sub
// or by a verified email address, and has the scopes of that consumer.
type OIDC struct {
	Issuer, ClientID string
	ClientSecret     domain.Secret
}

const (
	// oidcTime is how long somebody may take at the provider, and to choose a consumer.
	oidcTime = 10 * time.Minute
	// askTime bounds a request to the provider.
	askTime = 10 * time.Second

	oidcPath = "/console/oidc"
)

// provider is the OpenID Connect provider. What it says of itself is read when somebody first
// signs in: the console starts while it is away.
type provider struct {
	options OIDC
	client  *http.Client
	known   atomic.Pointer[oidc.Provider]
	asking  singleflight.Group
}

func newProvider(o OIDC) (*provider, error) {
	if o.Issuer == "" {
		return nil, nil //nolint:nilnil // nobody signs in so
	}
	if o.ClientID == "" {
		return nil, errors.New("an OIDC issuer needs a client id")
	}
	return &provider{options: o, client: &http.Client{Timeout: askTime}}, nil
}

// discover returns the provider. It is asked by one call at a time, whose answer all get who
// wait for it, each until its own context ends.
func (p *provider) discover(ctx context.Context) (*oidc.Provider, error) {
	if known := p.known.Load(); known != nil {
		return known, nil
	}
	answer := p.asking.DoChan("", func() (any, error) {
		// The provider fetches its keys later, too: it must not end with this request.
		found, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), p.client), p.options.Issuer)
		if err == nil {
			p.known.Store(found)
		}
		return found, err
	})
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("discover OIDC provider: %w", ctx.Err())
	case asked := <-answer:
		if asked.Err != nil {
			return nil, fmt.Errorf("discover OIDC provider: %w", asked.Err)
		}
		return p.known.Load(), nil
	}
}

func (p *provider) config(known *oidc.Provider, base string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.options.ClientID, ClientSecret: p.options.ClientSecret.Reveal(), Endpoint: known.Endpoint(),
		RedirectURL: base + oidcPath + "/callback", Scopes: []string{oidc.ScopeOpenID, "email"},
	}
}

// journey is what the browser keeps while its user is at the provider.
type journey struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	Next     string `json:"next"`
}

// startOIDC leads to the provider. It is a link, no form: browsers apply form-action to where a
// form's answer leads.
func (c *Console) startOIDC(p *Page) error {
	known, err := c.oidc.discover(p.Context())
	if err != nil {
		return c.providerAway(err)
	}
	j := journey{State: random(), Nonce: random(), Verifier: oauth2.GenerateVerifier(), Next: safeNext(p.Query("next"))}
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	p.keep(stateCookie, string(text), "", oidcTime)
	return p.Redirect(c.oidc.config(known, p.Base()).AuthCodeURL(j.State, oidc.Nonce(j.Nonce), oauth2.S256ChallengeOption(j.Verifier)))
}

func (c *Console) providerAway(err error) error {
	c.Logger.Warn("the OIDC provider can't be asked", "error", err)
	return problem.New(problem.Unavailable, "The identity provider can't be reached now. Try again, or sign in with a key.")
}

// person is who has signed in at the provider.
type person struct {
	Sub           string `json:"sub"`
	Email         string `json:"email"`
	EmailVerified bool   `json:"email_verified"`
	// Party is whom the token was issued to; empty: it is not said.
	Party string `json:"azp,omitempty"`
}

// managing is the person as consumers name their managers.
func (p person) managing() access.Person {
	who := access.Person{Sub: p.Sub}
	if p.EmailVerified {
		who.Email = p.Email
	}
	return who
}

// name is the person as pages show it.
func (p person) name() string {
	if p.Email != "" && p.EmailVerified {
		return p.Email
	}
	return p.Sub
}

// refused is the answer to who comes back from the provider without what must be there.
func (p *Page) refused(wrong string) error {
	return p.show(http.StatusUnauthorized, "sign-in.html", "Sign in", SignIn{Next: "/console", Wrong: wrong, OIDC: true})
}

// endOIDC takes who comes back from the provider.
func (c *Console) endOIDC(p *Page) error {
	j, ok := p.journey()
	p.drop(stateCookie)
	if !ok || subtle.ConstantTimeCompare([]byte(j.State), []byte(p.Query("state"))) != 1 {
		return p.refused("This sign-in was not begun here, or took longer than ten minutes. Begin again.")
	}
	if p.Query("error") != "" || p.Query("code") == "" {
		return p.refused("The identity provider did not sign you in.")
	}
	who, err := c.identify(p, j)
	if err != nil {
		c.Logger.Warn("an OIDC sign-in was refused", "error", err, "requestId", p.RequestID)
		return p.refused("The identity provider's answer could not be verified.")
	}
	return c.signInPerson(p, who, safeNext(j.Next))
}

func (p *Page) journey() (j journey, ok bool) {
	text, ok := p.kept(stateCookie, "")
	if !ok || json.Unmarshal([]byte(text), &j) != nil {
		return j, false
	}
	return j, j.State != "" && j.Nonce != "" && j.Verifier != ""
}

// identify exchanges the code and verifies what the provider says of the person.
func (c *Console) identify(p *Page, j journey) (person, error) {
	known, err := c.oidc.discover(p.Context())
	if err != nil {
		return person{}, err
	}
	ctx := oidc.ClientContext(p.Context(), c.oidc.client)
	token, err := c.oidc.config(known, p.Base()).Exchange(ctx, p.Query("code"), oauth2.VerifierOption(j.Verifier))
	if err != nil {
		return person{}, fmt.Errorf("exchange code: %w", withoutBody(err))
	}
	raw, _ := token.Extra("id_token").(string)
	verified, err := known.VerifierContext(ctx, &oidc.Config{ClientID: c.oidc.options.ClientID}).Verify(ctx, raw)
	if err != nil {
		return person{}, fmt.Errorf("verify id token: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(verified.Nonce), []byte(j.Nonce)) != 1 {
		return person{}, errors.New("verify id token: the nonce is another one")
	}
	var who person
	if err := verified.Claims(&who); err != nil {
		return person{}, fmt.Errorf("read id token: %w", err)
	}
	// OpenID Connect Core 3.1.3.7, 4 and 5.
	if id := c.oidc.options.ClientID; who.Party != id && (who.Party != "" || len(verified.Audience) > 1) {
		return person{}, errors.New("verify id token: it was issued to another party (azp)")
	}
	return who, nil
}

// withoutBody leaves out what the provider answered: it may have what is secret.
func withoutBody(err error) error {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return fmt.Errorf("the provider answered %q", refused.ErrorCode)
	}
	return err
}
