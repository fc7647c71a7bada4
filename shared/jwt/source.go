package jwt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxDocument bounds an issuer's answer, in bytes, and maxKeys the number of its keys.
	maxDocument = 128 << 10
	maxKeys     = 64
)

// Source says where the keys of an issuer are.
type Source struct {
	Issuer string
	// JWKS is the URL of the keys; empty: it is in the issuer's OpenID configuration.
	JWKS string
	// Do sends a request. It follows no redirect: keys must come from the given URL.
	Do func(*http.Request) (*http.Response, error)
}

// discovery returns the URL of the OpenID configuration of an issuer.
func discovery(issuer string) string {
	return strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration"
}

// read requests the keys.
func (s *Source) read(ctx context.Context) ([]key, error) {
	from := s.JWKS
	if from == "" {
		var err error
		if from, err = s.discover(ctx); err != nil {
			return nil, fmt.Errorf("read openid configuration: %w", err)
		}
	}
	body, err := s.get(ctx, from)
	if err != nil {
		return nil, fmt.Errorf("read jwks: %w", err)
	}
	return parseKeys(body)
}

var (
	errOther = errors.New("it is another issuer's")
	errNoURL = errors.New("its jwks_uri is no URL that may be used")
)

func (s *Source) discover(ctx context.Context) (string, error) {
	body, err := s.get(ctx, discovery(s.Issuer))
	if err != nil {
		return "", err
	}
	var document struct {
		Issuer string `json:"issuer"`
		JWKS   string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(body, &document); err != nil {
		return "", errors.New("it can't be read as JSON")
	}
	if document.Issuer != s.Issuer {
		return "", errOther
	}
	// An issuer with TLS must also have its keys at a URL with TLS.
	u, err := url.Parse(document.JWKS)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || strings.HasPrefix(s.Issuer, "https:")) {
		return "", errNoURL
	}
	return document.JWKS, nil
}

func (s *Source) get(ctx context.Context, from string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, http.NoBody)
	if err != nil {
		return nil, errNoURL
	}
	request.Header.Set("Accept", "application/json")
	response, err := s.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer is %d", response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if len(body) > maxDocument {
		return nil, fmt.Errorf("the answer is longer than %d KiB", maxDocument>>10)
	}
	return body, nil
}

// parseKeys reads a JWKS. It leaves out everything but public keys for signatures, because sets contain
// keys of all kinds.
func parseKeys(body []byte) ([]key, error) {
	var set struct {
		Keys []jsontext.Value `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, errors.New("read jwks: it can't be read as JSON")
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("read jwks: it has more than %d keys", maxKeys)
	}
	keys := make([]key, 0, len(set.Keys))
	for _, text := range set.Keys {
		var read jose.JSONWebKey
		if read.UnmarshalJSON(text) != nil || !read.IsPublic() || read.Use != "" && read.Use != "sig" {
			continue
		}
		keys = append(keys, key{read.KeyID, read.Algorithm, read.Key})
	}
	return keys, nil
}
