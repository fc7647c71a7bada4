package jsontree

import (
	"net/url"
	"strings"

	"waybill.dev/shared/input"
)

// Fragment returns the JSON pointer of a reference to the same document; ok is false for
// one to another document, or to an anchor.
func Fragment(reference string) (pointer string, ok bool) {
	fragment, ok := strings.CutPrefix(reference, "#")
	if !ok || (fragment != "" && fragment[0] != '/') {
		return "", false
	}
	pointer, err := url.PathUnescape(fragment)
	return pointer, err == nil
}

// Reference returns the reference that leads to what is at a pointer of the same document.
func Reference(pointer string) string {
	place := url.URL{Fragment: pointer}
	return "#" + place.EscapedFragment()
}

// Follow returns what a value with a `$ref` stands for, through as many as there are. what
// is the reference that leads nowhere, leads round in a circle or out of the document, and
// nil comes with it.
func (n *Node) Follow(root *Node) (target *Node, what string) {
	for hops := 0; ; hops++ {
		reference, ok := n.Member("$ref").Text()
		if !ok {
			return n, ""
		}
		pointer, local := Fragment(reference)
		next := root.At(pointer)
		if !local || next == nil || hops > input.MaxDepth {
			return nil, reference
		}
		n = next
	}
}
