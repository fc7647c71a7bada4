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

// auth is what each attempt has to do to authenticate callbacks at a webhook's receiver. A header
// that is the same in all callbacks is not part of it.
type auth struct {
	identity func() (*egress.Identity, error) // nil: there is no client certificate
	tokens   *tokens                          // nil: there are no tokens
}

// authenticate prepares how callbacks of a webhook are authenticated.
func (p *CallbackParts) authenticate(kept domain.Secret) error {
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
		// Reading a key takes long, so a key is read only when it is used.
		p.auth = &auth{identity: sync.OnceValues(func() (*egress.Identity, error) { return identityOf(of) })}
	}
	return nil
}

func identityOf(auth *receiverauth.Auth) (*egress.Identity, error) {
	pair, err := auth.KeyPair()
	if err != nil {
		return nil, err
	}
	authorities, err := auth.Authorities()
	if err != nil {
		return nil, err
	}
	return egress.NewIdentity(&pair, authorities), nil
}

// failure is why a request could not be authenticated, for readers of the log. It contains no
// secret, and nothing of what a token server wrote.
type failure string

func (f failure) Error() string { return string(f) }

// exchange sends a request that must be authenticated. If a receiver answers 401 to a token,
// exchange sends the request once more with a new token. All of that ends at the request's timeout.
// If the error is a failure, the response may still be an answer, with status 401.
func (p *Poster) exchange(ctx context.Context, a *auth, request *egress.Request, userAgent string) (egress.Response, error) {
	if a.identity != nil {
		identity, err := a.identity()
		if err != nil {
			return egress.Response{}, failure("the webhook's client certificate can't be used")
		}
		request.Identity = identity
		return p.client.Post(ctx, request), nil
	}
	asked := &tokenCaller{client: p.client, userAgent: userAgent, timeout: cmp.Or(request.Timeout, domain.DefaultTimeout)}
	deadline := time.Now().Add(asked.timeout)
	token, err := a.tokens.get(ctx, asked, deadline, "")
	if err != nil {
		return egress.Response{}, err
	}
	own := len(request.Header)
	request.Header = append(request.Header, egress.Field{Name: headerAuthorization, Value: receiverauth.BearerValue(token)})
	request.Timeout = timeLeft(deadline)
	response := p.client.Post(ctx, request)
	if response.Status != http.StatusUnauthorized {
		return response, nil
	}
	if token, err = a.tokens.get(ctx, asked, deadline, token); err != nil {
		return response, err
	}
	request.Header[own].Value = receiverauth.BearerValue(token)
	request.Timeout = timeLeft(deadline)
	return p.client.Post(ctx, request), nil
}

// timeLeft returns the time until a deadline. It is never 0, because 0 means no limit.
func timeLeft(deadline time.Time) time.Duration { return max(time.Until(deadline), 1) }
