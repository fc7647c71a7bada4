package filter_test

import (
	"testing"

	"waybill.dev/shared/envelope"
	"waybill.dev/shared/filter"
	"waybill.dev/shared/jsonscan"
	"waybill.dev/shared/jsonscan/attack"
)

// Whatever a filter and an event are, neither costs more than its size allows, a filter that is taken is evaluated without a panic, a
// miss names a clause, its negation matches exactly when it does not, and what it needs is there
// when it matches.
func FuzzFilter(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"data.a":{"$gt":1e99999999999999999999,"$ne":null}}`, `{"a":-0.00e-99999999999999999999}`},
		{`{"timestamp":{"$lt":"2026-09-01T12:00:00.5Z"},"type":{"$in":["x"]}}`, `{}`},
		{`{"$or":[{"data.a.b":[1,{"x":"\ud83d\ude00"}]},{"$not":{"data.a":{"$contains":"\u0061"}}}]}`, `{"a":{"b":[1.0,{"x":"😀"}]}}`},
		{`{"data.a":{"$startsWith":"x","$endsWith":"y","$exists":true}}`, `{"a":"xy"}`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, text, data string) {
		var chosen *filter.Filter
		var faults []jsonscan.Fault
		attack.Hold(t, len(text), attack.Allowance{Times: 60}, func() { chosen, faults = filter.Parse([]byte(text)) })
		for _, fault := range faults {
			if fault.Detail == "" || len(fault.Pointer) > jsonscan.MaxPointer {
				t.Fatalf("fault: %+v", fault)
			}
		}
		if chosen == nil != (len(faults) > 0) {
			t.Fatalf("%d faults of what is a filter: %v", len(faults), chosen != nil)
		}
		found, err := jsonscan.Check(t.Context(), []byte(data), jsonscan.Options{Around: 1})
		if chosen == nil || err != nil || len(found) > 0 || len(data) > envelope.MaxEventSize {
			return
		}
		read := filter.Read(event(data))
		var matches bool
		attack.Hold(t, len(text)+len(data), attack.Allowance{Times: 60}, func() { matches = chosen.Matches(read) })
		if miss, missed := chosen.Miss(read); missed == matches || missed && miss.Clause == "" {
			t.Fatalf("%s matches: %v; misses: %v %+v", text, matches, missed, miss)
		}
		if negated, faults := filter.Parse([]byte(`{"$not":` + text + `}`)); len(faults) == 0 && negated.Matches(read) == matches {
			t.Fatalf("%s and its negation both match: %v", text, matches)
		}
		if matches {
			holds(t, chosen, read, text)
		}
	})
}
