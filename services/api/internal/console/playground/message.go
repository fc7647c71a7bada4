package playground

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
)

// message is a request in JSON-RPC.
type message struct {
	Version string         `json:"jsonrpc"`
	ID      int            `json:"id"`
	Method  string         `json:"method"`
	Params  map[string]any `json:"params"`
}

// reply is the used part of an answer to a message.
type reply struct {
	Result struct {
		IsError    bool             `json:"isError"`
		NextCursor string           `json:"nextCursor"`
		Tools      []jsontext.Value `json:"tools"`
		Prompts    []jsontext.Value `json:"prompts"`
		Resources  []jsontext.Value `json:"resources"`
		Templates  []jsontext.Value `json:"resourceTemplates"`
		More       jsontext.Value   `json:",unknown"`
	} `json:"result"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// encode encodes a value that can always be encoded.
func encode(value any) jsontext.Value {
	text, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		return jsontext.Value("null")
	}
	return text
}

// send sends a message to the MCP server, as the session's principal.
func send(p *console.Page, method string, params map[string]any) exchange {
	x := exchange{Request: encode(message{"2.0", 1, method, params})}
	x.Curl = curl(p.Base()+"/mcp", string(x.Request))
	answer, failed := p.API.MCP(x.Request)
	if failed != nil {
		x.Problem = failed
		return x
	}
	x.Answer = answer
	var r reply
	switch err := json.Unmarshal(answer, &r); {
	case err != nil:
		x.Failed = "The answer is not a message."
	case r.Error != nil:
		x.Failed = r.Error.Message
	case r.Result.IsError:
		x.Failed = "The tool answered with an error."
	}
	return x
}

// listed returns the items in the answer to a list method, and the cursor for the rest.
func listed(answer jsontext.Value, member string) (page []item, next string) {
	var r reply
	if json.Unmarshal(answer, &r) != nil {
		return nil, ""
	}
	var texts []jsontext.Value
	switch member {
	case "tools":
		texts = r.Result.Tools
	case "prompts":
		texts = r.Result.Prompts
	case "resources":
		texts = r.Result.Resources
	default:
		texts = r.Result.Templates
	}
	for _, text := range texts {
		var i item
		if json.Unmarshal(text, &i) == nil {
			i.size = len(text) - len(i.OutputSchema)
			page = append(page, i)
		}
	}
	return page, r.Result.NextCursor
}

func curl(target, body string) string {
	quote := func(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
	return `curl -H "Authorization: Bearer $WAYBILL_KEY" -H 'Content-Type: application/json' ` + quote(target) + " \\\n  -d " + quote(body)
}

// client describes how to add the server to an AI client.
type client struct{ Name, Where, Text string }

// clients returns the descriptions for the four most used clients. None of them contains a key.
func clients(target string) []client {
	return []client{
		{"Claude Code", "In a shell", `claude mcp add --transport http waybill ` + target + ` --header "Authorization: Bearer $WAYBILL_KEY"`},
		{"Cursor", ".cursor/mcp.json", `{ "mcpServers": { "waybill": {
  "url": "` + target + `",
  "headers": { "Authorization": "Bearer ${env:WAYBILL_KEY}" }
} } }`},
		{"VS Code", ".vscode/mcp.json", `{
  "inputs": [{ "id": "waybill", "type": "promptString", "description": "Key for Waybill", "password": true }],
  "servers": { "waybill": {
    "type": "http", "url": "` + target + `",
    "headers": { "Authorization": "Bearer ${input:waybill}" }
  } }
}`},
		{"Codex", "~/.codex/config.toml", `[mcp_servers.waybill]
url = "` + target + `"
bearer_token_env_var = "WAYBILL_KEY"`},
	}
}
