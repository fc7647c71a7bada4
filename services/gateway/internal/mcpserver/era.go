package mcpserver

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// era is a generation of the protocol. Eras differ in how a client begins, how versions are sent,
// and what errors look like.
type era int

const (
	// plain is a request that names no version: a client of 2025-03-26 or before, or a
	// person with curl.
	plain era = iota
	// legacy are the versions in which a client begins with initialize.
	legacy
	// modern are the versions since 2026-07-28: each request is independent of others.
	modern
)

const (
	firstModern = "2026-07-28"
	// batchVersion is the only version with batches. Its clients don't send the version.
	batchVersion = "2025-03-26"
)

// The protocol's headers, as Go writes them.
const (
	headerVersion = "Mcp-Protocol-Version"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
	headerParam   = "Mcp-Param-"
)

// supported are the versions, as JSON.
const supported = `["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`

// legacyVersions are the versions in which a client begins with initialize, the newest first.
func legacyVersions() []string {
	return []string{"2025-11-25", "2025-06-18", batchVersion, "2024-11-05"}
}

// settle finds out the era of the request, and checks it by the rules of that era.
func (q *request) settle(header http.Header) *failure {
	told, named := text(q.meta.Version)
	isCall := len(q.id) > 0
	if !named && isCall && len(q.meta.Version) > 0 {
		return invalidParams("The version of the protocol in _meta must be a text.")
	}
	switch {
	case named && q.version == "":
		q.era = modern
		return mismatch("The header MCP-Protocol-Version is missing.")
	case named && told != q.version:
		q.era = modern
		return mismatch("The header MCP-Protocol-Version and _meta name different versions.")
	}
	switch {
	case q.version == "":
		q.era = plain
		return nil
	case slices.Contains(legacyVersions(), q.version):
		q.era = legacy
		return nil
	case q.version == firstModern:
		q.era = modern
		if !named && isCall {
			return invalidParams("The member _meta lacks io.modelcontextprotocol/protocolVersion.")
		}
		return q.settleModern(header)
	}
	return unsupported(q.version)
}

// settleModern checks what every request since 2026-07-28 must have.
func (q *request) settleModern(header http.Header) *failure {
	if header.Get(headerMethod) != q.method {
		return mismatch("The header Mcp-Method is missing or is not the method.")
	}
	if len(q.id) == 0 {
		return nil
	}
	if q.meta.Capabilities.Kind() != kindObject {
		return invalidParams("The member _meta lacks io.modelcontextprotocol/clientCapabilities.")
	}
	if len(q.meta.ClientInfo) > 0 && q.meta.ClientInfo.Kind() != kindObject {
		return invalidParams("The member io.modelcontextprotocol/clientInfo of _meta must be an object.")
	}
	var named jsontext.Value
	switch q.method {
	case methodCallTool, methodGetPrompt:
		named = q.params.Name
	case methodRead:
		named = q.params.URI
	default:
		return nil
	}
	value, ok := headerText(header.Get(headerName))
	if name, isText := text(named); !ok || !isText || value == "" || name != value {
		return mismatch("The header Mcp-Name is missing or is not what the params name.")
	}
	return nil
}

// headerText decodes a header's value: characters other than visible ASCII are sent in base64
// between two marks.
func headerText(value string) (string, bool) {
	encoded, ok := strings.CutPrefix(value, "=?base64?")
	if !ok {
		return value, true
	}
	if encoded, ok = strings.CutSuffix(encoded, "?="); !ok {
		return value, true
	}
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	return string(decoded), err == nil
}

func unsupported(version string) *failure {
	data := append([]byte(`{"supported":`+supported+`,"requested":`), appendText(nil, version)...)
	return &failure{
		code:    codeUnsupportedVersion,
		message: "This version of the protocol is not supported.",
		data:    append(data, '}'),
	}
}
