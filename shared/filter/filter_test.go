package filter_test

import (
	"fmt"
	"strings"
	"testing"

	"waybill.dev/shared/filter"
)

const timestamp = "2026-09-01T14:00:00.5+02:00"

// event returns the payload of an event with a data object.
func event(data string) []byte {
	return []byte(`{"id":"evt_1","type":"shipment.delivered","timestamp":"` + timestamp + `","data":` + data + `}`)
}

func parse(t testing.TB, text string) *filter.Filter {
	t.Helper()
	f, faults := filter.Parse([]byte(text))
	if len(faults) > 0 {
		t.Fatalf("filter %s: %+v", text, faults)
	}
	return f
}

// Every rule of the semantics, with an event that matches and one that does not.
func TestMatches(t *testing.T) {
	t.Parallel()
	const all, none = true, false
	deep := strings.Repeat("0", 3000)
	for _, c := range []struct {
		filter, data string
		want         bool
	}{
		{`{}`, `{}`, all},
		{`{"data.a":1}`, `{"a":1}`, all},
		{`{"data.a":1}`, `{"a":2}`, none},
		{`{"data.a":1,"data.b":2}`, `{"a":1}`, none},
		{`{"data.a":1,"data.b":2}`, `{"b":2,"a":1}`, all},
		{`{"data.a.b":"x"}`, `{"a":{"b":"x"}}`, all},
		{`{"data.a.b":"x"}`, `{"a":[{"b":"x"}]}`, none},
		{`{"data.a.b":"x"}`, `{"a.b":"x"}`, none},
		{`{"data.a":"1"}`, `{"a":1}`, none},
		{`{"data.a":"ä/\""}`, `{"a":"\u00e4\/\""}`, all},
		{`{"data.\u00e4":1}`, `{"ä":1}`, all},
		{`{"data.ä":1}`, `{"\u00e4":1}`, all},
		{`{"data.a":true}`, `{"a":true}`, all},
		{`{"data.a":true}`, `{"a":false}`, none},
		{`{"data.a":{"$gt":1,"$lt":3}}`, `{"a":2}`, all},
		{`{"data.a":{"$gt":1,"$lt":3}}`, `{"a":3}`, none},
		{`{"type":"shipment.delivered"}`, `{}`, all},
		{`{"type":{"$startsWith":"shipment.","$endsWith":"created"}}`, `{}`, none},

		// Null is a value; what is missing is none.
		{`{"data.a":null}`, `{"a":null}`, all},
		{`{"data.a":null}`, `{}`, none},
		{`{"data.a":{"$exists":true}}`, `{"a":null}`, all},
		{`{"data.a":{"$exists":false}}`, `{"a":null}`, none},
		{`{"data.a":{"$exists":false}}`, `{}`, all},
		{`{"data.a.b":{"$exists":false}}`, `{"a":1}`, all},
		{`{"data.a":{"$exists":true}}`, `{}`, none},
		{`{"data.a":{"$ne":1}}`, `{}`, all},
		{`{"data.a":{"$ne":null}}`, `{}`, all},
		{`{"data.a":{"$ne":null}}`, `{"a":null}`, none},
		{`{"data.a":{"$nin":[1]}}`, `{}`, all},
		{`{"data.a":{"$in":[null]}}`, `{}`, none},
		{`{"data.a":{"$in":[null]}}`, `{"a":null}`, all},
		{`{"data.a":{"$not":{"$gt":1}}}`, `{}`, all},
		{`{"$not":{"data.a":{"$gt":1}}}`, `{}`, all},
		{`{"data.a":{"$not":1}}`, `{"a":1}`, none},
		{`{"data.a":{"$gt":1}}`, `{}`, none},
		{`{"data.a":{"$contains":"x"}}`, `{}`, none},
		{`{"data.a":{"$startsWith":""}}`, `{}`, none},

		// Numbers are compared exactly, however they are written.
		{`{"data.a":100}`, `{"a":1e2}`, all},
		{`{"data.a":100}`, `{"a":100.00}`, all},
		{`{"data.a":0.1}`, `{"a":10E-2}`, all},
		{`{"data.a":0.1}`, `{"a":0.1000000000000000055511151231257827021181583404541015625}`, none},
		{`{"data.a":9007199254740993}`, `{"a":9007199254740992}`, none},
		{`{"data.a":{"$gt":9007199254740992}}`, `{"a":9007199254740993}`, all},
		{`{"data.a":0}`, `{"a":-0.0e77}`, all},
		{`{"data.a":{"$lt":0}}`, `{"a":-1e-999999999}`, all},
		{`{"data.a":{"$gt":1e999999999}}`, `{"a":1e1000000000}`, all},
		{`{"data.a":10e99999999999999999999}`, `{"a":1e100000000000000000000}`, all},
		{`{"data.a":1e-100000000000000000000}`, `{"a":0.1e-99999999999999999999}`, all},
		{`{"data.a":1e100000000000000000}`, `{"a":0.01e100000000000000002}`, all},
		{`{"data.a":1e999999999999999999}`, `{"a":0.1e1000000000000000000}`, all},
		{`{"data.a":{"$lt":1e99999999999999999999}}`, `{"a":1e99999999999999999998}`, all},
		{`{"data.a":{"$lt":1e-99999999999999999999}}`, `{"a":1e-99999999999999999998}`, none},
		{`{"data.a":{"$gt":-1e99999999999999999999}}`, `{"a":-1e99999999999999999998}`, all},
		{`{"data.a":1e3001}`, `{"a":10` + deep + `}`, all},
		{`{"data.a":{"$in":[1e2]}}`, `{"a":100}`, all},
		{`{"data.a":{"$gt":"1"}}`, `{"a":2}`, none},
		{`{"data.a":{"$gt":1}}`, `{"a":"2"}`, none},
		{`{"data.a":{"$gte":2,"$lte":2.0}}`, `{"a":2}`, all},

		// Texts are ordered by their characters.
		{`{"data.a":{"$gte":"b","$lt":"c"}}`, `{"a":"bz"}`, all},
		{`{"data.a":{"$lte":"ab"}}`, `{"a":"abc"}`, none},
		{`{"data.a":{"$startsWith":"ab"}}`, `{"a":"\u0061bc"}`, all},
		{`{"data.a":{"$endsWith":"bc"}}`, `{"a":"abc"}`, all},
		{`{"data.a":{"$contains":"b"}}`, `{"a":"abc"}`, all},
		{`{"data.a":{"$contains":1}}`, `{"a":"1"}`, none},

		// Arrays match with $contains, or element by element with $in.
		{`{"data.a":{"$contains":"b"}}`, `{"a":["a","b"]}`, all},
		{`{"data.a":{"$contains":"b"}}`, `{"a":["abc"]}`, none},
		{`{"data.a":{"$contains":1}}`, `{"a":[{"b":1},1.0]}`, all},
		{`{"data.a":{"$contains":null}}`, `{"a":[null]}`, all},
		{`{"data.a":{"$in":["x","b"]}}`, `{"a":["a","b"]}`, all},
		{`{"data.a":{"$in":["x"]}}`, `{"a":["a","b"]}`, none},
		{`{"data.a":{"$nin":["b"]}}`, `{"a":["a","b"]}`, none},
		{`{"data.a":{"$nin":["x"]}}`, `{"a":["a","b"]}`, all},
		{`{"data.a":"b"}`, `{"a":["b"]}`, none},
		{`{"data.a":{"$in":["b"]}}`, `{"a":{"b":"b"}}`, none},

		// A whole array or object is compared as a whole.
		{`{"data.a":["x",1]}`, `{"a":["x",1.0]}`, all},
		{`{"data.a":["x"]}`, `{"a":["x",1]}`, none},
		{`{"data.a":["x",1]}`, `{"a":["x"]}`, none},
		{`{"data.a":[]}`, `{"a":[]}`, all},
		{`{"data.a":{"$eq":{"b":1,"c":[{}]}}}`, `{"a":{"c":[{}],"b":1}}`, all},
		{`{"data.a":{"$eq":{"b":1}}}`, `{"a":{"b":1,"c":1}}`, none},
		{`{"data.a":{"$eq":{"b":1}}}`, `{"a":{}}`, none},
		{`{"data.a":{"$ne":{"b":1}}}`, `{"a":{"b":2}}`, all},

		// The timestamp is an instant.
		{`{"timestamp":"2026-09-01T12:00:00.500Z"}`, `{}`, all},
		{`{"timestamp":{"$in":["2026-09-01T12:00:00.5Z"]}}`, `{}`, all},
		{`{"timestamp":{"$nin":["2026-09-01T12:00:00.5Z"]}}`, `{}`, none},
		{`{"timestamp":{"$gt":"2026-09-01T13:00:00Z"}}`, `{}`, none},
		{`{"timestamp":{"$gte":"2026-09-01T12:00:00.5Z","$lt":"2026-09-01T12:00:00.500000001Z"}}`, `{}`, all},
		{`{"timestamp":{"$startsWith":"2026-09-01T14"}}`, `{}`, all},

		{`{"$or":[{"data.a":1},{"data.b":1}]}`, `{"b":1}`, all},
		{`{"$or":[{"data.a":1},{"data.b":1}]}`, `{"c":1}`, none},
		{`{"$and":[{"data.a":1},{"data.b":1}]}`, `{"b":1}`, none},
		{`{"data.a":{"$or":[{"$lt":1},5]}}`, `{"a":5}`, all},
		{`{"data.a":{"$and":[{"$gt":1},{"$lt":5}]}}`, `{"a":5}`, none},
	} {
		f := parse(t, c.filter)
		if got := f.Matches(filter.Read(event(c.data))); got != c.want {
			t.Errorf("%.200s with %.100s: %v", c.filter, c.data, got)
		}
	}
}

// A miss names the clause by its place and in words of the filter.
func TestMiss(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ filter, pointer, clause string }{
		{`{"data.a": 1, "data.b": {"$gt": 5 , "$lt" : 10}}`, "/data.b/$lt", "data.b $lt 10"},
		{`{"data.a":2}`, "/data.a", "data.a $eq 2"},
		{`{"data.missing":{"$in":[1, "a b"]}}`, "/data.missing/$in", `data.missing $in [1,"a b"]`},
		{`{"$and":[{"data.a":1},{"data.b":1}]}`, "/$and/1/data.b", "data.b $eq 1"},
		{`{"$or":[{"data.a":2},{"data.b": "x \" y"}]}`, "/$or", `$or [{"data.a":2},{"data.b":"x \" y"}]`},
		{`{"$not":{"data.a":1}}`, "/$not", `$not {"data.a":1}`},
		{`{"data.a":{"$not":{"$gt":0}}}`, "/data.a/$not", `data.a $not {"$gt":0}`},
		{`{"data.x/y~":1}`, "/data.x~1y~0", "data.x/y~ $eq 1"},
		{`{"data.a":"` + strings.Repeat("ä", 150) + `"}`, "/data.a", `data.a $eq "` + strings.Repeat("ä", 94) + "…"},
	} {
		miss, missed := parse(t, c.filter).Miss(filter.Read(event(`{"a":1,"b":10}`)))
		if !missed || miss.Pointer != c.pointer || miss.Clause != c.clause {
			t.Errorf("%s: %v %+v", c.filter, missed, miss)
		}
	}
	if miss, missed := parse(t, `{"data.a":1}`).Miss(filter.Read(event(`{"a":1}`))); missed {
		t.Errorf("an event that matches misses %+v", miss)
	}
}

// What is no filter is refused, with the place of each fault.
func TestFaults(t *testing.T) {
	t.Parallel()
	nested := func(depth int) string { // each $not is an object, the innermost has a path
		return strings.Repeat(`{"$not":`, depth-1) + `{"data.a":1}` + strings.Repeat("}", depth-1)
	}
	clauses := func(n int) string {
		return `{"$or":[` + strings.TrimSuffix(strings.Repeat(`{"data.a":1},`, n), ",") + `]}`
	}
	sized := func(n int) string { return fmt.Sprintf(`{"data.a":"%s"}`, strings.Repeat("x", n-len(`{"data.a":""}`))) }
	for _, c := range []struct{ filter, want string }{
		{``, " is not valid JSON, from byte 0 on"},
		{`{"data.a":1`, " is not valid JSON, from byte 11 on"},
		{`{"data.a":1}x`, " is not valid JSON, from byte 12 on"},
		{`[]`, " must be an object"},
		{`null`, " must be an object"},
		{`{"data.a":1,"data.a":1}`, "/data.a is given twice"},
		{`{"data":1}`, "/data must be type, timestamp, or a path"},
		{`{"id":1}`, "/id must be type, timestamp, or a path"},
		{`{"data.":1}`, "/data. must be"},
		{`{"data.a..b":1}`, "/data.a..b must be"},
		{`{"$xor":[]}`, "/$xor is no operator that can stand beside paths"},
		{`{"$eq":1}`, "/$eq is no operator that can stand beside paths"},
		{`{"data.a":{"$regex":"x"}}`, "/data.a/$regex is no operator that there is: $eq"},
		{`{"data.a":{"b":1}}`, "/data.a/b is no operator; write"},
		{`{"data.a":{}}`, "/data.a must have an operator"},
		{`{"data.a":{"$gt":true}}`, "/data.a/$gt must be a number or a string"},
		{`{"data.a":{"$in":1}}`, "/data.a/$in must be an array"},
		{`{"data.a":{"$in":[]}}`, "/data.a/$in must have at least one element"},
		{`{"data.a":{"$in":[[]]}}`, "/data.a/$in/0 must be a string, a number"},
		{`{"data.a":{"$contains":{}}}`, "/data.a/$contains must be a string, a number"},
		{`{"data.a":{"$exists":1}}`, "/data.a/$exists must be true or false"},
		{`{"data.a":{"$startsWith":1}}`, "/data.a/$startsWith must be a string"},
		{`{"data.a":{"$not":{}}}`, "/data.a/$not must have an operator"},
		{`{"data.a":{"$or":{}}}`, "/data.a/$or must be an array"},
		{`{"timestamp":"yesterday"}`, "/timestamp must be an RFC 3339 time"},
		{`{"timestamp":null}`, "/timestamp must be an RFC 3339 time"},
		{`{"timestamp":{"$in":["2026-01-01T00:00:00Z",1]}}`, "/timestamp/$in/1 must be an RFC 3339 time"},
		{`{"timestamp":{"$gt":5}}`, "/timestamp/$gt must be an RFC 3339 time"},
		{`{"$or":[]}`, "/$or must have at least one element"},
		{`{"$or":[{}]}`, "/$or/0 must have a path or an operator"},
		{`{"$and":[1]}`, "/$and/0 must be an object"},
		{`{"$not":[]}`, "/$not must be an object"},
		{nested(8), ""},
		{nested(9), "/$not/$not/$not/$not/$not/$not/$not/$not is nested deeper than 8 levels"},
		{`{"data.a":[[[[[[[]]]]]]]}`, ""},
		{`{"data.a":[[[[[[[["]"]]]]]]]]}`, "/data.a is nested deeper than 8 levels"},
		{clauses(50), ""},
		{clauses(51), " must have at most 50 clauses"},
		{sized(filter.MaxSize), ""},
		{sized(filter.MaxSize + 1), " must have at most 8192 bytes"},
	} {
		_, faults := filter.Parse([]byte(c.filter))
		var told strings.Builder
		for _, f := range faults {
			told.WriteString(f.Pointer + " " + f.Detail + "\n")
		}
		got := told.String()
		if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%.100s: %q, want %q", c.filter, got, c.want)
		}
	}
	if _, faults := filter.Parse([]byte(`{"a":1,"b":2,"data.c":{"$x":1}}`)); len(faults) != 3 {
		t.Errorf("not all faults are named: %+v", faults)
	}
}
