package input_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/input"
	"waybill.dev/shared/problem"
)

// readList reads an array of objects with a name each, and a list of texts or objects.
func readList(body string) error {
	whole, forms, err := input.ParseForms([]byte(body), 1, 3)
	if err != nil {
		return err
	}
	for _, f := range forms {
		f.Text("name", 1, 3)
		people, _ := f.Elements("people", 0, 2, true)
		for _, person := range people {
			if person.Form != nil {
				person.Form.Text("mail", 1, 3)
			}
		}
		f.Elements("things", 0, 2, false)
		f.Object("data")
	}
	return whole.Err()
}

func TestNestedForms(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 70) + strings.Repeat("]", 70)
	for name, tc := range map[string]struct {
		body string
		want []problem.Fault
	}{
		"good": {body: `[{"name":"a","people":["x",{"mail":"y"}],"things":[{}],"data":{"a":[1]}}]`},
		"faults of elements": {
			`[{"name":"long","x":1},7,{"people":[1,{"mail":2,"more":3}],"things":["t"],"data":[]}]`,
			[]problem.Fault{
				{Pointer: "/0/name", Detail: "must have 1 to 3 characters"},
				{Pointer: "/0/x", Detail: "is not a known member"},
				{Pointer: "/1", Detail: "must be an object"},
				{Pointer: "/2/data", Detail: "must be an object"},
				{Pointer: "/2/people/0", Detail: "must be a string or an object"},
				{Pointer: "/2/people/1/mail", Detail: "must be a string"},
				{Pointer: "/2/people/1/more", Detail: "is not a known member"},
				{Pointer: "/2/things/0", Detail: "must be an object"},
			},
		},
		"twice":    {`[{"name":"a","name":"b"}]`, []problem.Fault{{Pointer: "/0/name", Detail: "is given twice"}}},
		"none":     {`[]`, []problem.Fault{{Detail: "must have 1 to 3 elements"}}},
		"too many": {`[{},{},{},{}]`, []problem.Fault{{Detail: "must have 1 to 3 elements"}}},
		"object":   {`{}`, []problem.Fault{{Detail: "must be an array"}}},
		"no JSON":  {`[{]`, []problem.Fault{{Detail: "The body is not valid JSON, from byte 2 on."}}},
		"deep":     {deep, []problem.Fault{{Pointer: "/0", Detail: "must be an object"}, {Pointer: strings.Repeat("/0", 64), Detail: "is nested deeper than 64 levels"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, faults(t, readList(tc.body))); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestQueryOfManagement(t *testing.T) {
	t.Parallel()
	q := input.ParseQuery("a=true&b=false&c=1&d=True&tag.org=a%20b&tag.=x&tag.two=1&tag.two=2&tag.%ff=x")
	for _, tc := range []struct {
		name      string
		value, ok bool
	}{{"a", true, true}, {"b", false, true}, {"c", false, false}, {"d", false, false}, {"e", false, false}} {
		if value, ok := q.Bool(tc.name); value != tc.value || ok != tc.ok {
			t.Errorf("Bool(%s) is %t, %t", tc.name, value, ok)
		}
	}
	if diff := cmp.Diff(map[string]string{"org": "a b", "": "x"}, q.Prefixed("tag.")); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	want := []problem.Fault{
		{Parameter: "c", Detail: "must be true or false"},
		{Parameter: "d", Detail: "must be true or false"},
		{Parameter: "tag.two", Detail: "is given more than once"},
		{Parameter: "tag.\xff", Detail: "is not a valid name"},
	}
	if diff := cmp.Diff(want, faults(t, q.Err())); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}
