package jsonschema

import (
	"bytes"
	"iter"
	"slices"
	"strings"

	"waybill.dev/services/gateway/internal/jsontree"
)

// Side says who writes a value. It decides which members a schema calls readOnly or writeOnly, at
// any depth, through $ref and allOf.
type Side uint8

// The sides of a call.
const (
	// Requests need not have members that are readOnly, required or not.
	Requests Side = iota
	// Arguments are the values that requests are made from: members that are readOnly are left out.
	Arguments
	// Answers show no member that is writeOnly.
	Answers
)

// keyword marks the members that the side does not write.
func (s Side) keyword() string {
	if s == Answers {
		return "writeOnly"
	}
	return "readOnly"
}

// cuts reports whether such members are left out, and not only made optional.
func (s Side) cuts() bool { return s != Requests }

// marksOf returns the sides for which a document has marks at all.
func marksOf(root *jsontree.Node) (sides [Answers + 1]bool) {
	for side := range sides {
		sides[side] = bytes.Contains(root.Raw, []byte(`"`+Side(side).keyword()+`"`))
	}
	return sides
}

// sameValueSchema is a schema that applies to the same value as another one, with the base of its local
// references.
type sameValueSchema struct{ schema, owner *jsontree.Node }

// sameValueSchemas returns the schemas that hold for a value whenever n does.
func (b *bundler) sameValueSchemas(n, owner *jsontree.Node) iter.Seq[sameValueSchema] {
	return func(yield func(sameValueSchema) bool) {
		if reference := n.Member("$ref"); reference != nil && owner.Member("$id") == nil {
			if target, err := b.document.target(reference, owner); err == nil && target != nil && !yield(sameValueSchema{target, target}) {
				return
			}
		}
		for _, schema := range n.Member("allOf").Elements() {
			if !yield(sameValueSchema{schema, owner}) {
				return
			}
		}
	}
}

// isMarked reports whether a schema describes a value that the side does not write.
func (b *bundler) isMarked(n, owner *jsontree.Node) bool {
	if is, known := b.marks[n]; known {
		return is
	}
	b.marks[n] = false // one that leads back to itself says nothing
	is := n.Member(b.side.keyword()).True()
	for p := range b.sameValueSchemas(n, owner) {
		is = is || b.isMarked(p.schema, p.owner)
	}
	b.marks[n] = is
	return is
}

// hiddenNames returns the names of the members that the side does not write, in their order.
func (b *bundler) hiddenNames(n, owner *jsontree.Node) []string {
	names, known := b.hides[n]
	if known || !b.document.marks[b.side] {
		return names
	}
	b.hides[n] = nil
	for name, member := range n.Member("properties").Members() {
		if b.isMarked(member, owner) {
			names = append(names, name)
		}
	}
	for p := range b.sameValueSchemas(n, owner) {
		names = append(names, b.hiddenNames(p.schema, p.owner)...)
	}
	if b.document.budget.take(int64(len(names))) != nil {
		return nil // the error is reported when the bundle is done
	}
	b.hides[n] = union(names, nil)
	return b.hides[n]
}

func union(a, b []string) []string {
	if len(b) == 0 && slices.IsSorted(a) {
		return slices.Compact(a)
	}
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// hiddenOnlyByOther returns those names of hidden that a schema mentions and does not hide itself. The schema
// applies to the same value as the one that hides them.
func (b *bundler) hiddenOnlyByOther(target *jsontree.Node, hidden []string) []string {
	own := b.hiddenNames(target, target)
	left := slices.DeleteFunc(slices.Clone(hidden), func(name string) bool { return slices.Contains(own, name) })
	if len(left) == 0 {
		return nil
	}
	said := make(map[string]bool)
	b.noteMentioned(sameValueSchema{target, target}, said, make(map[*jsontree.Node]bool))
	return slices.DeleteFunc(left, func(name string) bool { return !said[name] })
}

// noteMentioned gathers the members that a schema, and the schemas that apply together with it, have
// rules for.
func (b *bundler) noteMentioned(of sameValueSchema, said map[string]bool, seen map[*jsontree.Node]bool) {
	if seen[of.schema] || b.document.budget.take(1) != nil {
		return
	}
	seen[of.schema] = true
	note := func(list *jsontree.Node) {
		for _, element := range list.Elements() {
			name, _ := element.Text()
			said[name] = true
		}
	}
	note(of.schema.Member("required"))
	for _, list := range of.schema.Member("dependentRequired").Members() {
		note(list)
	}
	for name := range of.schema.Member("properties").Members() {
		said[name] = said[name] || b.side.cuts()
	}
	for p := range b.sameValueSchemas(of.schema, of.owner) {
		b.noteMentioned(p, said, seen)
	}
	for keyword, value := range of.schema.Members() {
		if keyword == "allOf" || !narrowsValue(keyword) {
			continue
		}
		for schema := range below(keyword, value) {
			b.noteMentioned(sameValueSchema{schema, of.owner}, said, seen)
		}
	}
}

// narrowsValue reports whether the schemas of a keyword can only narrow the value of the schema around
// them. Those of not and if would widen it.
func narrowsValue(keyword string) bool {
	switch keyword {
	case "allOf", "anyOf", "oneOf", "then", "else", "dependentSchemas":
		return true
	}
	return false
}

// isChoice reports whether a keyword distinguishes forms of a value.
func isChoice(keyword string) bool { return keyword == "anyOf" || keyword == "oneOf" }

// leaveOut notes the members of a schema that the side does not write, so that the copy leaves them
// out. Inside anyOf and oneOf, no list of required members is emptied: such a list distinguishes
// the forms of the value.
func (w *walker) leaveOut(n *jsontree.Node, hidden []string, choice bool) {
	if len(hidden) == 0 {
		return
	}
	hides := func(name string) bool { return slices.Contains(hidden, name) }
	own := w.hides[n]
	w.dropNames(n.Member("required"), hides, choice && !slices.ContainsFunc(own, hides))
	for _, list := range n.Member("dependentRequired").Members() {
		w.dropNames(list, hides, false)
	}
	if properties := n.Member("properties"); properties != nil && w.side.cuts() {
		w.cutMembers(properties, hides)
	}
}

// dropNames takes names from a list.
func (w *walker) dropNames(list *jsontree.Node, hides func(string) bool, keep bool) {
	var left []string
	for _, element := range list.Elements() {
		if name, _ := element.Text(); !hides(name) {
			left = append(left, string(element.Raw))
		}
	}
	if len(left) == list.Len() || keep && len(left) == 0 {
		return
	}
	w.edits = append(w.edits, edit{list.Start, list.Start + len(list.Raw), "[" + strings.Join(left, ",") + "]"})
}

// cutMembers removes members from an object, with the commas around them.
func (w *walker) cutMembers(object *jsontree.Node, hides func(string) bool) {
	begin := object.Start + 1
	at, lead, kept := begin, begin, false // at: end of the member before; lead: end of the removed members at the beginning
	for name, member := range object.Members() {
		end := member.Start + len(member.Raw)
		switch {
		case hides(name) && kept:
			w.edits = append(w.edits, edit{at, end, ""})
		case hides(name):
			lead = end
		case !kept && lead > begin:
			comma := bytes.IndexByte(object.Raw[lead-object.Start:], ',')
			w.edits = append(w.edits, edit{begin, lead + comma + 1, ""})
		}
		if hides(name) {
			w.cut = append(w.cut, member)
		} else {
			kept = true
		}
		at = end
	}
	if !kept && lead > begin {
		w.edits = append(w.edits, edit{begin, lead, ""})
	}
}

// isCut reports whether a schema is inside a member that is left out.
func isCut(target *jsontree.Node, cut []*jsontree.Node) bool {
	return slices.ContainsFunc(cut, func(member *jsontree.Node) bool {
		_, ok := within(target, member)
		return ok
	})
}
