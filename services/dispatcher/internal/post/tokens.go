package post

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"waybill.dev/shared/egress"
	"waybill.dev/shared/receiverauth"
)

// These constants are how long a token is used.
const (
	tokenMargin      = time.Minute     // a token is not used for this long before its end
	defaultTokenLife = 5 * time.Minute // how long a token is used if the server does not say when it ends
	maxTokenLife     = 24 * time.Hour
	maxToken         = 8 << 10 // bytes
)

// tokens has the token of one state of a webhook. Attempts share the token. While there is none,
// they wait together for one request.
type tokens struct {
	auth *receiverauth.Auth
	form url.Values // of each request

	asking singleflight.Group

	mu    sync.Mutex
	token string
	until time.Time
}

func newTokens(auth *receiverauth.Auth) *tokens {
	t := &tokens{auth: auth, form: url.Values{"grant_type": {"client_credentials"}}}
	if auth.Scope != "" {
		t.form.Set("scope", auth.Scope)
	}
	if auth.Audience != "" {
		t.form.Set("audience", auth.Audience)
	}
	return t
}

// get returns a token other than stale, until the deadline. Its error is a failure.
func (t *tokens) get(ctx context.Context, by *tokenCaller, deadline time.Time, stale string) (string, error) {
	if token := t.usableToken(stale); token != "" {
		return token, nil
	}
	// The request serves all attempts that wait, so it has a timeout of its own.
	answer := t.asking.DoChan("", func() (any, error) { return t.renew(context.WithoutCancel(ctx), by) })
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case got := <-answer:
		token, _ := got.Val.(string)
		return token, got.Err
	case <-timer.C:
		return "", noToken(egress.CodeTimeout.Text())
	}
}

// usableToken returns the token, unless it is stale or about to end; empty: there is no good token.
func (t *tokens) usableToken(stale string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token == stale || !time.Now().Before(t.until) {
		t.token = ""
	}
	return t.token
}

// renew asks for a token, for the attempts that wait now and those that come later.
func (t *tokens) renew(ctx context.Context, by *tokenCaller) (string, error) {
	if token := t.usableToken(""); token != "" {
		return token, nil // the token came a moment ago
	}
	began := time.Now()
	token, life, err := t.fetchToken(ctx, by, began.Add(by.timeout))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.token, t.until = token, began.Add(life-tokenMargin)
	return token, err
}

// tokenCaller is what a request for a token needs in addition to the webhook's settings.
type tokenCaller struct {
	client    Client
	userAgent string
	timeout   time.Duration
}

// fetchToken asks the token server (RFC 6749, section 4.4): with id and secret in the header or, if the
// server does not accept that header, with both in the body.
func (t *tokens) fetchToken(ctx context.Context, by *tokenCaller, deadline time.Time) (token string, life time.Duration, err error) {
	name, secret := url.QueryEscape(t.auth.ClientID), url.QueryEscape(t.auth.ClientSecret.Reveal())
	request := &egress.Request{
		URL: t.auth.TokenURL, Body: []byte(t.form.Encode()), Timeout: timeLeft(deadline), Whole: true,
		Header: []egress.Field{
			{Name: "Content-Type", Value: "application/x-www-form-urlencoded"}, {Name: "Accept", Value: "application/json"},
			{Name: "User-Agent", Value: by.userAgent}, {Name: headerAuthorization, Value: receiverauth.BasicValue(name, secret)},
		},
	}
	response := by.client.Post(ctx, request)
	if response.Status == http.StatusUnauthorized {
		request.Header = request.Header[:len(request.Header)-1]
		request.Body = []byte(t.form.Encode() + "&client_id=" + name + "&client_secret=" + secret)
		request.Timeout = timeLeft(deadline)
		response = by.client.Post(ctx, request)
	}
	switch {
	case response.Status == 0:
		return "", 0, noToken(response.Err.Text())
	case response.Status != http.StatusOK:
		return "", 0, noToken(refusal(response.Status, response.Body))
	}
	return readToken(response.Body)
}

func noToken(why string) error { return failure("no token for the receiver: the token server: " + why) }

// refusal describes the answer of a token server. It names the reason only if that is one of the
// standard's codes; it never repeats other text of the server.
func refusal(status int, body string) string {
	var answer struct {
		Error string `json:"error"`
	}
	if json.Unmarshal([]byte(body), &answer) == nil {
		switch answer.Error {
		case "invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope":
			return fmt.Sprintf("answered %d (%s)", status, answer.Error)
		}
	}
	return fmt.Sprintf("answered %d", status)
}

// readToken reads a token server's answer.
func readToken(body string) (token string, life time.Duration, err error) {
	var answer struct {
		Token string          `json:"access_token"`
		Type  string          `json:"token_type"`
		Life  json.RawMessage `json:"expires_in"`
	}
	switch err := json.Unmarshal([]byte(body), &answer); {
	case err != nil || answer.Token == "":
		return "", 0, noToken("its answer has no access_token")
	case answer.Type != "" && !strings.EqualFold(answer.Type, "bearer"):
		return "", 0, noToken("its token is not of the type Bearer")
	case len(answer.Token) > maxToken || !receiverauth.ValidToken(answer.Token):
		return "", 0, noToken("its token can't stand in a header")
	}
	return answer.Token, lifeOf(answer.Life), nil
}

// lifeOf reads how long a token is good: seconds, which some servers write as text.
func lifeOf(raw json.RawMessage) time.Duration {
	seconds, err := strconv.ParseFloat(strings.Trim(string(raw), `"`), 64)
	if err != nil || math.IsNaN(seconds) {
		return defaultTokenLife + tokenMargin
	}
	return time.Duration(min(max(seconds, 0), maxTokenLife.Seconds()) * float64(time.Second))
}
