// Package jsontree reads JSON as it was written: members in their order, each value with its bytes
// and its position.
package jsontree

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/shared/input"
	"waybill.dev/shared/jsonscan"
)

// Node is a value. The methods of a nil Node answer as for a value that has nothing, so a
// path through a document needs no checks on its way.
type Node struct {
	Raw   jsontext.Value // as it was written
	Start int            // offset of Raw in the parsed text

	parent   *Node
	name     string // name of the member, or index, in the parent
	children []*Node
	members  map[string]*Node // members of an object
}

// maxValues bounds a tree, which takes some 150 bytes for each value: trees are for files that
// operators write, never for the bodies of requests.
const maxValues = 200_000

// Parse reads a value. It may be nested input.MaxDepth levels deep.
func Parse(raw []byte) (*Node, error) {
	faults, err := jsonscan.Check(context.Background(), raw, jsonscan.Options{AnyText: true}) // the size of a file bounds it
	if err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("read JSON: %s %s", faults[0].Pointer, faults[0].Detail)
	}
	p := parser{Reader: jsonscan.Read(raw), raw: raw}
	root := &Node{}
	p.value(root)
	if p.count > maxValues {
		return nil, fmt.Errorf("read JSON: more than %d values", maxValues)
	}
	return root, nil
}

type parser struct {
	jsonscan.Reader
	raw   []byte
	count int
}

func (p *parser) value(n *Node) {
	p.count++
	if p.count > maxValues {
		return
	}
	kind := p.Kind()
	n.Start = p.Offset()
	switch kind {
	case '{':
		n.members = make(map[string]*Node)
		p.Enter()
		for raw, ok := p.Member(); ok && p.count <= maxValues; raw, ok = p.Member() {
			name, _ := raw.Text()
			n.members[name] = p.child(n, name)
		}
	case '[':
		p.Enter()
		for p.Element() && p.count <= maxValues {
			p.child(n, strconv.Itoa(len(n.children)))
		}
	default:
		p.Take()
	}
	n.Raw = p.raw[n.Start:p.Offset()]
}

func (p *parser) child(of *Node, name string) *Node {
	n := &Node{parent: of, name: name}
	p.value(n)
	of.children = append(of.children, n)
	return n
}

// Kind returns the kind of the value; 0 for none.
func (n *Node) Kind() jsontext.Kind {
	if n == nil {
		return 0
	}
	return n.Raw.Kind()
}

// Pointer returns the JSON pointer of the value.
func (n *Node) Pointer() string {
	if n == nil || n.parent == nil {
		return ""
	}
	return n.parent.Pointer() + input.Pointer(n.name)
}

// Name returns the name or index of the value in the object or array that it is part of.
func (n *Node) Name() string {
	if n == nil {
		return ""
	}
	return n.name
}

// Members returns the members of an object, in their order.
func (n *Node) Members() iter.Seq2[string, *Node] {
	return func(yield func(string, *Node) bool) {
		if n == nil {
			return
		}
		for _, member := range n.children {
			if n.members == nil || !yield(member.name, member) {
				return
			}
		}
	}
}

// Len returns the number of members or elements.
func (n *Node) Len() int {
	if n == nil {
		return 0
	}
	return len(n.children)
}

// Member returns a member of an object, or nil.
func (n *Node) Member(name string) *Node {
	if n == nil {
		return nil
	}
	return n.members[name]
}

// Elements returns the elements of an array.
func (n *Node) Elements() []*Node {
	if n == nil || n.members != nil {
		return nil
	}
	return n.children
}

// Text returns the text of a string; ok is false when the value is no string.
func (n *Node) Text() (text string, ok bool) {
	if n.Kind() != '"' {
		return "", false
	}
	unquoted, err := jsontext.AppendUnquote(nil, n.Raw)
	return string(unquoted), err == nil
}

// True reports whether the value is true.
func (n *Node) True() bool { return n.Kind() == 't' }

// At returns the value that a JSON pointer leads to, or nil.
func (n *Node) At(pointer string) *Node {
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for pointer != "" && n != nil {
		rest, ok := strings.CutPrefix(pointer, "/")
		if !ok {
			return nil
		}
		token, after, more := strings.Cut(rest, "/")
		n, pointer = n.child(unescape.Replace(token)), ""
		if more {
			pointer = "/" + after
		}
	}
	return n
}

func (n *Node) child(token string) *Node {
	if n.Kind() != '[' {
		return n.members[token]
	}
	i, err := strconv.Atoi(token)
	if err != nil || i < 0 || i >= len(n.children) || strconv.Itoa(i) != token {
		return nil
	}
	return n.children[i]
}
