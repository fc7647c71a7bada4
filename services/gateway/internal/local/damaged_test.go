package local_test

import (
	"encoding/json"
	"io"
	"testing"

	"waybill.dev/services/gateway/internal/local"
)

// Whatever is damaged in route files, they are refused or served, and nothing breaks.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	base := files{
		"policies.json": policies([]m{{"name": "app", "allowedOrigins": []string{"https://app.example"}}},
			[4]any{"in", "set-headers-inbound", "SetHeadersInboundPolicy", setHeader("X-One", "1")}),
		"a.oas.json": document(
			operation{method: "POST", path: "/mcp", id: "mcp", handler: runtimeHandler("mcpServerHandler", m{"name": "Test", "operations": []m{{"file": "a.oas.json", "id": "page"}}})},
			static("GET", "/page", "page").with("mcp", m{"type": "resource", "uri": "test://page"}).with("corsPolicy", "app"),
			calls("PUT", "/echo/{x}", "echo").with("policies", m{"inbound": []string{"in"}}),
		),
	}
	dir := t.TempDir()
	r := &rig{t: t, dir: dir}
	r.write(base)
	if _, faults, err := local.Check(options(dir, module{"echo": echo}, io.Discard)); err != nil || len(faults) > 0 {
		t.Fatal(err, faults)
	}
	tried, refused := 0, 0
	for name, content := range base {
		var whole any
		if err := json.Unmarshal([]byte(content), &whole); err != nil {
			t.Fatal(err)
		}
		damage(&whole, func() {
			text, err := json.Marshal(whole)
			if err != nil {
				t.Fatal(err)
			}
			r.write(files{name: string(text)})
			tried++
			if _, faults, err := local.Check(options(dir, module{"echo": echo}, io.Discard)); err != nil || len(faults) > 0 {
				refused++
			}
		})
		r.write(files{name: content})
	}
	if tried < 200 || refused < tried/2 || refused == tried {
		t.Errorf("%d of %d damaged files are refused", refused, tried)
	}
}

// damage puts something else in the place of each value, one after the other, and calls try.
func damage(value *any, try func()) {
	before := *value
	for _, other := range []any{nil, true, -1.5, "", "x", []any{}, []any{nil}, m{}, m{"x": m{}}} {
		*value = other
		try()
	}
	*value = before
	switch node := before.(type) {
	case m:
		for name, member := range node {
			delete(node, name)
			try()
			damage(&member, func() { node[name] = member; try() })
			node[name] = member
		}
	case []any:
		for i := range node {
			damage(&node[i], try)
		}
	}
}
