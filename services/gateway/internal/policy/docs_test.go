package policy_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/gateway/internal/policy"
	"waybill.dev/services/gateway/internal/routefile"
)

// update writes the page anew.
var update = flag.Bool("update", false, "rewrite docs/policies.md")

// TestPage compares docs/policies.md with what the policies say of themselves.
func TestPage(t *testing.T) {
	t.Parallel()
	const page = "../../../../docs/policies.md"
	head, err := os.ReadFile("testdata/policies.head.md")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.Write(head)
	b.WriteString("## The policies\n\n`*` marks options that are required.\n")
	for _, p := range registry(t).Policies() {
		describe(t, &b, p)
	}
	if *update {
		if err := os.WriteFile(page, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	is, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.String(), string(is)); diff != "" {
		t.Errorf("docs/policies.md is not up to date; go test -run Page -update writes it (-want +got):\n%s", diff)
	}
}

func describe(t *testing.T, b *strings.Builder, p policy.Policy) {
	t.Helper()
	s := readSchema(t, p)
	fmt.Fprintf(b, "\n### %s\n\n%s\n\n| option | value | meaning |\n| --- | --- | --- |\n", p.Name, p.About)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		option := s.Properties[name]
		row(b, name, slices.Contains(s.Required, name), option)
		if option.Items == nil {
			continue
		}
		for _, member := range slices.Sorted(maps.Keys(option.Items.Properties)) {
			row(b, name+"/…/"+member, slices.Contains(option.Items.Required, member), option.Items.Properties[member])
		}
	}
	example := strings.TrimSuffix(strings.TrimSuffix(p.Name, "-inbound"), "-outbound")
	fmt.Fprintf(b, "\n```json\n{\n  \"name\": %q,\n  \"policyType\": %q,\n  \"handler\": {\n    \"module\": \"$import(%s)\",\n"+
		"    \"export\": %q,\n    \"options\": %s\n  }\n}\n```\n", example, p.Name, routefile.Runtime, p.Export, p.Example)
}

func row(b *strings.Builder, name string, required bool, p property) {
	mark := ""
	if required {
		mark = `\*`
	}
	fmt.Fprintf(b, "| `%s`%s | %s | %s |\n", name, mark, value(p), p.Description)
}

// value says in words which values an option may have.
func value(p property) string {
	var words string
	switch {
	case len(p.Enum) > 0:
		words = oneOf(p.Enum)
	case p.Items != nil && len(p.Items.Enum) > 0:
		words = "a list of " + oneOf(p.Items.Enum)
	case p.Items != nil && p.Items.Properties != nil:
		words = "a list of objects"
	case p.Type == "array":
		words = "a list of texts"
	case p.Items != nil:
		words = "a list of texts, or one text"
	case p.Type == "boolean":
		words = "`true` or `false`"
	case p.Type == "string":
		words = "a text"
	case p.Minimum != nil && p.Maximum != nil:
		kind := "a number"
		if p.Type == "integer" {
			kind = "a whole number"
		}
		words = kind + " from " + strconv.FormatFloat(*p.Minimum, 'f', -1, 64) + " to " + strconv.FormatFloat(*p.Maximum, 'f', -1, 64)
	}
	if p.Default != nil {
		words += fmt.Sprintf("; `%v` unless set", p.Default)
	}
	return words
}

func oneOf(values []string) string {
	return "`" + strings.Join(values[:len(values)-1], "`, `") + "` or `" + values[len(values)-1] + "`"
}
