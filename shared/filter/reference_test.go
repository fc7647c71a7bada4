package filter_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"waybill.dev/shared/filter"
)

// What follows says the same as the package, in the plainest way: everything is decoded, a
// number is a big.Rat, and each operator is a line.

func decode(text []byte) any {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		panic(err)
	}
	return v
}

func rat(v any) *big.Rat {
	n, ok := v.(json.Number)
	if !ok {
		return nil
	}
	r, _ := new(big.Rat).SetString(string(n))
	return r
}

func same(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		other := rat(b)
		return other != nil && rat(a).Cmp(other) == 0
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !same(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name := range a {
			if other, ok := b[name]; !ok || !same(a[name], other) {
				return false
			}
		}
		return true
	}
	switch b.(type) {
	case json.Number, []any, map[string]any:
		return false
	}
	return a == b
}

func find(v any, names []string) (any, bool) {
	for _, name := range names {
		object, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = object[name]; !ok {
			return nil, false
		}
	}
	return v, true
}

func within(list []any, v any) bool {
	for _, each := range list {
		if same(each, v) {
			return true
		}
	}
	return false
}

func referFilter(f, event any) bool {
	for name, value := range f.(map[string]any) {
		ok := false
		switch name {
		case "$and":
			ok = true
			for _, each := range value.([]any) {
				ok = ok && referFilter(each, event)
			}
		case "$or":
			for _, each := range value.([]any) {
				ok = ok || referFilter(each, event)
			}
		case "$not":
			ok = !referFilter(value, event)
		default:
			v, there := find(event, strings.Split(name, "."))
			if name == "timestamp" {
				v = at(v)
				value = instants(value)
			}
			ok = referCondition(value, v, there)
		}
		if !ok {
			return false
		}
	}
	return true
}

func at(v any) any {
	t, err := time.Parse(time.RFC3339, v.(string))
	if err != nil {
		panic(err)
	}
	return json.Number(new(big.Int).Add(new(big.Int).Mul(big.NewInt(t.Unix()), big.NewInt(1e9)), big.NewInt(int64(t.Nanosecond()))).String())
}

// instants makes all times of a condition numbers.
func instants(v any) any {
	switch v := v.(type) {
	case string:
		return at(v)
	case []any:
		list := []any{}
		for _, each := range v {
			list = append(list, instants(each))
		}
		return list
	case map[string]any:
		object := map[string]any{}
		for name, each := range v {
			object[name] = instants(each)
		}
		return object
	}
	return v
}

func referCondition(c, v any, there bool) bool {
	object, ok := c.(map[string]any)
	if !ok {
		return there && same(c, v)
	}
	for op, operand := range object {
		if !referOperator(op, operand, v, there) {
			return false
		}
	}
	return true
}

func referOperator(op string, operand, v any, there bool) bool {
	text, isText := v.(string)
	want, wantText := operand.(string)
	array, isArray := v.([]any)
	number, wantNumber := rat(v), rat(operand)
	order, ordered := 0, false
	switch {
	case number != nil && wantNumber != nil:
		order, ordered = number.Cmp(wantNumber), true
	case isText && wantText:
		order, ordered = strings.Compare(text, want), true
	}
	switch op {
	case "$and", "$or":
		ok := op == "$and"
		for _, each := range operand.([]any) {
			if one := referCondition(each, v, there); op == "$and" {
				ok = ok && one
			} else {
				ok = ok || one
			}
		}
		return ok
	case "$not":
		return !referCondition(operand, v, there)
	case "$exists":
		return there == operand.(bool)
	case "$eq":
		return there && same(operand, v)
	case "$ne":
		return !there || !same(operand, v)
	case "$gt":
		return there && ordered && order > 0
	case "$gte":
		return there && ordered && order >= 0
	case "$lt":
		return there && ordered && order < 0
	case "$lte":
		return there && ordered && order <= 0
	case "$startsWith":
		return isText && strings.HasPrefix(text, want)
	case "$endsWith":
		return isText && strings.HasSuffix(text, want)
	case "$contains":
		return isText && wantText && strings.Contains(text, want) || isArray && within(array, operand)
	case "$in", "$nin":
		in := there && within(operand.([]any), v)
		for _, each := range array {
			in = in || within(operand.([]any), each)
		}
		return in == (op == "$in")
	}
	panic(op)
}

// maker makes filters and events of few names and values, so that they often meet.
type maker struct{ *rand.Rand }

func (m maker) of(list ...string) string { return list[m.IntN(len(list))] }

func (m maker) scalar() string {
	return m.of("0", "-0", "1", "1.0", "10e-1", "0.1", "1E-1", "100", "1e2", "-1", "-1.5", "12345678901234567890", "12345678901234567891", "0.30000000000000004", "0.3", "1e-300", "2e300",
		`"a"`, `"ab"`, `"b"`, `"\u0061b"`, `"ä"`, `"\u00e4"`, `""`, `"1"`, "true", "false", "null")
}

func (m maker) several(each func() string) string {
	list := make([]string, 1+m.IntN(3))
	for i := range list {
		list[i] = each()
	}
	return "[" + strings.Join(list, ", ") + "]"
}

func (m maker) value(depth int) string {
	switch m.IntN(6 + 2*depth) {
	case 0:
		if depth > 0 {
			return m.of("[]", m.several(func() string { return m.value(depth - 1) }))
		}
	case 1:
		if depth > 0 {
			return m.object(depth - 1)
		}
	}
	return m.scalar()
}

func (m maker) object(depth int) string {
	var members []string
	for _, name := range []string{`"a"`, `"b"`, `"\u0063"`} {
		if m.IntN(3) > 0 {
			members = append(members, name+":"+m.value(depth))
		}
	}
	m.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return "{" + strings.Join(members, ",") + "}"
}

func (m maker) text() string { return m.of(`"a"`, `"b"`, `""`, `"\u00e4"`, `"ab"`) }

func (m maker) time() string {
	return m.of(`"2026-09-01T12:00:00.5Z"`, `"2026-09-01T14:00:00.500+02:00"`, `"2026-09-01T12:00:00.500000001Z"`, `"2025-09-01T12:00:00Z"`, `"2027-09-01T12:00:00Z"`)
}

func (m maker) condition(timed bool, depth int) string {
	scalar, value, ordered := m.scalar, func() string { return m.value(2) }, func() string { return m.of("1", "0.1", "1e2", m.text()) }
	if timed {
		scalar, value, ordered = m.time, m.time, m.time
	}
	if m.IntN(4) == 0 {
		if bare := value(); bare[0] != '{' {
			return bare
		}
	}
	ops := map[string]string{}
	for range 1 + m.IntN(2) {
		switch op := m.of("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$startsWith", "$contains", "$exists", "$and", "$or", "$not"); op {
		case "$eq", "$ne":
			ops[op] = value()
		case "$gt", "$gte", "$lt", "$lte":
			ops[op] = ordered()
		case "$in", "$nin":
			ops[op] = m.several(scalar)
		case "$exists":
			ops[op] = m.of("true", "false")
		case "$and", "$or":
			if depth > 0 {
				ops[op] = m.several(func() string { return m.condition(timed, 0) })
			}
		case "$not":
			if depth > 0 {
				ops[op] = m.condition(timed, 0)
			}
		default:
			if !timed {
				ops[op] = m.text()
				ops["$endsWith"] = m.text()
			}
		}
	}
	if len(ops) == 0 {
		return `{"$exists":true}`
	}
	return joined(ops)
}

func joined(members map[string]string) string {
	var list []string
	for name, value := range members {
		list = append(list, `"`+name+`" : `+value)
	}
	return "{" + strings.Join(list, ",") + "}"
}

func (m maker) filter(depth int) string {
	members := map[string]string{}
	for range 1 + m.IntN(2) {
		switch m.IntN(8) {
		case 0:
			members["timestamp"] = m.condition(true, 1)
		case 1:
			members["type"] = m.of(`"shipment.delivered"`, `{"$in":["shipment.delivered","x"]}`, `{"$startsWith":"ship"}`)
		case 2:
			if depth > 0 {
				members[m.of("$and", "$or")] = m.several(func() string { return m.filter(depth - 1) })
			}
		case 3:
			if depth > 0 {
				members["$not"] = m.filter(depth - 1)
			}
		default:
			members["data."+m.of("a", "b", "c", "a.b", "b.a", "c.c")] = m.condition(false, 1)
		}
	}
	if len(members) == 0 {
		return `{"data.a":{"$exists":true}}`
	}
	return joined(members)
}

// Filters and events that were made at random match here as they do by the reference, and an
// event that matches has what its filter needs.
func TestReference(t *testing.T) {
	t.Parallel()
	m := maker{rand.New(rand.NewPCG(1, 2))}
	matched, missed := 0, 0
	for range 4_000 {
		text, body := m.filter(1), event(m.object(3))
		f, faults := filter.Parse([]byte(text))
		if len(faults) > 0 {
			t.Fatalf("%s: %+v", text, faults)
		}
		read := filter.Read(body)
		want := referFilter(decode([]byte(text)), decode(body))
		if got := f.Matches(read); got != want {
			t.Fatalf("%s with %s: %v, want %v", text, body, got, want)
		}
		if miss, ok := f.Miss(read); ok == want || ok && miss.Clause == "" {
			t.Fatalf("%s with %s: %v, and misses %+v", text, body, want, miss)
		}
		if want {
			matched++
			holds(t, f, read, text)
		} else {
			missed++
		}
	}
	if matched < 500 || missed < 500 {
		t.Errorf("%d matched and %d did not: it is no trial of either", matched, missed)
	}
}

// holds makes sure that an event which matches has one of the keys that the filter needs.
func holds(t *testing.T, f *filter.Filter, read *filter.Event, text string) {
	t.Helper()
	for _, need := range f.RequiredKeys() {
		found := false
		read.Keys(need, func(key filter.Key) {
			for _, wanted := range need.Keys {
				found = found || key == wanted
			}
		})
		if !found {
			t.Fatalf("%s matches without one of %+v at %s", text, need.Keys, need.Path())
		}
	}
	if within, ok := f.Range(); ok {
		found := false
		filter.NewRanges([]filter.Range{within}).Find(read, func(int) { found = true })
		if !found {
			t.Fatalf("%s matches out of its range at %s", text, within.Place())
		}
	}
}
