package jsontree_test

import (
	"testing"

	"waybill.dev/services/gateway/internal/jsontree"
)

func TestReferences(t *testing.T) {
	t.Parallel()
	for reference, want := range map[string]string{"#": "", "#/a": "/a", "#/paths/~1x~1%7Bid%7D/b%20c": "/paths/~1x~1{id}/b c"} {
		if got, ok := jsontree.Fragment(reference); !ok || got != want {
			t.Errorf("%s is %q, %v", reference, got, ok)
		}
	}
	for _, other := range []string{"", "a", "#a", "a#/b", "https://example.com/#/a", "#/%zz"} {
		if got, ok := jsontree.Fragment(other); ok {
			t.Errorf("%s is %q", other, got)
		}
	}
	for _, pointer := range []string{"", "/a", "/paths/~1x~1{id}/b c", "/é%#\"\\"} {
		if got, ok := jsontree.Fragment(jsontree.Reference(pointer)); !ok || got != pointer {
			t.Errorf("%q comes back as %q by %s", pointer, got, jsontree.Reference(pointer))
		}
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	root, err := jsontree.Parse([]byte(`{"a":{"$ref":"#/b"},"b":{"$ref":"#/c/0"},"c":[{"x":1}],"round":{"$ref":"#/round"},"other":{"$ref":"x.json"},"gone":{"$ref":"#/nowhere"},"number":{"$ref":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]string{"/a": "/c/0", "/c/0": "/c/0", "/number": "/number", "/c": "/c"} {
		if got, what := root.At(from).Follow(root); got != root.At(want) || what != "" {
			t.Errorf("%s leads to %q, %q", from, got.Pointer(), what)
		}
	}
	for from, want := range map[string]string{"/round": "#/round", "/other": "x.json", "/gone": "#/nowhere"} {
		if got, what := root.At(from).Follow(root); got != nil || what != want {
			t.Errorf("%s leads to %q, %q", from, got.Pointer(), what)
		}
	}
	var none *jsontree.Node
	if got, what := none.Follow(root); got != nil || what != "" {
		t.Errorf("nothing leads to %q, %q", got.Pointer(), what)
	}
}
