package domain_test

import (
	"regexp"
	"strings"
	"testing"

	"waybill.dev/shared/domain"
)

func TestDeploymentName(t *testing.T) {
	t.Parallel()
	label := regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	for _, row := range []struct{ project, branch, begins string }{
		{"shop", "main", "shop-main-"},
		{"shop", "feature/Größe_2", "shop-feature-gr-e-2-"},
		{"xn--shop", "xn", "shop-d-"},
		{"xnxn--a", "---", "xn-a-d-"},
		{strings.Repeat("a", 100), strings.Repeat("b", 100), strings.Repeat("a", 30) + "-" + strings.Repeat("b", 20) + "-"},
		{strings.Repeat("a", 29) + "-b", strings.Repeat("b", 19) + "/c", strings.Repeat("a", 29) + "-" + strings.Repeat("b", 19) + "-"},
	} {
		name := domain.DeploymentName("default", row.project, row.branch)
		rest, ok := strings.CutPrefix(name, row.begins)
		if !ok || !regexp.MustCompile(`^[a-z2-7]{10}$`).MatchString(rest) || !label.MatchString(name) {
			t.Errorf("%s and %s: %s, want one that begins with %s", row.project, row.branch, name, row.begins)
		}
	}
	if a, b := domain.DeploymentName("a", "b-c", "d"), domain.DeploymentName("a", "b", "c-d"); a == b {
		t.Errorf("two branches have the name %s", a)
	}
	if a, b := domain.DeploymentName("a", "p", "main"), domain.DeploymentName("b", "p", "main"); a == b {
		t.Errorf("two accounts have the name %s", a)
	}
}

func TestEnvironmentTypes(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		branch, production string
		want               domain.EnvironmentType
		bucket             string
	}{
		{"main", "main", domain.Production, "production"},
		{"main", "live", domain.Preview, "preview"},
		{"working-copy", "main", domain.Development, "working-copy"},
		{"working-copy", "working-copy", domain.Production, "production"},
		{"a/b", "main", domain.Preview, "preview"},
	} {
		got := domain.EnvironmentTypeOf(row.branch, row.production)
		if got != row.want || got.Bucket() != row.bucket {
			t.Errorf("%s beside %s: %s with the bucket %s, want %s and %s", row.branch, row.production, got, got.Bucket(), row.want, row.bucket)
		}
	}
}

func TestVariableNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"A", "BACK_END_2", "A" + strings.Repeat("B", 63)} {
		if !domain.ValidVariableName(name) {
			t.Errorf("%s is refused", name)
		}
	}
	for _, name := range []string{"", "a", "2A", "_A", "A-B", "WAYBILL_X", "A" + strings.Repeat("B", 64), "A\n"} {
		if domain.ValidVariableName(name) {
			t.Errorf("%q is taken", name)
		}
	}
	for _, branch := range []string{"", "~preview", "-a", "/a", "a b", strings.Repeat("a", 101)} {
		if domain.CheckBranch(branch) == nil {
			t.Errorf("the branch %q is taken", branch)
		}
	}
}
