package spec_test

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"waybill.dev/shared/domain"
)

// Each operation says with what it refuses, and nothing is defined that nobody uses.
func TestDocumentIsWhole(t *testing.T) {
	t.Parallel()
	body := documents(t).OpenAPI.Body
	document := decode(t, body)
	for path, item := range object(t, document, "paths") {
		for method, described := range object(t, item) {
			if method == "parameters" {
				continue
			}
			statuses := slices.Collect(maps.Keys(object(t, described, "responses")))
			if !slices.ContainsFunc(statuses, func(status string) bool { return strings.HasPrefix(status, "4") }) {
				t.Errorf("%s %s has no 4XX", method, path)
			}
		}
	}
	for kind, components := range object(t, document, "components") {
		if kind == "securitySchemes" {
			continue
		}
		for name := range object(t, components) {
			if !strings.Contains(string(body), `"#/components/`+kind+`/`+name+`"`) {
				t.Errorf("nobody uses %s/%s", kind, name)
			}
		}
	}
}

// A published and a kept event are one of the types, told apart by type alone.
func TestEventsAreToldApartByType(t *testing.T) {
	t.Parallel()
	document := decode(t, documents(t).OpenAPI.Body)
	for name, kinds := range map[string][]domain.EventType{"PublishedEvent": domain.EventTypes(), "Event": domain.WebhookTypes()} {
		union := object(t, document, "components", "schemas", name)
		if union["discriminator"] == nil {
			t.Errorf("%s has no discriminator", name)
			continue
		}
		mapping := object(t, union, "discriminator", "mapping")
		one, err := json.Marshal(union["oneOf"])
		if err != nil {
			t.Fatal(err)
		}
		if object(t, union, "discriminator")["propertyName"] != "type" || len(mapping) != len(kinds) {
			t.Errorf("%s is told apart by %v", name, union["discriminator"])
		}
		for _, kind := range kinds {
			reference, _ := mapping[string(kind)].(string)
			schema := object(t, document, strings.Split(strings.TrimPrefix(reference, "#/"), "/")...)
			data, _ := object(t, schema, "properties", "data")["$ref"].(string)
			told, of := object(t, schema, "properties", "type")["const"] == string(kind), dataOf(kind)
			if name == "Event" && kind.Alert() { // they have one schema, with what all of them have, or that of custom domains
				types, _ := object(t, schema, "properties", "type")["enum"].([]any)
				told, of = slices.Contains(types, any(string(kind))), "AlertData"
			}
			if !told || !strings.HasSuffix(data, of) || !strings.Contains(string(one), `"`+reference+`"`) {
				t.Errorf("%s of %s is %v", name, kind, schema)
			}
		}
	}
}

// Pages render descriptions as Markdown, in which placeholders and names with underscores lose
// characters unless they are code.
func TestDescriptionsKeepTheirText(t *testing.T) {
	t.Parallel()
	code := regexp.MustCompile("(?s)```.*?```|`[^`]*`")
	lost := regexp.MustCompile(`<\w|\b_\w+_|\w\*\w`)
	var walk func(at string, value any)
	walk = func(at string, value any) {
		switch value := value.(type) {
		case map[string]any:
			for name, member := range value {
				if text, ok := member.(string); ok && name == "description" {
					if found := lost.FindString(code.ReplaceAllString(text, "")); found != "" {
						t.Errorf("%s: %q is no code, and Markdown takes characters of it away", at, found)
					}
				}
				walk(at+"/"+name, member)
			}
		case []any:
			for i, member := range value {
				walk(at+"/"+strconv.Itoa(i), member)
			}
		}
	}
	walk("openapi", decode(t, documents(t).OpenAPI.Body))
	walk("asyncapi", decode(t, documents(t).AsyncAPI.Body))
}
