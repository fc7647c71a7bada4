package mcpserver_test

import (
	"strings"
	"testing"
)

// Two things of one name or uri would hide each other: the routes are refused as a whole,
// with the file, the operation and the rule.
func TestRoutesThatAreRefused(t *testing.T) {
	t.Parallel()
	tool := func(id, name string) item { return item{id: id, mcp: object{"type": "tool", "name": name}} }
	prompt := func(id, name string) item { return item{id: id, mcp: object{"type": "prompt", "name": name}} }
	post := resource("page", nil)
	post.method = "POST"
	second := item{path: "/page", method: "POST", id: "second"}
	template := func(id, uri string) item {
		i := resource(id, object{"uri": uri})
		i.path = "/" + id + "/{id}"
		return i
	}
	for name, row := range map[string]struct {
		items []item
		want  []string
	}{
		"a resource that is no GET":         {over(nil, post), []string{"page", "GET"}},
		"a resource on a path of two":       {over(nil, resource("page", nil), second), []string{"page: /paths/", "POST as well"}},
		"a resource name twice":             {over(nil, resource("a", object{"name": "n"}), resource("b", object{"name": "n", "uri": "x:b"})), []string{"operation b of routes.oas.json", `name "n" is taken by operation a`}},
		"a resource's and a template's":     {over(nil, resource("a", object{"name": "t"}), template("t", "x://{id}")), []string{`name "t" is taken by operation a`}},
		"a uri twice":                       {over(nil, resource("a", object{"uri": "ui://x"}), resource("b", object{"uri": "ui://x"})), []string{"operation b", `uri "ui://x" is that of operation a`}},
		"a template twice":                  {over(nil, template("a", "x://{id}"), template("b", "x://{id}")), []string{"operation b", "that of operation a"}},
		"a tool name twice":                 {over(nil, tool("a", "n"), tool("b", "n")), []string{`tool name "n" is taken by operation a`}},
		"a prompt name twice":               {over(nil, prompt("a", "n"), prompt("b", "n")), []string{`prompt name "n" is taken by operation a`}},
		"a parameter without a variable":    {over(nil, template("a", "x://fixed")), []string{"a: /paths/", "variables: {id}"}},
		"a server among the operations":     {[]item{server(nil, "mcp")}, []string{"operation mcp of routes.oas.json is an MCP server itself"}},
		"a header for what is no primitive": {over(nil, item{id: "a", method: "POST", more: body(`{"type":"object","properties":{"x":{"type":"array","x-mcp-header":"X"}}}`)}), []string{"operation a", "x-mcp-header"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := faults(t, row.items...)
			for _, want := range append(row.want, "routes.oas.json") {
				if !strings.Contains(got, want) {
					t.Errorf("%q is missing in:\n%s", want, got)
				}
			}
		})
	}
}

func TestNamesAreUniqueWithinAKindAndAServer(t *testing.T) {
	t.Parallel()
	other := server(nil, "b")
	other.path, other.id = "/other", "other"
	r := start(t, nil, server(nil, "a", "p", "r", "off"), other,
		item{id: "a", mcp: object{"name": "n"}}, item{id: "b", mcp: object{"name": "n"}},
		item{id: "p", mcp: object{"type": "prompt", "name": "n"}}, resource("r", object{"name": "n"}),
		item{id: "off", mcp: object{"name": "n", "enabled": false}})
	for member, method := range map[string]string{"tools": "tools/list", "prompts": "prompts/list", "resources": "resources/list"} {
		if got := r.ask(method, "").names(member); got != "n" {
			t.Errorf("%s: %s", member, got)
		}
	}
}

// All faults are told at once.
func TestAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	got := faults(t, over(object{"x": 1}, resource("a", object{"name": "n"}), resource("b", object{"name": "n"}))...)
	if !strings.Contains(got, "/x is not an option") {
		t.Errorf("faults: %s", got)
	}
	got = faults(t, over(nil, resource("a", object{"name": "n"}), resource("b", object{"name": "n"}), resource("c", object{"name": "n"}))...)
	if strings.Count(got, "is taken by operation a") != 2 {
		t.Errorf("faults: %s", got)
	}
}
