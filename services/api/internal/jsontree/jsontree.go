// Package jsontree reads JSON as it was written: members in their order, each value with
// its bytes and with the place where it stands.
package jsontree

import (
	"bytes"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/input"
)

// Node is a value. The methods of a nil Node answer as for a value that has nothing, so a
// path through a document needs no checks on its way.
type Node struct {
	Raw   jsontext.Value // as it was written
	Start int            // where Raw begins in what was parsed

	parent   *Node
	name     string // in the parent: of the member, or the index
	names    []string
	members  map[string]*Node
	elements []*Node
}

// Parse reads a value. It may be nested input.MaxDepth levels deep.
func Parse(raw []byte) (*Node, error) {
	p := parser{raw: raw, dec: jsontext.NewDecoder(bytes.NewReader(raw))}
	root := &Node{}
	if err := p.value(root); err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	if rest := bytes.TrimLeft(raw[root.Start+len(root.Raw):], " \t\r\n"); len(rest) > 0 {
		return nil, fmt.Errorf("read JSON: %d bytes too many", len(rest))
	}
	return root, nil
}

type parser struct {
	raw []byte
	dec *jsontext.Decoder
}

func (p *parser) value(n *Node) error {
	n.Start = int(p.dec.InputOffset())
	for n.Start < len(p.raw) && strings.IndexByte(" \t\r\n,:", p.raw[n.Start]) >= 0 {
		n.Start++
	}
	token, err := p.dec.ReadToken()
	if err != nil {
		return err
	}
	if p.dec.StackDepth() > input.MaxDepth {
		return fmt.Errorf("nested deeper than %d levels", input.MaxDepth)
	}
	switch token.Kind() {
	case '{':
		err = p.object(n)
	case '[':
		err = p.array(n)
	}
	n.Raw = p.raw[n.Start:int(p.dec.InputOffset())]
	return err
}

func (p *parser) object(n *Node) error {
	n.members = make(map[string]*Node)
	for p.dec.PeekKind() != '}' {
		token, err := p.dec.ReadToken()
		if err != nil {
			return err
		}
		member := &Node{parent: n, name: token.String()}
		if err := p.value(member); err != nil {
			return err
		}
		n.names = append(n.names, member.name)
		n.members[member.name] = member
	}
	_, err := p.dec.ReadToken()
	return err
}

func (p *parser) array(n *Node) error {
	for p.dec.PeekKind() != ']' {
		element := &Node{parent: n, name: strconv.Itoa(len(n.elements))}
		if err := p.value(element); err != nil {
			return err
		}
		n.elements = append(n.elements, element)
	}
	_, err := p.dec.ReadToken()
	return err
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

// Name returns the member's name, or the index, that the value has in what it is part of.
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
		for _, name := range n.names {
			if !yield(name, n.members[name]) {
				return
			}
		}
	}
}

// Len returns how many members or elements there are.
func (n *Node) Len() int {
	if n == nil {
		return 0
	}
	return len(n.names) + len(n.elements)
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
	if n == nil {
		return nil
	}
	return n.elements
}

// Text returns what a string says; ok is false when the value is none.
func (n *Node) Text() (text string, ok bool) {
	if n.Kind() != '"' {
		return "", false
	}
	unquoted, err := jsontext.AppendUnquote(nil, n.Raw)
	return string(unquoted), err == nil
}

// True tells whether the value is true.
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
	if err != nil || i < 0 || i >= len(n.elements) || strconv.Itoa(i) != token {
		return nil
	}
	return n.elements[i]
}
