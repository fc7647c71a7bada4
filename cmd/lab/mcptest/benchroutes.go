package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// What is asked for when requests are counted: one resource and a hundred tools, the same
// at the gateway and at the bare SDK.
const (
	benchTools = 100
	benchURI   = "bench://text"
	benchText  = "The quick brown fox jumps over the lazy dog, and the dog lets it pass.\n"
)

// benchTool is a tool.
type benchTool struct {
	name, description string
	schema            json.RawMessage
}

func benchToolList() []benchTool {
	tools := make([]benchTool, benchTools)
	for i := range tools {
		tools[i] = benchTool{
			name:        fmt.Sprintf("shipment_tool_%03d", i),
			description: fmt.Sprintf("Looks up what number %d of the desks knows about a shipment.", i),
			schema: json.RawMessage(`{"type":"object","required":["shipmentId"],"properties":{` +
				`"shipmentId":{"type":"string","description":"Which shipment.","minLength":1,"maxLength":64},` +
				`"since":{"type":"string","format":"date-time","description":"Nothing older than that."},` +
				`"limit":{"type":"integer","minimum":1,"maximum":100,"description":"How many lines at most."}}}`),
		}
	}
	return tools
}

type object = map[string]any

// writeBenchRoutes writes the route file of a gateway that has them.
func writeBenchRoutes(dir string) error {
	static := func() object {
		return object{"module": "$import(@gateway/runtime)", "export": "staticHandler", "options": object{"body": benchText, "contentType": "text/plain"}}
	}
	responses := object{"200": object{"description": "The answer."}}
	operations := []object{{"file": "bench.oas.json", "id": "text"}}
	paths := object{"/text": object{"get": object{
		"operationId": "text", "description": "A text.", "responses": responses,
		"x-gateway-route": object{"handler": static(), "mcp": object{"type": "resource", "uri": benchURI, "mimeType": "text/plain"}},
	}}}
	for _, tool := range benchToolList() {
		operations = append(operations, object{"file": "bench.oas.json", "id": tool.name})
		paths["/"+tool.name] = object{"post": object{
			"operationId": tool.name, "description": tool.description, "responses": responses,
			"requestBody":     object{"required": true, "content": object{"application/json": object{"schema": tool.schema}}},
			"x-gateway-route": object{"handler": static(), "mcp": object{"type": "tool"}},
		}}
	}
	paths["/mcp"] = object{"post": object{
		"operationId": "mcp", "responses": responses,
		"x-gateway-route": object{"handler": object{
			"module": "$import(@gateway/runtime)", "export": "mcpServerHandler",
			"options": object{"name": "bench", "version": "1.0.0", "operations": operations},
		}},
	}}
	raw, err := json.Marshal(object{"openapi": "3.1.0", "info": object{"title": "bench", "version": "1"}, "paths": paths})
	if err != nil {
		return fmt.Errorf("encode routes: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bench.oas.json"), raw, 0o600); err != nil {
		return fmt.Errorf("write routes: %w", err)
	}
	return nil
}
