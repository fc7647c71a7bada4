package source

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// operationsFile is the route file that Tools writes.
const operationsFile = "operations.oas.json"

// NoTool returns the operations that are no tools, each with the reason.
func NoTool() map[string]string {
	const forPeople = "a page for people"
	return map[string]string{
		"streamNews":             "its answer has no end",
		"uploadDeploymentSource": "its body is an archive, and its URL the permission",
		"checkHealth":            "the state of a process, for whoever runs it",
		"checkReadiness":         "the state of a process, for whoever runs it",
		"showDocs":               forPeople,
		"getDocsFile":            forPeople,
		"explainProblem":         forPeople,
		"getOpenAPI":             "a resource: waybill://openapi",
		"getAsyncAPI":            "a resource: waybill://asyncapi",
		"getSigningKeySet":       "list_signing_keys tells the same",
	}
}

// Toolsets returns the toolsets of the MCP server by the tags of operations that belong to them.
func Toolsets() map[string]string {
	const deliveries, webhooks, events, access, gateway, metering = "deliveries", "webhooks", "events", "access", "gateway", "metering"
	return map[string]string{
		"Deliveries": deliveries, "Insight": deliveries, "Jobs": deliveries, "Webhooks": webhooks, "Events": events,
		"Accounts": access, "Audit": access, "Buckets": access, "Consumers": access, "Keys": access, "Managers": access,
		"Client certificates": gateway, "Deployments": gateway, "Domains": gateway, "Environments": gateway, "Tunnels": gateway,
		"Metering": metering,
	}
}

// Tools returns a route file, operations, with a tool for each of the API's operations that has none in routes, which people write.
// listed is routes with these tools added to the list of its MCP server. Everything about a tool comes from the OpenAPI document: its
// name is the operation's id, its description the operation's, its arguments are the parameters and the body, and the method says
// whether it reads. x-destructive marks a POST that ends or repeats something, x-read-only one that changes nothing. A parameter with
// x-tool false is for bodies that tools don't send.
func Tools(openapi, routes []byte) (operations, listed []byte, err error) {
	var api, file yaml.MapSlice
	for text, into := range map[*[]byte]*yaml.MapSlice{&openapi: &api, &routes: &file} {
		if err := yaml.UnmarshalWithOptions(*text, into, yaml.UseOrderedMap()); err != nil {
			return nil, nil, fmt.Errorf("read document: %w", err)
		}
	}
	known := exportsOf(file)
	var paths yaml.MapSlice
	var ids []string
	for _, path := range object(get(api, "paths")) {
		var item yaml.MapSlice
		for _, member := range object(path.Value) {
			id, isOperation := get(member.Value, "operationId").(string)
			if !isOperation || slices.Contains(known, id) || NoTool()[id] != "" {
				continue
			}
			parameters, _ := get(path.Value, "parameters").([]any)
			tool, err := toolOf(api, id, fmt.Sprint(member.Key), parameters, member.Value)
			if err != nil {
				return nil, nil, err
			}
			item = append(item, yaml.MapItem{Key: member.Key, Value: tool})
			ids = append(ids, id)
		}
		if item != nil {
			paths = append(paths, yaml.MapItem{Key: "/mcp" + strings.TrimPrefix(fmt.Sprint(path.Key), "/v1"), Value: item})
		}
	}
	made := yaml.MapSlice{
		{Key: "openapi", Value: "3.1.0"},
		{Key: "info", Value: yaml.MapSlice{
			{Key: "title", Value: "Waybill's other operations"}, {Key: "version", Value: "1.0.0"},
			{Key: "description", Value: "Routes for the MCP server at /mcp, made from the API's OpenAPI document."},
		}},
		{Key: "paths", Value: paths},
	}
	schemas := withSchemas(made, nil, object(get(api, "components", "schemas")))
	made = append(made, yaml.MapItem{Key: "components", Value: yaml.MapSlice{{Key: "schemas", Value: schemas}}})
	if operations, err = indented(made); err != nil {
		return nil, nil, err
	}
	listed, err = indented(withTools(file, ids))
	return operations, listed, err
}

// toolNames returns the tools of route files, with their names and toolsets, by the operations that they call, as JSON.
func toolNames(files ...[]byte) ([]byte, error) {
	names := make(map[string]namedTool)
	for _, text := range files {
		var file yaml.MapSlice
		if err := yaml.UnmarshalWithOptions(text, &file, yaml.UseOrderedMap()); err != nil {
			return nil, fmt.Errorf("read document: %w", err)
		}
		for _, path := range object(get(file, "paths")) {
			for _, member := range object(path.Value) {
				route := get(member.Value, "x-gateway-route")
				export, _ := get(route, "handler", "export").(string)
				if name, ok := get(route, "mcp", "name").(string); ok && get(route, "mcp", "type") == "tool" {
					names[export] = namedTool{name, toolsetOf(member.Value)}
				}
			}
		}
	}
	text, err := json.MarshalIndent(names, "", "  ")
	return append(text, '\n'), err
}

// namedTool is a tool in tools.json.
type namedTool struct {
	Name    string `json:"name"`
	Toolset string `json:"toolset,omitempty"`
}

// toolsetOf returns the first toolset of a route; empty: none.
func toolsetOf(route any) string {
	tags, _ := get(route, "tags").([]any)
	if len(tags) == 0 {
		return ""
	}
	return fmt.Sprint(tags[0])
}

// exportsOf returns the operations that the routes of a file call.
func exportsOf(file yaml.MapSlice) []string {
	var exports []string
	for _, path := range object(get(file, "paths")) {
		for _, member := range object(path.Value) {
			if export, ok := get(member.Value, "x-gateway-route", "handler", "export").(string); ok {
				exports = append(exports, export)
			}
		}
	}
	return exports
}

// toolOf returns the route of an operation, with its tool.
func toolOf(api yaml.MapSlice, id, method string, shared []any, operation any) (yaml.MapSlice, error) {
	var toolsets []any
	tags, _ := get(operation, "tags").([]any)
	for _, tag := range tags {
		if toolset, ok := Toolsets()[fmt.Sprint(tag)]; ok {
			toolsets = append(toolsets, toolset)
		}
	}
	if len(toolsets) == 0 {
		return nil, fmt.Errorf("operation %s has no tag that belongs to a toolset", id)
	}
	summary, _ := get(operation, "summary").(string)
	description, _ := get(operation, "description").(string)
	route := yaml.MapSlice{
		{Key: "operationId", Value: id},
		{Key: "tags", Value: toolsets},
		{Key: "summary", Value: summary},
		{Key: "description", Value: strings.TrimSpace(summary + " " + strings.Join(strings.Fields(description), " "))},
	}
	own, _ := get(operation, "parameters").([]any)
	if parameters := argumentsOf(api, slices.Concat(shared, own)); len(parameters) > 0 {
		route = append(route, yaml.MapItem{Key: "parameters", Value: parameters})
	}
	if schema := get(operation, "requestBody", "content", "application/json", "schema"); schema != nil {
		required, _ := get(operation, "requestBody", "required").(bool)
		route = append(route, yaml.MapItem{Key: "requestBody", Value: yaml.MapSlice{
			{Key: "required", Value: required},
			{Key: "content", Value: yaml.MapSlice{{Key: "application/json", Value: yaml.MapSlice{{Key: "schema", Value: renamed(schema)}}}}},
		}})
	}
	destructive, _ := get(operation, "x-destructive").(bool)
	readOnly, _ := get(operation, "x-read-only").(bool)
	return append(route,
		yaml.MapItem{Key: "responses", Value: yaml.MapSlice{{Key: "200", Value: yaml.MapSlice{{Key: "description", Value: "The API's answer."}}}}},
		yaml.MapItem{Key: "x-gateway-route", Value: yaml.MapSlice{
			{Key: "handler", Value: yaml.MapSlice{{Key: "module", Value: "$import(./modules/waybill)"}, {Key: "export", Value: id}}},
			{Key: "policies", Value: yaml.MapSlice{{Key: "inbound", Value: []any{"mcp-key"}}}},
			{Key: "mcp", Value: yaml.MapSlice{
				{Key: "type", Value: "tool"}, {Key: "name", Value: snake(id)},
				{Key: "annotations", Value: annotations(title(id), method, readOnly || method == "get", destructive)},
			}},
		}}), nil
}

// argumentsOf returns those of an operation's parameters, without references, that can be arguments of a tool. Headers and cookies
// can't, nor can tags, which are several parameters.
func argumentsOf(api yaml.MapSlice, parameters []any) []any {
	var arguments []any
	for _, parameter := range parameters {
		if ref, ok := get(parameter, "$ref").(string); ok {
			parameter = get(api, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
		if in := get(parameter, "in"); in != "path" && in != "query" || get(parameter, "name") == "tags" || get(parameter, "x-tool") == false {
			continue
		}
		made := renamed(parameter)
		if schema, ok := get(made, "schema").(yaml.MapSlice); ok && get(parameter, "name") == "limit" && !shorter(get(schema, "default")) {
			made = set(object(made), toolPage, "schema", "default")
		}
		arguments = append(arguments, made)
	}
	return arguments
}

// toolPage is how many entries a tool lists by default. It is small, because the answer goes into the context of a model.
const toolPage = 20

// shorter reports whether a number is below toolPage.
func shorter(number any) bool {
	n, err := strconv.Atoi(fmt.Sprint(number))
	return err == nil && n < toolPage
}

func annotations(title, method string, readOnly, destructive bool) yaml.MapSlice {
	hints := yaml.MapSlice{{Key: "title", Value: title}, {Key: "readOnlyHint", Value: readOnly}}
	if !readOnly {
		hints = append(hints,
			yaml.MapItem{Key: "destructiveHint", Value: destructive || method != "post"},
			yaml.MapItem{Key: "idempotentHint", Value: method != "post"})
	}
	return append(hints, yaml.MapItem{Key: "openWorldHint", Value: false})
}

var wordStart = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// snake writes an operation's id as tools are named: rotateWebhookSecret is
// rotate_webhook_secret.
func snake(id string) string {
	return strings.ToLower(wordStart.ReplaceAllString(id, "${1}_${2}"))
}

// title writes an operation's id for people: Rotate webhook secret.
func title(id string) string {
	words := strings.Fields(wordStart.ReplaceAllString(id, "${1} ${2}"))
	for i, word := range words {
		switch {
		case i == 0:
			words[i] = strings.ToUpper(word[:1]) + word[1:]
		case len(word) > 1:
			words[i] = strings.ToLower(word)
		}
	}
	return strings.Join(words, " ")
}

// withTools returns the route file with the operations of the other file appended to the list of its MCP server.
func withTools(file yaml.MapSlice, ids []string) yaml.MapSlice {
	options := []string{"/mcp", "post", "x-gateway-route", "handler", "options", "operations"}
	old, _ := get(get(file, "paths"), options...).([]any)
	listed := slices.DeleteFunc(slices.Clone(old), func(entry any) bool { return get(entry, "file") == operationsFile })
	for _, id := range ids {
		listed = append(listed, yaml.MapSlice{{Key: "file", Value: operationsFile}, {Key: "id", Value: id}})
	}
	return set(file, listed, "paths", options...)
}
