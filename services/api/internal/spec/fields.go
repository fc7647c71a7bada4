package spec

import (
	"bytes"
	_ "embed" // of tools.json
	"fmt"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Field is a member of a request's body that its sender may set.
type Field struct {
	Name    string
	Types   []string       // JSON types, including null
	Default jsontext.Value // nil: the document names none
}

// Fields returns the members of a schema of the OpenAPI document, in its order, without those that are read-only.
func Fields(schema string) ([]Field, error) {
	known, err := schemas()
	if err != nil {
		return nil, err
	}
	var list []Field
	properties := jsontext.NewDecoder(bytes.NewReader(known[schema].Properties))
	if token, err := properties.ReadToken(); err != nil || token.Kind() != '{' {
		return nil, fmt.Errorf("the API document has no members of %s", schema)
	}
	for properties.PeekKind() == '"' {
		name, err := properties.ReadToken()
		if err != nil {
			return nil, err
		}
		field := Field{Name: name.String()} // before the token's bytes are read over
		var of described
		if err := json.UnmarshalDecode(properties, &of); err != nil {
			return nil, err
		}
		field.add(known, &of)
		if !of.ReadOnly {
			list = append(list, field)
		}
	}
	return list, nil
}

// described is the part of a schema that Fields reads.
type described struct {
	Type       jsontext.Value `json:"type"`
	Ref        string         `json:"$ref"`
	OneOf      []described    `json:"oneOf"`
	Default    jsontext.Value `json:"default"`
	ReadOnly   bool           `json:"readOnly"`
	Properties jsontext.Value `json:"properties"`
}

// add adds the properties of a schema to the field, including those of schemas that it refers to.
func (f *Field) add(known map[string]described, of *described) {
	if f.Default == nil {
		f.Default = of.Default
	}
	var one string
	var several []string
	if json.Unmarshal(of.Type, &several) == nil {
		f.Types = append(f.Types, several...)
	} else if json.Unmarshal(of.Type, &one) == nil {
		f.Types = append(f.Types, one)
	}
	if other, ok := known[strings.TrimPrefix(of.Ref, "#/components/schemas/")]; ok {
		f.add(known, &other)
	}
	for i := range of.OneOf {
		f.add(known, &of.OneOf[i])
	}
}

// schemas reads the schemas of the OpenAPI document, once.
var schemas = sync.OnceValues(func() (map[string]described, error) { //nolint:gochecknoglobals // it reads what is embedded
	var document struct {
		Components struct {
			Schemas map[string]described `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(openapi, &document); err != nil {
		return nil, fmt.Errorf("read API document: %w", err)
	}
	return document.Components.Schemas, nil
})

//go:embed tools.json
var toolsFile []byte

// Tool is an MCP tool.
type Tool struct {
	Name    string `json:"name"`
	Toolset string `json:"toolset"` // empty: in no toolset
}

// Tools returns the MCP tools by the operations that they call. They are the tools of the shipped route files.
var Tools = sync.OnceValues(func() (map[string]Tool, error) { //nolint:gochecknoglobals // it reads what is embedded
	var names map[string]Tool
	if err := json.Unmarshal(toolsFile, &names); err != nil {
		return nil, fmt.Errorf("read names of tools: %w", err)
	}
	return names, nil
})
