package jwt_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"waybill.dev/shared/jwt"
	"waybill.dev/shared/jwt/jwttest"
)

// publisher answers with keys, inside of a bubble of time.
type publisher struct {
	t     *testing.T
	keys  []jose.JSONWebKey
	down  bool
	slow  time.Duration
	asked int
}

func (p *publisher) do(r *http.Request) (*http.Response, error) {
	p.asked++
	if p.slow > 0 {
		select {
		case <-time.After(p.slow):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if p.down {
		return nil, errors.New("connection refused")
	}
	var set []string
	for _, key := range p.keys {
		public := key.Public()
		text, err := public.MarshalJSON()
		if err != nil {
			p.t.Error(err)
		}
		set = append(set, string(text))
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"keys":[` + strings.Join(set, ",") + `]}`))}, nil
}

func (p *publisher) source() jwt.Source {
	return jwt.Source{Issuer: "https://id.example.com", JWKS: "https://id.example.com/keys", Do: p.do}
}

// holds reports what is said of a token signed now with a key.
func (p *publisher) holds(keys *jwt.Keys, key jose.JSONWebKey) string {
	p.t.Helper()
	claims := map[string]any{"iss": "https://id.example.com", "aud": audience, "exp": time.Now().Add(time.Hour).Unix()}
	return refused(p.t, &jwt.Rules{Issuer: "https://id.example.com", Audience: []string{audience}}, keys, jwttest.Sign(p.t, key, claims, nil))
}

// A new key counts with its first token. Tokens that name keys that nobody has don't have the issuer asked at will. Keys
// that are withdrawn end within minutes, and those that can't be read again hold for a day.
func TestRotation(t *testing.T) {
	t.Parallel()
	first, second, never := jwttest.Key(t, "RS256", "1"), jwttest.Key(t, "ES256", "2"), jwttest.Key(t, "ES256", "never")
	synctest.Test(t, func(t *testing.T) {
		p := &publisher{t: t, keys: []jose.JSONWebKey{first}}
		keys := jwt.NewKeys(p.source())
		check := func(what string, key jose.JSONWebKey, want string, asked int) {
			t.Helper()
			got := p.holds(keys, key)
			synctest.Wait()
			if got != want || p.asked != asked {
				t.Errorf("%s: %q after %d questions, want %q after %d", what, got, p.asked, want, asked)
			}
		}
		const unknown = "the issuer has no such key"
		check("the first token", first, "", 1)
		check("a second one", first, "", 1)
		p.keys = []jose.JSONWebKey{first, second}
		check("a new key, a moment later", second, unknown, 1)
		<-time.After(30 * time.Second)
		check("a new key", second, "", 2)
		for range 100 {
			check("a key that nobody has", never, unknown, 2)
		}
		<-time.After(30 * time.Second)
		check("and again", never, unknown, 3)
		check("and again", never, unknown, 3)

		p.keys = []jose.JSONWebKey{second}
		<-time.After(10 * time.Minute)
		check("keys are read again, beside the request", first, "", 4)
		check("the key is withdrawn", first, unknown, 4)

		p.down = true
		<-time.After(10 * time.Minute)
		check("the issuer is away", second, "", 5)
		<-time.After(time.Second)
		check("it is not asked at each request", second, "", 5)
		check("a key that may be new", first, "unavailable: the issuer's keys can't be read: read jwks: ask: connection refused", 5)
		<-time.After(23 * time.Hour)
		check("for a day", second, "", 6)
		<-time.After(time.Hour)
		check("and no longer", second, "unavailable: the issuer's keys can't be read: read jwks: ask: connection refused", 7)
		check("it is not asked at each request", second, "unavailable: the issuer's keys can't be read: read jwks: ask: connection refused", 7)
		p.down = false
		<-time.After(5 * time.Second)
		check("it is back", second, "", 8)
	})
}

// An issuer that does not answer is asked by one question, and nobody waits for longer than that may take.
func TestSlowIssuer(t *testing.T) {
	t.Parallel()
	key := jwttest.Key(t, "RS256", "1")
	synctest.Test(t, func(t *testing.T) {
		p := &publisher{t: t, keys: []jose.JSONWebKey{key}, slow: time.Hour}
		keys := jwt.NewKeys(p.source())
		began := time.Now()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if got := p.holds(keys, key); !strings.HasPrefix(got, "unavailable") {
					t.Errorf("%q", got)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took != 5*time.Second || p.asked != 1 {
			t.Errorf("%d questions in %v", p.asked, took)
		}
	})
}

// BenchmarkVerify is what a token costs with keys that are known.
func BenchmarkVerify(b *testing.B) {
	for _, algorithm := range []string{"RS256", "ES256", "EdDSA"} {
		b.Run(algorithm, func(b *testing.B) {
			i := jwttest.New(b)
			i.Rotate(jwttest.Key(b, algorithm, "1"))
			keys, token, rules := keysOf(i), i.Token(audience, nil), rules(i)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := rules.Verify(b.Context(), token, keys); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
