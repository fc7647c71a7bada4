package jsontree_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/gateway/internal/jsontree"
	"waybill.dev/shared/input"
)

const text = ` {"b" : [ 1.50, "x\"\\" ,null,{}, [] ],
	"a/~": {"":true , "é": false}} `

// Every value has its bytes and its place, and leads back to itself.
func TestPlaces(t *testing.T) {
	t.Parallel()
	root, err := jsontree.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	var visit func(*jsontree.Node)
	visit = func(n *jsontree.Node) {
		got[n.Pointer()] = string(n.Raw)
		if root.At(n.Pointer()) != n {
			t.Errorf("%q leads elsewhere", n.Pointer())
		}
		if written := text[n.Start : n.Start+len(n.Raw)]; written != string(n.Raw) {
			t.Errorf("%q begins at %d with %s", n.Pointer(), n.Start, written)
		}
		for _, member := range n.Members() {
			visit(member)
		}
		for _, element := range n.Elements() {
			visit(element)
		}
	}
	visit(root)
	want := map[string]string{
		"":         strings.TrimSpace(text),
		"/b":       `[ 1.50, "x\"\\" ,null,{}, [] ]`,
		"/b/0":     "1.50",
		"/b/1":     `"x\"\\"`,
		"/b/2":     "null",
		"/b/3":     "{}",
		"/b/4":     "[]",
		"/a~1~0":   `{"":true , "é": false}`,
		"/a~1~0/":  "true",
		"/a~1~0/é": "false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	var order []string
	for name := range root.Members() {
		order = append(order, name)
	}
	if diff := cmp.Diff([]string{"b", "a/~"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if said, ok := root.At("/b/1").Text(); !ok || said != `x"\` {
		t.Errorf("text is %q, %v", said, ok)
	}
}

func TestNothing(t *testing.T) {
	t.Parallel()
	root, err := jsontree.Parse([]byte(`{"a":[1]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, pointer := range []string{"a", "/b", "/a/1", "/a/-", "/a/01", "/a/0/x", "/a/0/x/y", "/a/"} {
		if n := root.At(pointer); n != nil {
			t.Errorf("%q leads to %s", pointer, n.Raw)
		}
	}
	none := root.Member("x").Member("y")
	if _, ok := none.Text(); ok || none.Kind() != 0 || none.Len() != 0 || none.True() || none.Elements() != nil || none.Pointer() != "" {
		t.Error("nothing has something")
	}
	for range none.Members() {
		t.Error("nothing has members")
	}
}

func TestNoJSON(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", input.MaxDepth) + strings.Repeat("]", input.MaxDepth)
	if _, err := jsontree.Parse([]byte(deep)); err != nil {
		t.Errorf("as deep as may be: %v", err)
	}
	for _, bad := range []string{"", " ", "{", "[1", `{"a":1,"a":2}`, "1 2", `{"a"}`, "[1,]", "\"\xff\"", "[" + deep + "]"} {
		if n, err := jsontree.Parse([]byte(bad)); err == nil {
			t.Errorf("%q is %s", bad, n.Raw)
		}
	}
}
