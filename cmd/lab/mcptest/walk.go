package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// expectations say what a server has, and what is in it. clients.mjs and clients.py read the same file.
type expectations struct {
	Resources map[string]expected `json:"resources"` // by uri
	Templates map[string]expected `json:"templates"` // by URI template; the entry's uri is an example that matches it
	Tools     map[string]expected `json:"tools"`     // by name
	Prompts   map[string]expected `json:"prompts"`   // by name
}

type expected struct {
	URI       string         `json:"uri"`
	MIMEType  string         `json:"mimeType"`
	Contains  string         `json:"contains"`
	Binary    bool           `json:"binary"`
	IsError   bool           `json:"isError"`
	Arguments map[string]any `json:"arguments"`
}

// walker goes through a server with the Go SDK's client.
type walker struct {
	session *mcp.ClientSession
	want    expectations
	checks  int
	faults  []error
}

// walk lists everything, reads every resource, calls every tool and gets every prompt.
func walk(ctx context.Context, url, key, file string, out io.Writer) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the expectations: %w", err)
	}
	w := &walker{}
	if err := json.Unmarshal(raw, &w.want); err != nil {
		return fmt.Errorf("read the expectations %s: %w", file, err)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "waybill-go-sdk", Version: "1"}, nil)
	w.session, err = client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: bearer(key)},
	}, nil)
	if err != nil {
		return fmt.Errorf("connect with the Go SDK: %w", err)
	}
	defer w.session.Close()
	for _, part := range []func(context.Context) error{w.resources, w.tools, w.prompts} {
		if err := part(ctx); err != nil {
			return fmt.Errorf("client go-sdk: %w", err)
		}
	}
	fmt.Fprintf(out, "go-sdk (%s): %d of %d checks passed\n", w.session.InitializeResult().ProtocolVersion, w.checks-len(w.faults), w.checks)
	if err := errors.Join(w.faults...); err != nil {
		return fmt.Errorf("client go-sdk: %w", err)
	}
	return nil
}

// bearer sends an API key with every request, unless it is empty.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	return http.DefaultTransport.RoundTrip(r)
}

func (w *walker) check(ok bool, format string, args ...any) {
	w.checks++
	if !ok {
		w.faults = append(w.faults, fmt.Errorf(format, args...))
	}
}

// sameNames checks that what is listed is what is expected, in any order.
func (w *walker) sameNames(what string, listed []string, want map[string]expected) {
	slices.Sort(listed)
	names := slices.Sorted(maps.Keys(want))
	w.check(slices.Equal(listed, names), "%s are %q, want %q", what, listed, names)
}

// says checks that the JSON of content contains a text.
func (w *walker) says(what string, content any, text string) {
	said, err := plain(content)
	if err != nil {
		w.check(false, "read what %s says: %w", what, err)
		return
	}
	w.check(bytes.Contains(said, []byte(text)), "%s says %s, without %q", what, said, text)
}

// plain encodes content with the characters of HTML as they are. The SDK's own methods
// escape them, so this is done to what they have made.
func plain(content any) ([]byte, error) {
	raw, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err = encoder.Encode(value)
	return b.Bytes(), err
}

func (w *walker) resources(ctx context.Context) error {
	var listed, templates []string
	for r, err := range w.session.Resources(ctx, nil) {
		if err != nil {
			return fmt.Errorf("list resources: %w", err)
		}
		listed = append(listed, r.URI)
	}
	for t, err := range w.session.ResourceTemplates(ctx, nil) {
		if err != nil {
			return fmt.Errorf("list templates: %w", err)
		}
		templates = append(templates, t.URITemplate)
	}
	w.sameNames("resources", listed, w.want.Resources)
	w.sameNames("templates", templates, w.want.Templates)
	for uri, want := range w.want.Resources {
		if err := w.read(ctx, uri, want); err != nil {
			return err
		}
	}
	for _, want := range w.want.Templates {
		if err := w.read(ctx, want.URI, want); err != nil {
			return err
		}
	}
	_, err := w.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: "test://there/is/no/such/resource"})
	var refusal *jsonrpc.Error
	w.check(errors.As(err, &refusal) && refusal.Code == jsonrpc.CodeInvalidParams, "an unknown uri is answered with %v", err)
	return nil
}

func (w *walker) read(ctx context.Context, uri string, want expected) error {
	result, err := w.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
	if err != nil {
		return fmt.Errorf("read %s: %w", uri, err)
	}
	w.check(len(result.Contents) == 1, "%s has %d contents", uri, len(result.Contents))
	for _, content := range result.Contents {
		w.check(content.URI == uri && content.MIMEType == want.MIMEType, "%s is %s of the type %s", uri, content.URI, content.MIMEType)
		w.check((content.Blob != nil) == want.Binary, "%s is binary: %t", uri, content.Blob != nil)
		if want.Binary {
			w.says(uri, content.Blob, want.Contains)
		} else {
			w.check(strings.Contains(content.Text, want.Contains), "%s says %q, without %q", uri, content.Text, want.Contains)
		}
	}
	return nil
}

func (w *walker) tools(ctx context.Context) error {
	var listed []string
	for t, err := range w.session.Tools(ctx, nil) {
		if err != nil {
			return fmt.Errorf("list tools: %w", err)
		}
		listed = append(listed, t.Name)
	}
	order := slices.Clone(listed)
	w.sameNames("tools", listed, w.want.Tools)
	for _, name := range order {
		want, ok := w.want.Tools[name]
		if !ok {
			continue
		}
		result, err := w.session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: want.Arguments})
		if err != nil {
			return fmt.Errorf("call %s: %w", name, err)
		}
		w.check(result.IsError == want.IsError, "%s fails: %t", name, result.IsError)
		w.says(name, result.Content, want.Contains)
	}
	return nil
}

func (w *walker) prompts(ctx context.Context) error {
	var listed []string
	for p, err := range w.session.Prompts(ctx, nil) {
		if err != nil {
			return fmt.Errorf("list prompts: %w", err)
		}
		listed = append(listed, p.Name)
	}
	w.sameNames("prompts", listed, w.want.Prompts)
	for name, want := range w.want.Prompts {
		arguments := map[string]string{}
		for argument, value := range want.Arguments {
			arguments[argument] = fmt.Sprint(value)
		}
		result, err := w.session.GetPrompt(ctx, &mcp.GetPromptParams{Name: name, Arguments: arguments})
		if err != nil {
			return fmt.Errorf("get %s: %w", name, err)
		}
		w.says(name, result.Messages, want.Contains)
	}
	return nil
}
