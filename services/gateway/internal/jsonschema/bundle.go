package jsonschema

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/jsontree"
	"waybill.dev/shared/input"
)

// bundler gathers what schemas of a document refer to, so that a text with them stands for
// itself. The schemas keep their bytes, but for the references in them.
type bundler struct {
	document *Document
	top      *jsontree.Node // what stands at the top of the bundle; nil: an object that is no schema of the document
	taken    map[string]bool
	names    map[*jsontree.Node]string // in `$defs`
	pending  []*jsontree.Node          // named and not yet written
}

func newBundler(d *Document) *bundler {
	return &bundler{document: d, taken: make(map[string]bool), names: make(map[*jsontree.Node]string)}
}

// bundle returns a schema of the document so that it stands for itself.
func (d *Document) bundle(n *jsontree.Node) (jsontext.Value, error) {
	b := newBundler(d)
	b.top = n
	for name := range n.Member("$defs").Members() {
		b.taken[name] = true
	}
	edits, err := b.edits(n, "")
	if err != nil {
		return nil, err
	}
	definitions, err := b.definitions()
	if err != nil {
		return nil, err
	}
	if definitions != "" {
		edits = append(edits, addition(n, definitions))
	}
	return apply(n, edits), nil
}

// edit replaces a part of a schema's text.
type edit struct {
	start, end int // in the document
	text       string
}

// apply returns the text of n with edits.
func apply(n *jsontree.Node, edits []edit) jsontext.Value {
	slices.SortFunc(edits, func(a, b edit) int { return a.start - b.start })
	var text []byte
	at := 0
	for _, e := range edits {
		text = append(text, n.Raw[at:e.start-n.Start]...)
		text = append(text, e.text...)
		at = e.end - n.Start
	}
	return append(text, n.Raw[at:]...)
}

// addition is the edit that puts members into the `$defs` of n.
func addition(n *jsontree.Node, members string) edit {
	into := n.Member("$defs")
	if into == nil {
		into, members = n, `"$defs":{`+members+`}`
	}
	if into.Len() > 0 {
		members = "," + members
	}
	end := into.Start + len(into.Raw) - 1
	return edit{end, end, members}
}

// edits returns what has to change in a schema for it to stand at a place of a bundle.
func (b *bundler) edits(n *jsontree.Node, at string) ([]edit, error) {
	w := walker{bundler: b, host: n, at: at}
	if err := w.walk(n, n); err != nil {
		return nil, err
	}
	return w.edits, nil
}

// definitions returns the members of `$defs`. What they refer to comes after them.
func (b *bundler) definitions() (string, error) {
	text := []byte{'{'}
	for len(b.pending) > 0 {
		n := b.pending[0]
		b.pending = b.pending[1:]
		edits, err := b.edits(n, input.Pointer("$defs", b.names[n]))
		if err != nil {
			return "", fmt.Errorf("%s: %w", n.Pointer(), err)
		}
		text = appendMember(text, b.names[n], apply(n, edits))
	}
	return string(text[1:]), nil
}

// name returns the name that a schema of the document has in `$defs`.
func (b *bundler) name(n *jsontree.Node) string {
	if name, ok := b.names[n]; ok {
		return name
	}
	base := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-', r == '.':
			return r
		}
		return '_'
	}, n.Name())
	name := base
	for i := 2; b.taken[name]; i++ {
		name = base + "-" + strconv.Itoa(i)
	}
	b.taken[name] = true
	b.names[n] = name
	b.pending = append(b.pending, n)
	return name
}

// walker goes through one schema and notes the references that have to change.
type walker struct {
	*bundler

	host  *jsontree.Node // the schema
	at    string         // where it will stand
	edits []edit
}

// walk reads the schema n. owner is what a local reference of it begins at: the host or,
// below it, a schema with an `$id`.
func (w *walker) walk(n, owner *jsontree.Node) error {
	if n.Member("$id") != nil {
		owner = n
	}
	for _, keyword := range []string{"$ref", "$dynamicRef"} {
		if reference := n.Member(keyword); reference != nil {
			if err := w.reference(reference, owner); err != nil {
				return err
			}
		}
	}
	for schema := range subschemas(n) {
		if err := w.walk(schema, owner); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) reference(reference, owner *jsontree.Node) error {
	text, _ := reference.Text()
	if owner.Member("$id") != nil {
		// Within a resource of its own, a reference is nobody else's affair: it is left as
		// it is, and compiling tells whether it leads anywhere.
		if pointer, ok := jsontree.Fragment(text); ok && owner.At(pointer) == nil {
			return errors.New("a schema with an $id refers to the document around it, which can't be told apart")
		}
		return nil
	}
	target, err := w.document.target(reference, owner)
	if err != nil || target == nil {
		return err
	}
	if written := jsontree.Reference(w.place(target)); written != text {
		quoted, err := jsontext.AppendQuote(nil, written)
		if err != nil {
			return fmt.Errorf("write a reference: %w", err)
		}
		w.edits = append(w.edits, edit{reference.Start, reference.Start + len(reference.Raw), string(quoted)})
	}
	return nil
}

// place returns where a schema of the document stands in the bundle.
func (w *walker) place(target *jsontree.Node) string {
	if below, ok := within(target, w.host); ok {
		return w.at + below
	}
	if below, ok := within(target, w.top); ok {
		return below
	}
	return input.Pointer("$defs", w.name(target))
}

// within tells whether n stands in a schema, and where.
func within(n, schema *jsontree.Node) (pointer string, ok bool) {
	if schema == nil {
		return "", false
	}
	pointer, ok = strings.CutPrefix(n.Pointer(), schema.Pointer())
	return pointer, ok && (pointer == "" || pointer[0] == '/')
}
