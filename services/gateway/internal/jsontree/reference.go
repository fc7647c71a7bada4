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

// Reference returns the reference to a pointer of the same document.
func Reference(pointer string) string {
	place := url.URL{Fragment: pointer}
	return "#" + place.EscapedFragment()
}

// Follow returns the target of a value with a `$ref`, through any number of references. If a
// reference leads nowhere, in a circle or out of the document, target is nil and what is that
// reference.
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
