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

// OIDC is the OpenID Connect provider that signs people in, in addition to keys; the console is its
// client. It is off without an Issuer. A person who signs in this way must be a manager of a
// consumer, by sub or by a verified email address, and has the scopes of that consumer.
type OIDC struct {
	Issuer, ClientID string
	ClientSecret     domain.Secret
}

const (
	// oidcTime is how long a person may take at the provider, and to choose a consumer.
	oidcTime = 10 * time.Minute
	// askTime bounds a request to the provider.
	askTime = 10 * time.Second

	oidcPath = "/console/oidc"
)

// provider is the OpenID Connect provider. Its metadata is read at the first sign-in, so that the
// console can start while the provider is away.
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

// discover returns the provider. Only one call at a time asks the provider; the other callers wait
// for its answer, each until its own context ends.
func (p *provider) discover(ctx context.Context) (*oidc.Provider, error) {
	if known := p.known.Load(); known != nil {
		return known, nil
	}
	answer := p.asking.DoChan("", func() (any, error) {
		// The provider also fetches its keys later, so its context must not end with this request.
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

// journey is the data in a cookie while the person is at the provider.
type journey struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	Next     string `json:"next"`
}

// startOIDC redirects to the provider. It is a link, not a form: browsers apply form-action to the
// redirect after a form, too.
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

// person is a person who has signed in at the provider.
type person struct {
	Sub           string `json:"sub"`
	Email         string `json:"email"`
	EmailVerified bool   `json:"email_verified"`
	// Party is the party that the token was issued to; empty: the token does not say.
	Party string `json:"azp,omitempty"`
}

// managing returns the person in the form in which consumers name their managers.
func (p person) managing() access.Person {
	who := access.Person{Sub: p.Sub}
	if p.EmailVerified {
		who.Email = p.Email
	}
	return who
}

// name returns the person's name for pages.
func (p person) name() string {
	if p.Email != "" && p.EmailVerified {
		return p.Email
	}
	return p.Sub
}

// refused answers a person who comes back from the provider without valid data.
func (p *Page) refused(wrong string) error {
	return p.show(http.StatusUnauthorized, "sign-in.html", "Sign in", SignIn{Next: "/console", Wrong: wrong, OIDC: true})
}

// endOIDC handles the return from the provider.
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

// identify exchanges the code and verifies the provider's token for the person.
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

// withoutBody removes the provider's answer from an error: it may contain secrets.
func withoutBody(err error) error {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return fmt.Errorf("the provider answered %q", refused.ErrorCode)
	}
	return err
}
