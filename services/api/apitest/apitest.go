// Package apitest checks answers of the API against the OpenAPI document that the API serves. It is
// for tests, of this module and of modules that use it.
package apitest

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const location = "https://waybill.dev/openapi.json"

// Checker checks answers. It may be used by several goroutines.
type Checker struct {
	document map[string]any
	paths    []path // paths without parameters first

	mu       sync.Mutex // guards the fields below
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema
}

// path is a path of the document, in segments; a {name} matches any segment.
type path struct {
	template string
	segments []string
}

// New reads the OpenAPI document.
func New(document []byte) (*Checker, error) {
	read, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return nil, fmt.Errorf("read OpenAPI document: %w", err)
	}
	whole, ok := read.(map[string]any)
	if !ok {
		return nil, errors.New("read OpenAPI document: it is no object")
	}
	c := &Checker{document: whole, compiler: jsonschema.NewCompiler(), schemas: make(map[string]*jsonschema.Schema)}
	c.compiler.DefaultDraft(jsonschema.Draft2020)
	c.compiler.AssertFormat()
	for template := range member(whole, "paths") {
		c.paths = append(c.paths, path{template, strings.Split(template, "/")})
	}
	slices.SortFunc(c.paths, func(a, b path) int {
		if n := strings.Count(a.template, "{") - strings.Count(b.template, "{"); n != 0 {
			return n
		}
		return strings.Compare(a.template, b.template)
	})
	closeObjects(member(member(whole, "components"), "schemas"))
	closeObjects(member(whole, "paths"))
	if err := c.compiler.AddResource(location, whole); err != nil {
		return nil, fmt.Errorf("read OpenAPI document: %w", err)
	}
	return c, nil
}

// closeObjects forbids other members in schemas that name some members and do not mention others,
// so that an undocumented member in an answer is found.
func closeObjects(value any) {
	switch v := value.(type) {
	case map[string]any:
		_, names := v["properties"].(map[string]any)
		_, says := v["additionalProperties"]
		if v["type"] == "object" && names && !says {
			v["additionalProperties"] = false
		}
		for key, child := range v {
			if key != "example" && key != "examples" {
				closeObjects(child)
			}
		}
	case []any:
		for _, child := range v {
			closeObjects(child)
		}
	}
}

func member(value any, name string) map[string]any {
	object, _ := value.(map[string]any)
	child, _ := object[name].(map[string]any)
	return child
}

// Answer returns what is wrong with the answer to method and called, which is a path: its status
// must be documented, and its content type and body must match the documentation of that status. A
// path that the document does not have must be answered with 404, a method that the path does not
// have with 405. HEAD is answered like GET, without the body.
func (c *Checker) Answer(method, called string, status int, header http.Header, body []byte) error {
	called, _, _ = strings.Cut(called, "?")
	if header.Get("X-Request-Id") == "" {
		return fmt.Errorf("%s %s: the answer has no X-Request-Id", method, called)
	}
	head := method == http.MethodHead
	if head {
		if method = http.MethodGet; len(body) > 0 {
			return fmt.Errorf("HEAD %s: %d has a body", called, status)
		}
	}
	response, at, err := c.response(method, called, status)
	if err != nil {
		return err
	}
	content := member(response, "content")
	if len(content) == 0 {
		if len(body) > 0 {
			return fmt.Errorf("%s %s: %d is documented without a body", method, called, status)
		}
		return nil
	}
	if err := requiredHeaders(response, header); err != nil {
		return fmt.Errorf("%s %s: %d: %w", method, called, status, err)
	}
	media, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("%s %s: content type: %w", method, called, err)
	}
	if _, open := content["*/*"]; open {
		return nil
	}
	if _, ok := content[media]; !ok {
		return fmt.Errorf("%s %s: %d is not documented as %s", method, called, status, media)
	}
	if head || !strings.HasSuffix(media, "json") {
		return nil
	}
	if err := c.validate(at+"/content/"+escape(media)+"/schema", body); err != nil {
		return fmt.Errorf("%s %s: the answer %d is not as documented: %w\n%s", method, called, status, err, body)
	}
	return nil
}

// Request returns what the document lacks for a request that the API has accepted: the parameters
// of its query must be documented, and its body must match its schema.
func (c *Checker) Request(method, called string, body []byte) error {
	called, query, _ := strings.Cut(called, "?")
	if method == http.MethodHead {
		method = http.MethodGet
	}
	template, operation := c.operation(method, called)
	if operation == nil {
		return fmt.Errorf("%s %s: the document has no such operation", method, called)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return fmt.Errorf("%s %s: read query: %w", method, called, err)
	}
	for name := range values {
		if !c.hasParameter(operation, name) {
			return fmt.Errorf("%s %s: query parameter %s is taken, not documented", method, template, name)
		}
	}
	content := member(member(operation, "requestBody"), "content")
	if len(body) == 0 || content == nil {
		return nil // a body that the operation ignores
	}
	at := "/paths/" + escape(template) + "/" + strings.ToLower(method) + "/requestBody/content/application~1json/schema"
	if err := c.validate(at, body); err != nil {
		return fmt.Errorf("%s %s: the body is taken, not documented: %w\n%.1000s", method, template, err, body)
	}
	return nil
}

// hasParameter reports whether an operation has a query parameter. A parameter that is an object,
// such as tags, is written as its members; its schema says how those are named.
func (c *Checker) hasParameter(operation map[string]any, name string) bool {
	parameters, _ := operation["parameters"].([]any)
	for _, p := range parameters {
		parameter, _ := p.(map[string]any)
		if ref, ok := parameter["$ref"].(string); ok {
			parameter = member(member(c.document["components"], "parameters"), ref[strings.LastIndexByte(ref, '/')+1:])
		}
		if parameter["in"] != "query" {
			continue
		}
		names, _ := member(member(parameter, "schema"), "propertyNames")["pattern"].(string)
		if parameter["name"] == name || names != "" && regexp.MustCompile(names).MatchString(name) {
			return true
		}
	}
	return false
}

func requiredHeaders(response any, header http.Header) error {
	for name, description := range member(response, "headers") {
		if object, _ := description.(map[string]any); object["required"] == true && header.Get(name) == "" {
			return fmt.Errorf("it has no %s", name)
		}
	}
	return nil
}

// response returns the documentation of an answer, and its place.
func (c *Checker) response(method, called string, status int) (response any, at string, err error) {
	template, operation := c.operation(method, called)
	if operation == nil {
		name, want := "NotFound", http.StatusNotFound
		if template != "" {
			name, want = "MethodNotAllowed", http.StatusMethodNotAllowed
		}
		if status != want {
			return nil, "", fmt.Errorf("%s %s: status %d, but the document has no such operation", method, called, status)
		}
		return member(member(c.document["components"], "responses"), name), "/components/responses/" + name, nil
	}
	described, ok := member(operation, "responses")[strconv.Itoa(status)].(map[string]any)
	if !ok {
		return nil, "", fmt.Errorf("%s %s: status %d is not documented", method, template, status)
	}
	if ref, ok := described["$ref"].(string); ok {
		name := ref[strings.LastIndexByte(ref, '/')+1:]
		return member(member(c.document["components"], "responses"), name), strings.TrimPrefix(ref, "#"), nil
	}
	return described, "/paths/" + escape(template) + "/" + strings.ToLower(method) + "/responses/" + strconv.Itoa(status), nil
}

// operation returns the operation that a request calls: nil when no path that fits has the
// method, and an empty template when no path fits.
func (c *Checker) operation(method, called string) (template string, operation map[string]any) {
	segments := strings.Split(called, "/")
	for _, p := range c.paths {
		if len(p.segments) != len(segments) || !slices.EqualFunc(p.segments, segments, fits) {
			continue
		}
		template = p.template
		if found := member(member(c.document["paths"], template), strings.ToLower(method)); found != nil {
			return template, found
		}
	}
	return template, nil
}

func fits(template, segment string) bool {
	return template == segment || segment != "" && strings.HasPrefix(template, "{")
}

// Validate checks a JSON text against the schema that the pointer leads to in the document.
func (c *Checker) Validate(pointer string, body []byte) error { return c.validate(pointer, body) }

func (c *Checker) validate(pointer string, body []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("read JSON: %w", err)
	}
	schema, err := c.schema(pointer)
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

func (c *Checker) schema(pointer string) (*jsonschema.Schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if schema := c.schemas[pointer]; schema != nil {
		return schema, nil
	}
	schema, err := c.compiler.Compile(location + "#" + fragment(pointer))
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	c.schemas[pointer] = schema
	return schema, nil
}

// escape writes a name as a part of a JSON pointer.
func escape(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

// fragment writes a JSON pointer as the fragment of a URI.
func fragment(pointer string) string {
	return strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D", "$", "%24").Replace(pointer)
}
