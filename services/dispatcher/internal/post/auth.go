package post

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/receiverauth"
)

// headerAuthorization is the header that authenticates a request.
const headerAuthorization = "Authorization"

// auth is what each attempt has to do so that a webhook's receiver knows who calls. What is
// the same in all of them, a header, is none of it.
type auth struct {
	identity func() (*egress.Identity, error) // nil: none
	tokens   *tokens                          // nil: none
}

// authenticate prepares how callbacks of a webhook are authenticated.
func (p *Prepared) authenticate(kept domain.Secret) error {
	if kept == "" {
		return nil
	}
	of, err := receiverauth.Decode(kept)
	if err != nil {
		return fmt.Errorf("read auth: %w", err)
	}
	if of.Type.UsesHeader() {
		p.names = append(p.names, headerAuthorization)
	}
	switch of.Type {
	case receiverauth.Basic, receiverauth.Bearer:
		p.headers = append(p.headers, egress.Field{Name: headerAuthorization, Value: of.Authorization()})
	case receiverauth.OAuth2:
		p.auth = &auth{tokens: newTokens(of)}
	case receiverauth.MTLS:
		// To read a key takes long. Only those are read that are used.
		p.auth = &auth{identity: sync.OnceValues(func() (*egress.Identity, error) { return identityOf(of) })}
	}
	return nil
}

func identityOf(of *receiverauth.Auth) (*egress.Identity, error) {
	pair, err := of.KeyPair()
	if err != nil {
		return nil, err
	}
	authorities, err := of.Authorities()
	if err != nil {
		return nil, err
	}
	return egress.NewIdentity(&pair, authorities), nil
}

// failure is why a request could not be authenticated, for the log's readers. It has no
// secret, and nothing of what a token server wrote.
type failure string

func (f failure) Error() string { return string(f) }

// exchange sends a request that must be authenticated. A receiver that answers 401 to a token
// gets the request once more, with a new one. All of it ends at the request's timeout. If it
// fails with a failure there may have been an answer, 401, nevertheless.
func (p *Poster) exchange(ctx context.Context, a *auth, request *egress.Request, userAgent string) (egress.Response, error) {
	if a.identity != nil {
		identity, err := a.identity()
		if err != nil {
			return egress.Response{}, failure("the webhook's client certificate can't be used")
		}
		request.Identity = identity
		return p.client.Post(ctx, request), nil
	}
	asked := &asking{client: p.client, userAgent: userAgent, timeout: cmp.Or(request.Timeout, domain.DefaultTimeout)}
	deadline := time.Now().Add(asked.timeout)
	token, err := a.tokens.get(ctx, asked, deadline, "")
	if err != nil {
		return egress.Response{}, err
	}
	own := len(request.Header)
	request.Header = append(request.Header, egress.Field{Name: headerAuthorization, Value: receiverauth.BearerValue(token)})
	request.Timeout = left(deadline)
	response := p.client.Post(ctx, request)
	if response.Status != http.StatusUnauthorized {
		return response, nil
	}
	if token, err = a.tokens.get(ctx, asked, deadline, token); err != nil {
		return response, err
	}
	request.Header[own].Value = receiverauth.BearerValue(token)
	request.Timeout = left(deadline)
	return p.client.Post(ctx, request), nil
}

// left is the time until a deadline. It is never 0, which would stand for no limit.
func left(deadline time.Time) time.Duration { return max(time.Until(deadline), 1) }
