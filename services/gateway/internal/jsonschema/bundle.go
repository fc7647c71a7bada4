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

// bundler gathers the schemas that a schema of a document refers to, so that the resulting text is
// complete in itself. The schemas keep their bytes, except for the references in them.
type bundler struct {
	document *Document
	side     Side
	top      *jsontree.Node // schema at the top of the bundle; nil: an object that is no schema of the document
	topCut   []*jsontree.Node
	taken    map[string]bool
	names    map[variant]string // names in `$defs`
	pending  []definition       // named and not yet written

	marks map[*jsontree.Node]bool     // see marked
	hides map[*jsontree.Node][]string // see hidden
}

// variant is a schema together with the members of it that are hidden by other schemas that apply
// to the same value.
type variant struct {
	schema *jsontree.Node
	hidden string
}

type definition struct {
	schema *jsontree.Node
	hidden []string
	name   string
}

func newBundler(d *Document, side Side) *bundler {
	return &bundler{
		document: d, side: side, taken: make(map[string]bool), names: make(map[variant]string),
		marks: make(map[*jsontree.Node]bool), hides: make(map[*jsontree.Node][]string),
	}
}

// bundle returns a schema of the document as a text that is complete in itself.
func (d *Document) bundle(n *jsontree.Node, side Side) (jsontext.Value, error) {
	b := newBundler(d, side)
	b.top = n
	for name := range n.Member("$defs").Members() {
		b.taken[name] = true
	}
	w := walker{bundler: b, host: n}
	edits, err := w.edit()
	if err != nil {
		return nil, err
	}
	b.topCut = w.cut
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
	start, end int // offsets in the document
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

// edit returns the edits that the host needs at its place of a bundle. References come last: their
// targets may have been left out.
func (w *walker) edit() ([]edit, error) {
	w.walk(w.host, w.host, w.above, false)
	for _, r := range w.references {
		if err := w.reference(r); err != nil {
			return nil, err
		}
	}
	return w.edits, w.document.budget.Err()
}

// definitions returns the members of `$defs`. A definition is followed by those that it refers to.
func (b *bundler) definitions() (string, error) {
	text := []byte{'{'}
	for len(b.pending) > 0 {
		next := b.pending[0]
		b.pending = b.pending[1:]
		w := walker{bundler: b, host: next.schema, at: input.Pointer("$defs", next.name), above: next.hidden}
		edits, err := w.edit()
		if err != nil {
			return "", fmt.Errorf("%s: %w", next.schema.Pointer(), err)
		}
		text = appendMember(text, next.name, apply(next.schema, edits))
	}
	return string(text[1:]), nil
}

// name returns the name of a schema of the document in `$defs`, in the variant with the hidden
// members.
func (b *bundler) name(n *jsontree.Node, hidden []string) string {
	key := variant{n, strings.Join(hidden, "\x00")}
	if name, ok := b.names[key]; ok {
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
	b.names[key] = name
	b.pending = append(b.pending, definition{n, hidden, name})
	return name
}

// walker walks through one schema and notes the edits.
type walker struct {
	*bundler

	host  *jsontree.Node // the schema
	at    string         // place of the host in the bundle
	above []string       // members of the host that other schemas hide
	edits []edit
	cut   []*jsontree.Node // members that are left out

	references []reference
}

// reference is one to another schema, from one with members that the side does not write.
type reference struct {
	text, owner *jsontree.Node
	hidden      []string
}

// walk reads the schema n. owner is the base of n's local references: the host or, below it, a
// schema with an `$id`. above are the members that are hidden by schemas that apply together with
// n.
func (w *walker) walk(n, owner *jsontree.Node, above []string, choice bool) {
	if n.Member("$id") != nil {
		owner = n
	}
	hidden := w.hiddenNames(n, owner)
	if len(above) > 0 {
		hidden = union(hidden, above)
	}
	w.leaveOut(n, hidden, choice)
	if text := n.Member("$ref"); text != nil {
		w.references = append(w.references, reference{text, owner, hidden})
	}
	if text := n.Member("$dynamicRef"); text != nil {
		w.references = append(w.references, reference{text, owner, nil})
	}
	for keyword, value := range n.Members() {
		var with []string
		if narrowsValue(keyword) {
			with = hidden
		}
		for schema := range below(keyword, value) {
			if !isCut(schema, w.cut) {
				w.walk(schema, owner, with, isChoice(keyword))
			}
		}
	}
}

func (w *walker) reference(r reference) error {
	text, _ := r.text.Text()
	owner := r.owner
	if owner.Member("$id") != nil {
		// A reference within a resource of its own is left as it is. Compiling reports whether it
		// leads anywhere.
		if pointer, ok := jsontree.Fragment(text); ok && owner.At(pointer) == nil {
			return errors.New("a schema with an $id refers to the document around it, which can't be told apart")
		}
		return nil
	}
	target, err := w.document.target(r.text, owner)
	if err != nil || target == nil {
		return err
	}
	if written := jsontree.Reference(w.place(target, r.hidden)); written != text {
		quoted, err := jsontext.AppendQuote(nil, written)
		if err != nil {
			return fmt.Errorf("write a reference: %w", err)
		}
		w.edits = append(w.edits, edit{r.text.Start, r.text.Start + len(r.text.Raw), string(quoted)})
	}
	return nil
}

// place returns the place in the bundle of a schema of the document, with members of it hidden.
func (w *walker) place(target *jsontree.Node, hidden []string) string {
	extra := w.hiddenOnlyByOther(target, hidden)
	if len(extra) == 0 {
		if below, ok := within(target, w.host); ok && len(w.above) == 0 && !isCut(target, w.cut) {
			return w.at + below
		}
		if below, ok := within(target, w.top); ok && !isCut(target, w.topCut) && (w.host != w.top || !isCut(target, w.cut)) {
			return below
		}
	}
	return input.Pointer("$defs", w.name(target, extra))
}

// within reports whether n is inside a schema, and returns the pointer to n.
func within(n, schema *jsontree.Node) (pointer string, ok bool) {
	if schema == nil {
		return "", false
	}
	pointer, ok = strings.CutPrefix(n.Pointer(), schema.Pointer())
	return pointer, ok && (pointer == "" || pointer[0] == '/')
}
