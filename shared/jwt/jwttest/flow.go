package jwttest

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// grant is what a code was given for.
type grant struct {
	query  url.Values
	person map[string]any
}

// Person sets the claims of the person who is signed in from now on.
func (i *Issuer) Person(claims map[string]any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.person = claims
}

func (i *Issuer) configuration(w http.ResponseWriter, _ *http.Request) {
	i.Discovered.Add(1)
	i.say(w, http.StatusOK, map[string]any{
		"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
		"registration_endpoint": i.URL + "/register", "jwks_uri": i.URL + "/keys",
		"response_types_supported": []string{"code"}, "grant_types_supported": []string{"authorization_code"},
		"code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none", "client_secret_basic"},
		"subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"RS256"},
	})
}

// register registers any client (RFC 7591).
func (i *Issuer) register(w http.ResponseWriter, r *http.Request) {
	client := map[string]any{}
	if err := json.UnmarshalRead(r.Body, &client); err != nil {
		i.say(w, http.StatusBadRequest, map[string]any{"error": "invalid_client_metadata"})
		return
	}
	client["client_id"], client["token_endpoint_auth_method"] = "client-"+i.next(), "none"
	i.say(w, http.StatusCreated, client)
}

func (i *Issuer) next() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.number++
	return strconv.Itoa(i.number)
}

// authorize signs in the present person, without asking.
func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if query.Get("client_id") == "" || query.Get("response_type") != "code" || query.Get("code_challenge_method") != "S256" {
		i.say(w, http.StatusBadRequest, map[string]any{"error": "invalid_request"})
		return
	}
	code := "code-" + i.next()
	i.mu.Lock()
	i.granted[code] = grant{query, i.person}
	i.mu.Unlock()
	back := url.Values{"code": {code}, "iss": {i.URL}}
	if state := query.Get("state"); state != "" {
		back.Set("state", state)
	}
	http.Redirect(w, r, query.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound) //nolint:gosec // the test's own client
}

// token returns an access token for the resource (RFC 8707) with the requested scopes, and an ID token for the client.
func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	code := r.FormValue("code")
	i.mu.Lock()
	granted := i.granted[code]
	delete(i.granted, code)
	i.mu.Unlock()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	resource := granted.query.Get("resource")
	if granted.query == nil || base64.RawURLEncoding.EncodeToString(sum[:]) != granted.query.Get("code_challenge") || r.FormValue("resource") != resource {
		i.say(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
		return
	}
	claims := func(audience string, others map[string]any) map[string]any {
		all := i.Claims(audience, granted.person)
		for name, value := range others {
			if value != "" {
				all[name] = value
			}
		}
		return all
	}
	i.mu.Lock()
	key := i.keys[0]
	i.mu.Unlock()
	scope := strings.TrimSpace(granted.query.Get("scope"))
	i.say(w, http.StatusOK, map[string]any{
		"token_type": "Bearer", "expires_in": int(time.Hour / time.Second), "scope": scope,
		"access_token": Sign(i.t, key, claims(resource, map[string]any{"scope": scope}), nil),
		"id_token":     Sign(i.t, key, claims(granted.query.Get("client_id"), map[string]any{"nonce": granted.query.Get("nonce")}), nil),
	})
}
