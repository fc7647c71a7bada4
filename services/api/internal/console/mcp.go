package console

import (
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"waybill.dev/shared/domain"
)

// mcpPath is where Waybill's MCP server answers, which is a route of the gateway.
const mcpPath = "/mcp"

// Toolset returns the toolset of a tool; empty: it is in none.
func (a *API) Toolset(tool string) string {
	for _, o := range a.page.console.Operations {
		if o.Tool == tool {
			return o.Toolset
		}
	}
	return ""
}

// MCP sends a message to the MCP server, in process and as the session's principal: the server shows and
// calls everything that it would with the session's key, and its tools are the API's operations. The
// answer is a message, too. A problem means that HTTP failed: no right to use the server, or no server.
func (a *API) MCP(message []byte) (answer []byte, failed *Problem) {
	p := a.page
	request, err := a.request(http.MethodPost, mcpPath, "tools=all&schemas=1", content{"application/json", message})
	if err != nil {
		return nil, p.own(err)
	}
	request.Header.Set("Accept", "application/json")
	// The header says that there is a credential; the context has its principal: see Service.Authenticate.
	request.Header.Set("Authorization", "Bearer console")
	recorded := &recorder{status: http.StatusOK, header: make(http.Header)}
	p.console.API.ServeHTTP(recorded, request)
	p.calls = append(p.calls, Call{
		Method: http.MethodPost, Path: mcpPath, Body: message, Status: recorded.status, Header: recorded.header,
		Tried: true, Operation: Operation{Scope: domain.ScopeMCP},
	})
	if strings.HasPrefix(recorded.header.Get("Content-Type"), "application/json") {
		return recorded.body.Bytes(), nil
	}
	failed = &Problem{Scope: domain.ScopeMCP}
	if json.Unmarshal(recorded.body.Bytes(), failed) != nil || failed.Status != recorded.status {
		failed.Status, failed.Title, failed.RequestID = recorded.status, http.StatusText(recorded.status), p.RequestID
	}
	return nil, failed
}
