package docstest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"waybill.dev/cmd/internal/apipart"
	"waybill.dev/services/gateway"
	"waybill.dev/shared/egress"
)

// TestRouteFilesOfPages reads the route files that pages show as a server would.
func TestRouteFilesOfPages(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, page := range pages(t) {
		dir, n := t.TempDir(), 0
		var policies []json.RawMessage
		for _, b := range blocks(t, page) {
			name := ""
			switch {
			case b.language != "json":
			case strings.Contains(b.text, `"x-gateway-route"`):
				n++
				name = fmt.Sprintf("%d.oas.json", n)
			case strings.Contains(b.text, `"policyType"`):
				var file struct{ Policies []json.RawMessage }
				if err := json.Unmarshal([]byte(b.text), &file); err != nil {
					t.Errorf("%s: %v", page, err)
				}
				policies = append(policies, file.Policies...)
			}
			if name == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if n == 0 {
			continue
		}
		file, err := json.Marshal(map[string]any{"policies": policies})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "policies.json"), file, 0o600); err != nil {
			t.Fatal(err)
		}
		checked++
		routes, faults, err := apipart.CheckRoutes(gateway.RoutesOptions{Dir: dir, Egress: &egress.Policy{}})
		if err != nil || len(faults) > 0 || len(routes) == 0 {
			t.Errorf("%s shows route files with %d routes and the faults %v, %v", page, len(routes), faults, err)
		}
	}
	if checked == 0 {
		t.Error("no page shows a route file")
	}
}
