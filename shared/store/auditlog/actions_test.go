package auditlog_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/store/auditlog"
)

// Every constant of an action is in the list, once.
func TestActionsAreComplete(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "auditlog.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, declaration := range file.Decls {
		block, ok := declaration.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST {
			continue
		}
		for _, of := range block.Specs {
			constant := of.(*ast.ValueSpec)
			if !strings.HasPrefix(constant.Names[0].Name, "Action") {
				continue
			}
			action, err := strconv.Unquote(constant.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, action)
		}
	}
	got := auditlog.Actions()
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
		t.Errorf("the list of actions (-constants +list):\n%s", diff)
	}
}
