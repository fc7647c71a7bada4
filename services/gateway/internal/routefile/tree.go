package routefile

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/jsonschema"
)

// maxBranches bounds the depth of names such as a[b][c].
const maxBranches = 10

// branch holds the values below a name in brackets, such as a in a[b].
type branch struct {
	texts   []string
	value   jsontext.Value // instead of texts: a value that is already JSON
	names   []string       // names of members, in their order
	members map[string]*branch
}

// at returns a member.
func (b *branch) at(name string) *branch {
	if b.members[name] == nil {
		if b.members == nil {
			b.members = make(map[string]*branch)
		}
		b.names = append(b.names, name)
		b.members[name] = &branch{}
	}
	return b.members[name]
}

// treeOf gathers the parameters with names such as name[b]; nil: there are none.
func treeOf(name string, pairs []Pair) *branch {
	tree := &branch{}
	for _, pair := range pairs {
		rest, ok := strings.CutPrefix(pair.Name, name+"[")
		if ok && strings.HasSuffix(rest, "]") {
			tree.grow(strings.TrimSuffix(rest, "]"), unescape(pair.Value))
		}
	}
	if len(tree.names) == 0 {
		return nil
	}
	return tree
}

// grow adds a text at a place such as a][b.
func (b *branch) grow(place, text string) {
	for _, name := range strings.SplitN(place, "][", maxBranches) {
		b = b.at(name)
	}
	b.texts = append(b.texts, text)
}

// tree reads a branch in the types that the schema names.
func (r reader) tree(b *branch, shape jsonschema.Shape) jsontext.Value {
	switch {
	case b.value != nil:
		return b.value
	case len(b.names) == 0 && (len(b.texts) != 1 || shape.Is("array")):
		return r.array(b.texts, shape.Element())
	case len(b.names) == 0:
		return r.scalar(b.texts[0], shape)
	case shape.Is("array") || len(shape.Types()) == 0 && !slices.ContainsFunc(b.names, isWord):
		return r.elements(b, shape.Element())
	}
	text := []byte{'{'}
	for _, name := range b.names {
		text = member(text, name, r.tree(b.members[name], shape.Member(name)))
	}
	return append(text, '}')
}

// isWord reports whether a text in brackets is not an index of an array.
func isWord(text string) bool { return strings.Trim(text, "0123456789") != "" }

// elements reads an array that is written with an empty name, or a number, for each element.
func (r reader) elements(b *branch, of jsonschema.Shape) jsontext.Value {
	value := []byte{'['}
	add := func(element jsontext.Value) {
		if len(value) > 1 {
			value = append(value, ',')
		}
		value = append(value, element...)
	}
	for _, name := range b.names {
		element := b.members[name]
		if name != "" || len(element.names) > 0 {
			add(r.tree(element, of))
			continue
		}
		for _, text := range element.texts {
			add(r.scalar(text, of))
		}
	}
	return append(value, ']')
}
