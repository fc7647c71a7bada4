package site

import (
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/edge"
)

// metadataPath is the beginning of the paths at which MCP servers name the issuer of the access tokens that they
// accept (RFC 9728). The path of the server follows.
const metadataPath = "/.well-known/oauth-protected-resource"

// metadata is the document at that path.
type metadata struct {
	Resource string   `json:"resource"`
	Issuers  []string `json:"authorization_servers,omitempty"`
	Scopes   []string `json:"scopes_supported,omitempty"`
	Methods  []string `json:"bearer_methods_supported,omitempty"`
}

// issuer returns the issuer of the access tokens that the route accepts, and the scopes that clients may ask for;
// empty: the route accepts none.
func (rt *Route) issuer(runtime *route.Runtime) (issuer string, scopes []string) {
	for _, policy := range rt.takesTokens {
		if issuer, scopes = policy.Issues(runtime); issuer != "" {
			break
		}
	}
	return issuer, scopes
}

// origin returns the beginning of a site's URLs as the client sees them.
func origin(base, scheme, host string) string {
	if base != "" {
		return base
	}
	return scheme + "://" + host
}

// challenge tells a client without a valid token where the metadata is.
func (rt *Route) challenge(r *route.Request, response *route.Response) {
	challenge, ok := strings.CutPrefix(response.Header.Get("WWW-Authenticate"), "Bearer")
	if issuer, _ := rt.issuer(r.Runtime); !ok || issuer == "" || r.Inside {
		return
	}
	text := `Bearer resource_metadata="` + origin(r.Base, r.Scheme, r.Host) + metadataPath + r.Path + `"`
	if challenge != "" {
		text += "," + challenge
	}
	response.Header.Set("WWW-Authenticate", text)
}

// resource finds the MCP server that a metadata path is about; nil: none. A route of the site with that path takes
// precedence.
func (s *Site) resource(runtime *route.Runtime, escaped string) (of *Route, path string) {
	path, ok := strings.CutPrefix(escaped, metadataPath)
	if !ok {
		return nil, ""
	}
	of = s.find(http.MethodPost, path).route
	if path == "" {
		of = s.find(http.MethodPost, "/").route
	}
	if of == nil || !of.isMCP() {
		return nil, ""
	}
	if issuer, _ := of.issuer(runtime); issuer == "" && runtime.Tokens == nil {
		return nil, ""
	}
	return of, path
}

// describe answers with the metadata of an MCP server. Pages of all origins may read it: it is public.
func (rt *Route) describe(runtime *route.Runtime, path string, w http.ResponseWriter, r *http.Request, requestID string) {
	seen := edge.Of(r)
	record := runtime.Begin(r, seen, requestID, metadataPath)
	defer runtime.End(record)
	header := w.Header()
	header.Set("Access-Control-Allow-Origin", "*")
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodOptions:
		header.Set("Access-Control-Allow-Methods", "GET")
		header.Set("Access-Control-Allow-Headers", "*")
		write(w, r.Method, &route.Response{Status: http.StatusNoContent}, record)
		return
	default:
		response := answerOf(errNoMethod, r.URL.EscapedPath(), requestID)
		response.Header.Set("Allow", "GET, HEAD, OPTIONS")
		copyHeader(header, response.Header)
		write(w, r.Method, response, record)
		return
	}
	said := metadata{Resource: origin(seen.Base, seen.Scheme, seen.Host) + path}
	if issuer, scopes := rt.issuer(runtime); issuer != "" {
		said.Issuers, said.Scopes, said.Methods = []string{issuer}, scopes, []string{"header"}
	}
	body, err := json.Marshal(said)
	if err != nil {
		response := answerOf(errInternal, r.URL.EscapedPath(), requestID)
		copyHeader(header, response.Header)
		write(w, r.Method, response, record)
		return
	}
	header.Set("Content-Type", "application/json")
	write(w, r.Method, &route.Response{Status: http.StatusOK, Body: body}, record)
}
