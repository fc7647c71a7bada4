package source

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

const (
	schemaPrefix = "#/components/schemas/"
	// ofAPI begins the names of the API's schemas in the route file.
	ofAPI = "Api"
)

// Routes returns the shipped route file with the schemas of its tools' answers: those of the API's
// operations that the tools call. Tools that call something else keep their own schemas.
func Routes(openapi, routes []byte) ([]byte, error) {
	var api, file yaml.MapSlice
	for text, into := range map[*[]byte]*yaml.MapSlice{&openapi: &api, &routes: &file} {
		if err := yaml.UnmarshalWithOptions(*text, into, yaml.UseOrderedMap()); err != nil {
			return nil, fmt.Errorf("read document: %w", err)
		}
	}
	answers := answersOf(api)
	for _, path := range object(get(file, "paths")) {
		item := object(path.Value)
		for i, member := range item {
			if operation, ok := member.Value.(yaml.MapSlice); ok { // not the parameters
				item[i].Value = answered(operation, answers)
			}
		}
	}
	known := object(get(file, "components", "schemas"))
	known = slices.DeleteFunc(known, func(m yaml.MapItem) bool { return strings.HasPrefix(fmt.Sprint(m.Key), ofAPI) })
	set(file, withSchemas(file, known, object(get(api, "components", "schemas"))), "components", "schemas")
	return indented(file)
}

func indented(file yaml.MapSlice) ([]byte, error) {
	text, err := yaml.MarshalWithOptions(file, yaml.JSON())
	if err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	var body bytes.Buffer
	if err := json.Indent(&body, bytes.TrimSpace(text), "", "  "); err != nil {
		return nil, fmt.Errorf("indent JSON: %w", err)
	}
	body.WriteByte('\n')
	return body.Bytes(), nil
}

// answersOf returns the schema of each operation's good answer in JSON, by its id.
func answersOf(api yaml.MapSlice) map[string]any {
	answers := make(map[string]any)
	for _, path := range object(get(api, "paths")) {
		for _, operation := range object(path.Value) {
			id, ok := get(operation.Value, "operationId").(string)
			for _, response := range object(get(operation.Value, "responses")) {
				schema := get(response.Value, "content", "application/json", "schema")
				if ok && strings.HasPrefix(fmt.Sprint(response.Key), "2") && schema != nil {
					answers[id] = schema
				}
			}
		}
	}
	return answers
}

// answered returns a tool's operation with the schema of its answer.
func answered(operation yaml.MapSlice, answers map[string]any) any {
	route := get(operation, "x-gateway-route")
	export, _ := get(route, "handler", "export").(string)
	schema := answers[export]
	if get(route, "mcp", "type") != "tool" || schema == nil {
		return operation
	}
	for _, response := range object(get(operation, "responses")) {
		if status := fmt.Sprint(response.Key); strings.HasPrefix(status, "2") {
			media := yaml.MapSlice{{Key: "application/json", Value: yaml.MapSlice{{Key: "schema", Value: renamed(schema)}}}}
			operation = set(operation, set(object(response.Value), media, "content"), "responses", status)
		}
	}
	return operation
}

// withSchemas adds the API's schemas that the file refers to, and those that these refer to.
func withSchemas(file, known, of yaml.MapSlice) yaml.MapSlice {
	var wanted []string
	collect(file, &wanted)
	for done := 0; done < len(wanted); {
		name := wanted[done]
		done++
		collect(renamed(get(of, strings.TrimPrefix(name, ofAPI))), &wanted)
	}
	slices.Sort(wanted)
	for _, name := range wanted {
		known = append(known, yaml.MapItem{Key: name, Value: renamed(get(of, strings.TrimPrefix(name, ofAPI)))})
	}
	return known
}

// collect notes the API's schemas that a value refers to, each once.
func collect(value any, names *[]string) {
	switch v := value.(type) {
	case yaml.MapSlice:
		for _, member := range v {
			collect(member.Value, names)
		}
	case []any:
		for _, element := range v {
			collect(element, names)
		}
	case string:
		if name, ok := strings.CutPrefix(v, schemaPrefix+ofAPI); ok && !slices.Contains(*names, ofAPI+name) {
			*names = append(*names, ofAPI+name)
		}
	}
}

// renamed returns a schema of the API with references to the names in the route file. Examples,
// which are for readers of the API, are left out.
func renamed(value any) any {
	switch v := value.(type) {
	case yaml.MapSlice:
		var out yaml.MapSlice
		for _, member := range v {
			if member.Key != "example" && member.Key != "examples" {
				out = append(out, yaml.MapItem{Key: member.Key, Value: renamed(member.Value)})
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, element := range v {
			out[i] = renamed(element)
		}
		return out
	case string:
		if name, ok := strings.CutPrefix(v, schemaPrefix); ok {
			return schemaPrefix + ofAPI + name
		}
	}
	return value
}

func object(value any) yaml.MapSlice {
	v, _ := value.(yaml.MapSlice)
	return v
}

// get returns the value at a place; nil: there is none.
func get(value any, names ...string) any {
	for _, name := range names {
		members := object(value)
		value = nil
		for _, member := range members {
			if member.Key == name {
				value = member.Value
			}
		}
	}
	return value
}

// set returns an object with a value at a place.
func set(of yaml.MapSlice, value any, name string, below ...string) yaml.MapSlice {
	if len(below) > 0 {
		value = set(object(get(of, name)), value, below[0], below[1:]...)
	}
	for i, member := range of {
		if member.Key == name {
			of[i].Value = value
			return of
		}
	}
	return append(of, yaml.MapItem{Key: name, Value: value})
}
