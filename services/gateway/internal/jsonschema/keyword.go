package jsonschema

import (
	"bytes"
	"unicode/utf8"

	library "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"waybill.dev/shared/jsonscan"
)

// object checks an object's members, and goes past it.
func (v *run) object(s *library.Schema, r *jsonscan.Reader, same int, own *evaluated) bool {
	f, start := v.facts[s], *r
	first := len(v.present)
	v.present = append(v.present, f.none...)
	good, count := true, 0
	from := r.Offset()
	r.Enter()
	v.path = append(v.path, jsonscan.Step{})
	for name, ok := r.Member(); ok && !v.stopped(); name, ok = r.Member() {
		v.path[len(v.path)-1].Name = name
		good = v.member(s, f, first, name, count, r, own) && good
		count++
	}
	v.path = v.path[:len(v.path)-1]
	v.spend(min(r.Offset()-from, 16*count)) // the bytes between the values
	switch {
	case s.MinProperties != nil && count < *s.MinProperties:
		good = v.fails(&kind.MinProperties{Want: *s.MinProperties})
	case s.MaxProperties != nil && count > *s.MaxProperties:
		good = v.fails(&kind.MaxProperties{Want: *s.MaxProperties})
	}
	for i, n := range f.required {
		if !v.present[first+n] {
			v.noteFault("is required", s.Required[i])
			good = false
		}
	}
	if s.Dependencies != nil || s.DependentRequired != nil || s.DependentSchemas != nil {
		v.chain = append(v.chain, s)
		good = v.dependent(s, f, first, start, same, own) && good
		v.chain = v.chain[:len(v.chain)-1]
	}
	v.present = v.present[:first]
	return good
}

// member checks one member and moves past its value, at which r is.
func (v *run) member(s *library.Schema, f *facts, first int, raw jsonscan.Value, number int, r *jsonscan.Reader, own *evaluated) bool {
	v.spend(len(raw))
	v.name = raw.AppendText(v.name[:0])
	if n, ok := f.names[string(v.name)]; ok {
		v.present[first+n] = true
	}
	start, read, good := *r, false, true
	text := ""
	if len(s.PatternProperties) > 0 {
		text = string(v.name)
	}
	if schema := s.Properties[string(v.name)]; schema != nil {
		good = v.fits(schema, r, len(v.chain), nil)
		read = true
	}
	for pattern, schema := range s.PatternProperties {
		if v.spend(perPattern*len(text)) && pattern.MatchString(text) {
			*r = start
			good = v.fits(schema, r, len(v.chain), nil) && good
			read = true
		}
	}
	spoken := read
	if !read && s.AdditionalProperties != nil {
		spoken = true
		switch additional := s.AdditionalProperties.(type) {
		case bool:
			if !additional {
				v.noteFault("is not a known member")
				good = false
			}
		case *library.Schema:
			good = v.fits(additional, r, len(v.chain), nil)
			read = true
		}
	}
	if s.PropertyNames != nil {
		if !v.applyQuietly(s.PropertyNames, jsonscan.Read(raw), len(v.chain), nil) {
			v.noteFault("has a name that is not allowed")
			good = false
		}
	}
	if spoken {
		own.mark(number)
	}
	if !read {
		v.skipValue(r)
	}
	return good
}

// dependent checks the requirements that some members have for the object.
func (v *run) dependent(s *library.Schema, f *facts, first int, start jsonscan.Reader, same int, own *evaluated) bool {
	good := true
	present := func(name string) bool { return v.present[first+f.names[name]] }
	require := func(names []string) {
		for _, name := range names {
			if !present(name) {
				v.noteFault("is required", name)
				good = false
			}
		}
	}
	apply := func(schema *library.Schema) { good = v.apply(schema, start, same, own) && good }
	for name, dependency := range s.Dependencies {
		if !present(name) {
			continue
		}
		switch dependency := dependency.(type) {
		case []string:
			require(dependency)
		case *library.Schema:
			apply(dependency)
		}
	}
	for name, names := range s.DependentRequired {
		if present(name) {
			require(names)
		}
	}
	for name, schema := range s.DependentSchemas {
		if present(name) {
			apply(schema)
		}
	}
	return good
}

// array checks an array's elements, and goes past it.
func (v *run) array(s *library.Schema, r *jsonscan.Reader, own *evaluated) bool {
	good, count, matched := true, 0, 0
	start := *r
	r.Enter()
	v.path = append(v.path, jsonscan.Step{})
	for ; r.Element() && !v.stopped(); count++ {
		v.path[len(v.path)-1].Index = count
		element := *r
		schema, barred := v.elementSchema(s, count)
		if schema != nil {
			good = v.fits(schema, r, len(v.chain), nil) && good
		} else {
			v.skipValue(r)
		}
		if barred {
			good = false
		}
		if schema != nil || barred || s.AdditionalItems != nil {
			own.mark(count)
		}
		if s.Contains != nil && v.applyQuietly(s.Contains, element, len(v.chain), nil) {
			matched++
			if s.DraftVersion >= 2020 {
				own.mark(count)
			}
		}
	}
	v.path = v.path[:len(v.path)-1]
	return v.checkCounts(s, start, count, matched) && good
}

// elementSchema returns the schema of an element; barred: no element is allowed here.
func (v *run) elementSchema(s *library.Schema, i int) (schema *library.Schema, barred bool) {
	if i < len(s.PrefixItems) {
		return s.PrefixItems[i], false
	}
	if s.Items2020 != nil {
		return s.Items2020, false
	}
	switch items := s.Items.(type) {
	case *library.Schema:
		return items, false
	case []*library.Schema:
		if i < len(items) {
			return items[i], false
		}
	}
	switch additional := s.AdditionalItems.(type) {
	case *library.Schema:
		return additional, false
	case bool:
		return nil, !additional
	}
	return nil, false
}

// checkCounts checks an array as a whole.
func (v *run) checkCounts(s *library.Schema, start jsonscan.Reader, count, matched int) bool {
	good := true
	if items, listed := s.Items.([]*library.Schema); s.AdditionalItems == false && s.PrefixItems == nil {
		_, all := s.Items.(*library.Schema)
		if !all && count > len(items) && (listed || count > 0) {
			good = v.fails(&kind.AdditionalItems{})
		}
	}
	if s.MinItems != nil && count < *s.MinItems {
		good = v.fails(&kind.MinItems{Want: *s.MinItems})
	}
	if s.MaxItems != nil && count > *s.MaxItems {
		good = v.fails(&kind.MaxItems{Want: *s.MaxItems})
	}
	if s.UniqueItems && count > 1 && !v.allUnique(start) {
		good = v.fails(&kind.UniqueItems{})
	}
	if s.Contains == nil {
		return good
	}
	least := 1
	if s.MinContains != nil {
		least = *s.MinContains
	}
	if matched < least {
		good = v.fails(&kind.Contains{})
	}
	if s.MaxContains != nil && matched > *s.MaxContains {
		good = v.fails(&kind.MaxContains{})
	}
	return good
}

// text checks a string.
func (v *run) text(s *library.Schema, raw jsonscan.Value) bool {
	good := true
	if s.MinLength != nil || s.MaxLength != nil {
		n := characters(raw)
		if s.MinLength != nil && n < *s.MinLength {
			good = v.fails(&kind.MinLength{Want: *s.MinLength})
		}
		if s.MaxLength != nil && n > *s.MaxLength {
			good = v.fails(&kind.MaxLength{Want: *s.MaxLength})
		}
	}
	if s.Pattern == nil || !v.spend(perPattern*len(raw)) {
		return good
	}
	if text, _ := raw.Text(); !s.Pattern.MatchString(text) {
		return v.fails(&kind.Pattern{Want: s.Pattern.String()})
	}
	return good
}

// characters counts the characters of a string.
func characters(raw jsonscan.Value) int {
	if bytes.IndexByte(raw, '\\') < 0 {
		return utf8.RuneCount(raw) - len(`""`)
	}
	text, _ := raw.Text()
	return utf8.RuneCountInString(text)
}

// number checks a number.
func (v *run) number(s *library.Schema, raw jsonscan.Value) bool {
	if s.Minimum == nil && s.Maximum == nil && s.ExclusiveMinimum == nil && s.ExclusiveMaximum == nil && s.MultipleOf == nil {
		return true
	}
	size := decimalOf(raw).size()
	if !v.spend(perNumber + size*16) {
		return false
	}
	n, ok := v.rat.SetString(string(raw))
	if !ok {
		return false
	}
	good := true
	if s.Minimum != nil && n.Cmp(s.Minimum) < 0 {
		good = v.fails(&kind.Minimum{Want: s.Minimum})
	}
	if s.Maximum != nil && n.Cmp(s.Maximum) > 0 {
		good = v.fails(&kind.Maximum{Want: s.Maximum})
	}
	if s.ExclusiveMinimum != nil && n.Cmp(s.ExclusiveMinimum) <= 0 {
		good = v.fails(&kind.ExclusiveMinimum{Want: s.ExclusiveMinimum})
	}
	if s.ExclusiveMaximum != nil && n.Cmp(s.ExclusiveMaximum) >= 0 {
		good = v.fails(&kind.ExclusiveMaximum{Want: s.ExclusiveMaximum})
	}
	if s.MultipleOf != nil && !n.Quo(n, s.MultipleOf).IsInt() {
		good = v.fails(&kind.MultipleOf{Want: s.MultipleOf})
	}
	return good
}
