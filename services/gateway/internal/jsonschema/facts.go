package jsonschema

import (
	"slices"
	"strings"

	library "github.com/santhosh-tekuri/jsonschema/v6"
)

// facts are computed once for a schema, so that checking a value costs little.
type facts struct {
	types    types
	names    map[string]int // number of each member whose presence matters
	required []int
	none     []bool // as many as names
	refers   []*library.Schema
	applies  bool // applies other schemas to the whole value
}

// types is a set of types of values.
type types uint8

const (
	typeNull types = 1 << iota
	typeBoolean
	typeNumber
	typeInteger
	typeString
	typeArray
	typeObject
)

func typeNamed(name string) types {
	i := slices.Index([]string{"null", "boolean", "number", "integer", "string", "array", "object"}, name)
	return 1 << max(i, 0)
}

// typeOf is the type of a value by its kind.
func typeOf(kind byte) types {
	switch kind {
	case 'n':
		return typeNull
	case 't', 'f':
		return typeBoolean
	case '0':
		return typeNumber
	case '"':
		return typeString
	case '[':
		return typeArray
	}
	return typeObject
}

// survey gathers the facts of a schema and of all schemas that it leads to.
type survey struct {
	facts   map[*library.Schema]*facts
	dynamic bool // the target of some reference would depend on where it is met, if there were several resources
	foreign bool // some schema belongs to a resource of the library
}

// references returns the schemas that a schema refers to. A dynamic reference has one target: only
// one resource is compiled, and within it each anchor exists once.
func references(s *library.Schema) []*library.Schema {
	var all []*library.Schema
	if s.Ref != nil {
		all = append(all, s.Ref)
	}
	if s.RecursiveRef != nil {
		all = append(all, s.RecursiveRef)
	}
	if s.DynamicRef != nil {
		all = append(all, s.DynamicRef.Ref)
	}
	return all
}

func (v *survey) visit(s *library.Schema) {
	if s == nil || v.facts[s] != nil {
		return
	}
	f := &facts{names: make(map[string]int)}
	v.facts[s] = f
	f.refers = references(s)
	f.applies = len(f.refers) > 0 || s.Not != nil || s.If != nil || len(s.AllOf)+len(s.AnyOf)+len(s.OneOf) > 0
	if s.Types != nil {
		for _, name := range s.Types.ToStrings() {
			f.types |= typeNamed(name)
		}
	}
	for _, name := range s.Required {
		f.required = append(f.required, f.number(name))
	}
	for name, dependency := range s.Dependencies {
		f.number(name)
		switch dependency := dependency.(type) {
		case []string:
			f.numbers(dependency)
		case *library.Schema:
			v.visit(dependency)
		}
	}
	for name, names := range s.DependentRequired {
		f.number(name)
		f.numbers(names)
	}
	for name, schema := range s.DependentSchemas {
		f.number(name)
		v.visit(schema)
	}
	f.none = make([]bool, len(f.names))
	v.dynamic = v.dynamic || s.DynamicRef != nil || s.RecursiveRef != nil
	v.foreign = v.foreign || !strings.HasPrefix(s.Location, location)
	v.below(s)
}

// below visits the schemas that a schema leads to.
func (v *survey) below(s *library.Schema) {
	for _, schema := range []*library.Schema{
		s.Not, s.If, s.Then, s.Else, s.PropertyNames, s.UnevaluatedProperties,
		s.Contains, s.Items2020, s.UnevaluatedItems,
	} {
		v.visit(schema)
	}
	items, _ := s.Items.([]*library.Schema)
	for _, list := range [][]*library.Schema{v.facts[s].refers, s.AllOf, s.AnyOf, s.OneOf, s.PrefixItems, items} {
		for _, schema := range list {
			v.visit(schema)
		}
	}
	for _, schema := range s.Properties {
		v.visit(schema)
	}
	for _, schema := range s.PatternProperties {
		v.visit(schema)
	}
	for _, either := range []any{s.Items, s.AdditionalItems, s.AdditionalProperties} {
		if schema, ok := either.(*library.Schema); ok {
			v.visit(schema)
		}
	}
}

// number returns the number of a member whose presence matters.
func (f *facts) number(name string) int {
	n, ok := f.names[name]
	if !ok {
		n = len(f.names)
		f.names[name] = n
	}
	return n
}

func (f *facts) numbers(names []string) {
	for _, name := range names {
		f.number(name)
	}
}
