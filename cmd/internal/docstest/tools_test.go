package docstest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/api"
)

// toolOperation is what a shipped route file says of an operation.
type toolOperation struct {
	ID      string `json:"operationId"`
	Summary string `json:"summary"`
	Route   struct {
		Handler struct {
			Export  string `json:"export"`
			Options struct {
				Operations []struct{ File, ID string }
			} `json:"options"`
		} `json:"handler"`
		MCP struct {
			Type        string         `json:"type"`
			Name        string         `json:"name"`
			URI         string         `json:"uri"`
			Annotations map[string]any `json:"annotations"`
		} `json:"mcp"`
	} `json:"x-gateway-route"`
}

// TestTools compares the page of what AI clients can use with the shipped routes.
func TestTools(t *testing.T) {
	t.Parallel()
	const page, begin, end = "docs/mcp-tools.md", "from config -->\n", "<!-- end of tools -->"
	text := read(t, page)
	before, rest, found := strings.Cut(text, begin)
	got, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the tools", page)
	}
	want := toolTables(t)
	if *update {
		if err := os.WriteFile(filepath.Join(root, page), []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the tables in %s are not those of the routes; `go test ./internal/docstest -run TestTools -update` in cmd writes them (-routes +page):\n%s", page, diff)
	}
}

// toolTables returns a table for each kind of thing that each shipped server has.
func toolTables(t *testing.T) string {
	t.Helper()
	operations := shippedOperations(t)
	scopes := scopesOfOperations()
	var all strings.Builder
	for _, server := range []struct{ path, file, id string }{{"/mcp", "routes.oas.json", "waybillMCP"}, {"/mcp/docs", "docs.oas.json", "docsMCP"}} {
		fmt.Fprintf(&all, "\n## The server at `%s`\n", server.path)
		kinds := map[string][]string{}
		for _, named := range operations[server.file+" "+server.id].Route.Handler.Options.Operations {
			o, ok := operations[named.File+" "+named.ID]
			if !ok {
				t.Fatalf("%s names %s of %s, which is not there", server.path, named.ID, named.File)
			}
			line := fmt.Sprintf("| `%s` | %s |", o.Route.MCP.Name, o.Summary)
			switch o.Route.MCP.Type {
			case "tool":
				scope, ofAPI := scopes[o.Route.Handler.Export]
				if !ofAPI {
					scope = "none"
				}
				line += fmt.Sprintf(" %s | %s |", scope, effect(o.Route.MCP.Annotations))
			case "resource":
				line = fmt.Sprintf("| `%s` | %s |", o.Route.MCP.URI, o.Summary)
			}
			kinds[o.Route.MCP.Type] = append(kinds[o.Route.MCP.Type], line)
		}
		for _, kind := range []struct{ name, head string }{
			{"tool", "| tool | what it does | scope | effect |\n| --- | --- | --- | --- |\n"},
			{"resource", "| resource | what it is |\n| --- | --- |\n"},
			{"prompt", "| prompt | what it is for |\n| --- | --- |\n"},
		} {
			if lines := kinds[kind.name]; len(lines) > 0 {
				all.WriteString("\n" + kind.head + strings.Join(lines, "\n") + "\n")
			}
		}
	}
	all.WriteString("\n")
	return all.String()
}

// shippedOperations returns the operations of config/, by file and id.
func shippedOperations(t *testing.T) map[string]toolOperation {
	t.Helper()
	all := make(map[string]toolOperation)
	files, err := filepath.Glob(filepath.Join(root, "config", "*.oas.json"))
	if err != nil || len(files) < 3 {
		t.Fatalf("route files: %v, %v", files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var document struct {
			Paths map[string]map[string]json.RawMessage `json:"paths"`
		}
		if err := json.Unmarshal(raw, &document); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, item := range document.Paths {
			for method, raw := range item {
				var o toolOperation
				if method == "parameters" {
					continue
				}
				if err := json.Unmarshal(raw, &o); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				all[filepath.Base(file)+" "+o.ID] = o
			}
		}
	}
	return all
}

// scopesOfOperations says what a key needs for each of the API's operations.
func scopesOfOperations() map[string]string {
	scopes := make(map[string]string)
	for _, r := range api.Routes() {
		text := "any"
		if r.Scope != "" && r.Scope != "any" {
			text = "`" + string(r.Scope) + "`"
		}
		if r.Or != "" {
			text += " or `" + string(r.Or) + "`"
		}
		if r.And != "" {
			text += " and `" + string(r.And) + "`"
		}
		scopes[r.Operation] = text
	}
	return scopes
}

// effect says what a tool's annotations say.
func effect(annotations map[string]any) string {
	switch {
	case annotations["readOnlyHint"] == true:
		return "reads"
	case annotations["destructiveHint"] == true:
		return "changes, *destructive*"
	}
	return "changes"
}
