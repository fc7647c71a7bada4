// Package inspect lists what an MCP server offers.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	neturl "net/url"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/shared/domain"
)

// Report has what a server says about itself and what it lists for the caller. Lists are in the
// server's order.
type Report struct {
	Name            string     `json:"name"`
	Version         string     `json:"version"`
	ProtocolVersion string     `json:"protocolVersion"`
	Instructions    string     `json:"instructions,omitempty"`
	Tools           []Tool     `json:"tools"`
	Prompts         []Prompt   `json:"prompts"`
	Resources       []Resource `json:"resources"`
	Templates       []Resource `json:"resourceTemplates"`
}

// Tool is a tool of the server.
type Tool struct {
	Name        string               `json:"name"`
	Description string               `json:"description"`
	InputSchema any                  `json:"inputSchema"`
	Annotations *mcp.ToolAnnotations `json:"annotations,omitempty"`
}

// Hints describes the annotations about the tool's effects in words.
func (t *Tool) Hints() []string {
	if t.Annotations == nil {
		return nil
	}
	if t.Annotations.ReadOnlyHint {
		return []string{"reads"}
	}
	hints := []string{"changes"}
	if d := t.Annotations.DestructiveHint; d == nil || *d {
		hints = append(hints, "destructive")
	}
	if t.Annotations.IdempotentHint {
		hints = append(hints, "repeatable")
	}
	return hints
}

// Prompt is a text that a person can have put to the model.
type Prompt struct {
	Name        string     `json:"name"`
	Description string     `json:"description"`
	Arguments   []Argument `json:"arguments"`
}

// Argument is one of a prompt.
type Argument struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Required    bool   `json:"required"`
}

// Resource is a resource, with its uri or a template for uris.
type Resource struct {
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Description string `json:"description"`
	MIMEType    string `json:"mimeType"`
}

// Server asks the server at endpoint; key may be empty.
func Server(ctx context.Context, endpoint string, key domain.Secret, version string) (*Report, error) {
	transport := &keyed{key: key, inner: client.NewTransport()}
	caller := mcp.NewClient(&mcp.Implementation{Name: "waybill", Version: version}, nil)
	session, err := caller.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: endpoint, MaxRetries: -1, DisableStandaloneSSE: true,
		HTTPClient: &http.Client{
			Transport: transport,
			// The key is for this server, not for the target of a redirect.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", transport.plain(err))
	}
	defer session.Close()
	said := session.InitializeResult()
	report := &Report{
		ProtocolVersion: said.ProtocolVersion, Instructions: said.Instructions,
		Tools: []Tool{}, Prompts: []Prompt{}, Resources: []Resource{}, Templates: []Resource{},
	}
	if said.ServerInfo != nil {
		report.Name, report.Version = said.ServerInfo.Name, said.ServerInfo.Version
	}
	if said.Capabilities == nil {
		return report, nil
	}
	if what, err := report.fill(ctx, session, said.Capabilities); err != nil {
		return nil, fmt.Errorf("list %s: %w", what, transport.plain(err))
	}
	return report, nil
}

// fill reads the lists that the server says it has. what names the list that failed.
func (r *Report) fill(ctx context.Context, session *mcp.ClientSession, has *mcp.ServerCapabilities) (what string, err error) {
	parts := []struct {
		name string
		has  bool
		ask  func(context.Context, *mcp.ClientSession) error
	}{
		{"tools", has.Tools != nil, r.tools},
		{"prompts", has.Prompts != nil, r.prompts},
		{"resources", has.Resources != nil, r.resources},
	}
	for _, part := range parts {
		if !part.has {
			continue
		}
		if err := part.ask(ctx, session); err != nil {
			return part.name, err
		}
	}
	return "", nil
}

func (r *Report) tools(ctx context.Context, session *mcp.ClientSession) error {
	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		r.Tools = append(r.Tools, Tool{t.Name, t.Description, t.InputSchema, t.Annotations})
	}
	return nil
}

func (r *Report) prompts(ctx context.Context, session *mcp.ClientSession) error {
	for p, err := range session.Prompts(ctx, nil) {
		if err != nil {
			return err
		}
		prompt := Prompt{Name: p.Name, Description: p.Description, Arguments: []Argument{}}
		for _, a := range p.Arguments {
			prompt.Arguments = append(prompt.Arguments, Argument{a.Name, a.Description, a.Required})
		}
		r.Prompts = append(r.Prompts, prompt)
	}
	return nil
}

func (r *Report) resources(ctx context.Context, session *mcp.ClientSession) error {
	for resource, err := range session.Resources(ctx, nil) {
		if err != nil {
			return err
		}
		r.Resources = append(r.Resources, Resource{resource.URI, resource.Name, resource.Description, resource.MIMEType})
	}
	for t, err := range session.ResourceTemplates(ctx, nil) {
		if err != nil {
			return err
		}
		r.Templates = append(r.Templates, Resource{t.URITemplate, t.Name, t.Description, t.MIMEType})
	}
	return nil
}

// keyed adds the key to each request, and remembers how the last one was answered.
type keyed struct {
	key   domain.Secret
	inner http.RoundTripper
	last  atomic.Int32
}

// RoundTrip implements http.RoundTripper.
func (k *keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	if k.key != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+k.key.Reveal())
	}
	k.last.Store(0)
	response, err := k.inner.RoundTrip(r)
	if err == nil {
		k.last.Store(int32(response.StatusCode))
	}
	return response, err
}

// plain returns the reason why a call failed, without the wrapping of the SDK and net/http.
func (k *keyed) plain(err error) error {
	switch k.last.Load() {
	case http.StatusUnauthorized:
		return errors.New("the server needs an API key: give one with --key")
	case http.StatusForbidden:
		return errors.New("the key may not use this server; Waybill's own server needs the scope mcp:use")
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return errors.New("there is no MCP server at this URL")
	}
	if failed, ok := errors.AsType[*neturl.Error](err); ok {
		return failed.Err
	}
	return err
}
