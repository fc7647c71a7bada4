package input_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/input"
	"waybill.dev/shared/jsonscan/attack"
	"waybill.dev/shared/problem"
)

func faults(t *testing.T, err error) []problem.Fault {
	t.Helper()
	var p *problem.Problem
	if err == nil {
		return nil
	}
	if !errors.As(err, &p) || p.Code != problem.InvalidInput {
		t.Fatalf("error is %v, not a problem with the input", err)
	}
	return p.Faults
}

// read asks for every kind of field that there is.
func read(body string) error {
	f, err := input.ParseForm([]byte(body))
	if err != nil {
		return err
	}
	f.Require("name")
	f.Text("name", 1, 5)
	f.Bool("on")
	f.Integer("count", 1, 10)
	f.Number("share", 0.5, 1)
	f.Time("at")
	f.Texts("words", 1, 2)
	f.Numbers("waits", 0, 2, 0, 10)
	f.Pairs("pairs", 2)
	f.Ignore("ignored")
	return f.Err()
}

func TestForm(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", input.MaxDepth) + strings.Repeat("]", input.MaxDepth)
	for name, tc := range map[string]struct {
		body string
		want []problem.Fault
	}{
		"good":                          {`{"name":"abc","on":false,"count":1e0,"share":0.5,"at":"2026-01-02T03:04:05+02:00","words":["a"],"waits":[],"pairs":{"a":"b"},"ignored":[{}]}`, nil},
		"five characters in more bytes": {`{"name":"ääöü😀"}`, nil},
		"every fault at once": {
			`{"name":7,"on":"true","count":1.5,"share":2,"at":"yesterday","words":["a",1,"b"],"waits":[1,"x"],"pairs":{"a":1,"b":null},"more":1}`,
			[]problem.Fault{
				{Pointer: "/at", Detail: "must be an RFC 3339 time"},
				{Pointer: "/count", Detail: "must be a whole number"},
				{Pointer: "/more", Detail: "is not a known member"},
				{Pointer: "/name", Detail: "must be a string"},
				{Pointer: "/on", Detail: "must be true or false"},
				{Pointer: "/pairs/a", Detail: "must be a string"},
				{Pointer: "/pairs/b", Detail: "must be a string"},
				{Pointer: "/share", Detail: "must be from 0.5 to 1"},
				{Pointer: "/waits/1", Detail: "must be a number"},
				{Pointer: "/words", Detail: "must have 1 to 2 elements"},
			},
		},
		"nothing":              {``, []problem.Fault{{Detail: "The body is empty."}}},
		"no object":            {`["a"]`, []problem.Fault{{Detail: "must be an object"}}},
		"null":                 {`{"name":null}`, []problem.Fault{{Pointer: "/name", Detail: "must be a string"}}},
		"missing":              {`{}`, []problem.Fault{{Pointer: "/name", Detail: "is required"}}},
		"cut off":              {`{"name":"a"`, []problem.Fault{{Detail: "The body is not valid JSON, from byte 11 on."}}},
		"comma too many":       {`{"name":"a",}`, []problem.Fault{{Detail: "The body is not valid JSON, from byte 11 on."}}},
		"garbage after it":     {`{"name":"a"} x`, []problem.Fault{{Detail: "The body is not valid JSON, from byte 13 on."}}},
		"two values":           {`{"name":"a"}{}`, []problem.Fault{{Detail: "The body has more than one JSON value."}}},
		"bad UTF-8":            {"{\"name\":\"a\xff\"}", []problem.Fault{{Detail: "The body is not valid JSON, from byte 10 on."}}},
		"lone surrogate":       {`{"name":"\ud800"}`, []problem.Fault{{Detail: "The body is not valid JSON, from byte 9 on."}}},
		"names twice":          {`{"name":"a","name":"b","ignored":{"x":1,"x":2}}`, []problem.Fault{{Pointer: "/ignored/x", Detail: "is given twice"}, {Pointer: "/name", Detail: "is given twice"}}},
		"name in another case": {`{"name":"a","Name":"b"}`, []problem.Fault{{Pointer: "/Name", Detail: "is not a known member"}}},
		"U+0000":               {`{"name":"a\u0000","ignored":{"\u0000":1}}`, []problem.Fault{{Pointer: "/ignored/\x00", Detail: "must not have U+0000"}, {Pointer: "/name", Detail: "must not have U+0000"}}},
		"as deep as may be":    {`{"name":"a","ignored":` + deep[1:len(deep)-1] + `}`, nil},
		"too deep":             {`{"name":"a","ignored":` + deep + `}`, []problem.Fault{{Pointer: "/ignored" + strings.Repeat("/0", input.MaxDepth-1), Detail: "is nested deeper than 64 levels"}}},
		"deep without an end":  {`{"name":"a","ignored":` + strings.Repeat("[", 20_000), nil},
		"pointer is escaped":   {`{"name":"a","a/b~c":1}`, []problem.Fault{{Pointer: "/a~1b~0c", Detail: "is not a known member"}}},
		"number too large":     {`{"name":"a","share":1e999,"count":99999999999999999999}`, []problem.Fault{{Pointer: "/count", Detail: "must be from 1 to 10"}, {Pointer: "/share", Detail: "must be from 0.5 to 1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := faults(t, read(tc.body))
			if name == "deep without an end" {
				if len(got) != 1 || !strings.HasPrefix(got[0].Detail, "is nested deeper") {
					t.Errorf("faults are %v", got)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestQuery(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		raw  string
		want []problem.Fault
	}{
		"good": {"limit=5&since=2026-01-02T03:04:05Z&kind=a", nil},
		"none": {"", nil},
		"every fault at once": {
			"limit=0&since=now&kind=c&more=1&text=a&text=b",
			[]problem.Fault{
				{Parameter: "kind", Detail: "must be one of a, b"},
				{Parameter: "limit", Detail: "must be a whole number from 1 to 10"},
				{Parameter: "more", Detail: "is not a known parameter"},
				{Parameter: "since", Detail: "must be an RFC 3339 time"},
				{Parameter: "text", Detail: "is given more than once"},
			},
		},
		"empty number": {"limit=", []problem.Fault{{Parameter: "limit", Detail: "must be a whole number from 1 to 10"}}},
		"signed":       {"limit=%2B5", []problem.Fault{{Parameter: "limit", Detail: "must be a whole number from 1 to 10"}}},
		"too large":    {"limit=99999999999999999999", []problem.Fault{{Parameter: "limit", Detail: "must be a whole number from 1 to 10"}}},
		"bad UTF-8":    {"text=%ff", []problem.Fault{{Parameter: "text", Detail: "is not valid text"}}},
		"U+0000":       {"text=a%00", []problem.Fault{{Parameter: "text", Detail: "is not valid text"}}},
		"bad escape":   {"text=%zz", []problem.Fault{{Parameter: "?", Detail: "is not a valid query"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := input.ParseQuery(tc.raw)
			q.Integer("limit", 1, 10, 3)
			q.Time("since")
			input.OneOf(q, "kind", []string{"a", "b"})
			q.Text("text")
			if diff := cmp.Diff(tc.want, faults(t, q.Err())); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzForm looks for a body that the strict reader refuses in a way that its answer can't
// carry, or that costs more than its size allows.
func FuzzForm(f *testing.F) {
	f.Add([]byte(`{"name":"abc","words":["a"],"pairs":{"a":"b"}}`))
	f.Add([]byte(`{"name":"a","name":"b"}`))
	f.Add([]byte("{\"name\":\"\\u0000\xff\"}"))
	for _, body := range attack.Bodies(4 << 10) {
		f.Add(body.Text)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) <= 1<<20 {
			hold(t, body)
		}
	})
}

// What is no request's body is called by its name.
func TestCheck(t *testing.T) {
	t.Parallel()
	for value, want := range map[string][]problem.Fault{
		`{"a":[1]}`:                 nil,
		`7`:                         nil,
		``:                          {{Detail: "The file is empty."}},
		`{"a":1,}`:                  {{Detail: "The file is not valid JSON, from byte 6 on."}},
		`{"a":1`:                    {{Detail: "The file is not valid JSON, from byte 6 on."}},
		`1 2`:                       {{Detail: "The file has more than one JSON value."}},
		`{"a":{"b":1,"b":2},"a":0}`: {{Pointer: "/a/b", Detail: "is given twice"}, {Pointer: "/a", Detail: "is given twice"}},
	} {
		if diff := cmp.Diff(want, input.Check(t.Context(), []byte(value), "file")); diff != "" {
			t.Errorf("faults of %s (-want +got):\n%s", value, diff)
		}
	}
}
