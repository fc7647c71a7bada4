package routefile_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/gateway/internal/routefile"
)

// match returns the parameters, or nil, false.
func match(t *testing.T, mode routefile.PathMode, template, path string) (map[string]string, bool) {
	t.Helper()
	matcher, err := (&routefile.Operation{Path: template, Mode: mode}).Matcher()
	if err != nil {
		t.Fatalf("%s: %v", template, err)
	}
	return matcher(path)
}

func TestMatcher(t *testing.T) {
	t.Parallel()
	type params = map[string]string
	const braces, pattern = routefile.OpenAPI, routefile.URLPattern
	for _, tc := range []struct {
		mode           routefile.PathMode
		template, path string
		want           params // nil: it does not match
	}{
		{braces, "/", "/", params{}},
		{braces, "/", "", nil},
		{braces, "/", "/a", nil},
		{braces, "/a", "/a", params{}},
		{braces, "/a", "/a/", params{}},
		{braces, "/a/", "/a", params{}},
		{braces, "/a", "/a//", nil},
		{braces, "/a", "/A", nil},
		{braces, "/a", "/b", nil},
		{braces, "/a", "/%61", params{}},
		{braces, "/a%20b/ü", "/a%20b/%C3%BC", params{}},
		{braces, "/a", "a", nil},
		{braces, "/a", "/a/b", nil},
		{braces, "/a/b", "/a%2Fb", nil},
		{braces, "/{id}", "/1", params{"id": "1"}},
		{braces, "/{id}", "/", nil},
		{braces, "/{id}", "//", nil},
		{braces, "/{id}", "/a/b", nil},
		{braces, "/{id}", "/a%2Fb", params{"id": "a/b"}},
		{braces, "/{id}", "/a%252Fb", params{"id": "a%2Fb"}},
		{braces, "/{id}", "/a+b%20c%3f", params{"id": "a+b c?"}},
		{braces, "/{id}", "/%zz", nil},
		{braces, "/{id}", "/%ff", nil},
		{braces, "/{id}", "/a%00", nil},
		{braces, "/{id}", "/..", nil},
		{braces, "/{id}", "/%2e%2E", nil},
		{braces, "/{id}", "/.", nil},
		{braces, "/{id}", "/...", params{"id": "..."}},
		{braces, "/x/{id}/y/{sub}", "/x/1/y/2", params{"id": "1", "sub": "2"}},
		{braces, "/x/{id}/y/{sub}", "/x//y/2", nil},
		{braces, "/x/{a}-{b}.json", "/x/1-2.json", params{"a": "1", "b": "2"}},
		{braces, "/x/{a}-{b}.json", "/x/1-2-3.json/", params{"a": "1-2", "b": "3"}},
		{braces, "/x/{a}-{b}.json", "/x/1-.json", nil},
		{braces, "/x/{a}-{b}.json", "/x/1/2-3.json", nil},
		{braces, "/x/{a}-{b}.json", "/x/1%2F2-%33xjson", nil},
		{braces, "/x/{a}-{b}.json", "/x/1%2F2-%33%0a.json", params{"a": "1/2", "b": "3\n"}},
		{braces, "/x/v{a}/", "/x/v1", params{"a": "1"}},
		{braces, "/x/v{a}", "/x/v1/", params{"a": "1"}},
		{braces, "/x/v{a}", "/x/v%zz", nil},
		{braces, "/x/v{a}", "/x/v..", nil},
		{braces, "/x/v{a}", "/x/v%2E", nil},
		{braces, "/x/v{a}", "/x/v1..", params{"a": "1.."}},
		{braces, "/x/get({id})", "/x/get(7)", params{"id": "7"}},
		{braces, "/:id/*", "/:id/*", params{}},
		{braces, "/:id/*", "/1/2", nil},

		{pattern, "/x", "/x", params{}},
		{pattern, "/x", "/x/", nil},
		{pattern, "/x/", "/x", nil},
		{pattern, "/x/:id", "/x/1", params{"id": "1"}},
		{pattern, "/x/:id", "/x/1/", nil},
		{pattern, "/x/:id", "/x/", nil},
		{pattern, "/x/:id", "/x/a%2Fb", params{"id": "a/b"}},
		{pattern, "/x/:id", "/x/%2e%2e", nil},
		{pattern, "/x/:id", "/x/%zz", nil},
		{pattern, "/x/:id.json", "/x/1.json", params{"id": "1"}},
		{pattern, "/x/:a-:b", "/x/1-2", params{"a": "1", "b": "2"}},
		{pattern, `/x/:id(\d+)`, "/x/17", params{"id": "17"}},
		{pattern, `/x/:id(\d+)`, "/x/17a", nil},
		{pattern, `/x/:id(a|bc)/y`, "/x/bc/y", params{"id": "bc"}},
		{pattern, `/x/:id(a|bc)/y`, "/x/ab/y", nil},
		{pattern, `/x/:id((a)(b))/:z([)(]+)`, "/x/ab/()", params{"id": "ab", "z": "()"}},
		{pattern, `/x/:id(a\)(?i)b)`, "/x/a)B", params{"id": "a)B"}},
		{pattern, "/x/*", "/x/a/b%20c/", params{"0": "a/b c/"}},
		{pattern, "/x/*", "/x/a%0Ab", params{"0": "a\nb"}},
		{pattern, "/x/*", "/x/", params{"0": ""}},
		{pattern, "/x/*", "/x", nil},
		{pattern, "/x/*", "/x/a/../b", nil},
		{pattern, "/x/*", "/x/a/%2e%2e/b", nil},
		{pattern, "/x/(.*)/y/*", "/x/1/y/2", params{"0": "1", "1": "2"}},
		{pattern, `/x\:id/\*`, "/x:id/*", params{}},
		{pattern, `/x.y`, "/xzy", nil},
		{pattern, "/x", "/%78", params{}},
	} {
		got, ok := match(t, tc.mode, tc.template, tc.path)
		if ok != (tc.want != nil) {
			t.Errorf("%s matches %s: %v", tc.template, tc.path, ok)
			continue
		}
		if ok && len(tc.want)+len(got) > 0 {
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s and %s (-want +got):\n%s", tc.template, tc.path, diff)
			}
		}
	}
}

func TestPatternsThatAreNone(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{
		"x":              "a path begins with /",
		"/:":             "the path has a : without a name",
		"/:1":            "the path has a : without a name",
		"/x/:a(":         "the path has a ( without a )",
		"/x/:a([)":       "the path has a ( without a )",
		"/x/:a()":        "the path's parameter a has no regular expression of RE2",
		"/x/:a((?=x))":   "the path's parameter a has no regular expression of RE2",
		"/x/:a(?:x)":     "the path's parameter a has no regular expression of RE2",
		"/x/:a(+)":       "the path's parameter a has no regular expression of RE2",
		`/x/:a(x\1)`:     "the path's parameter a has no regular expression of RE2",
		"/x/:a?":         "the path has a ?, which this gateway does not know in a url-pattern; \\? stands for itself",
		"/x/:a+":         "the path has a +, which this gateway does not know in a url-pattern; \\+ stands for itself",
		"/x{/y}":         "the path has a {, which this gateway does not know in a url-pattern; \\{ stands for itself",
		"/x#y":           "the path has a #, which this gateway does not know in a url-pattern; \\# stands for itself",
		"/x/:a/:a":       "the path has the parameter a twice",
		"/x/:a:b":        "nothing tells the parameters a and b of the path apart",
		`/x\`:            `the path ends with a \`,
		"/x/%zz":         "the path has a % that escapes nothing",
		"/x/../y":        "the path has a segment . or .., which no request has",
		"/x/:a(x{9999})": "the path's parameter a has no regular expression of RE2",
	} {
		if _, err := (&routefile.Operation{Path: template, Mode: routefile.URLPattern}).Matcher(); err == nil || err.Error() != want {
			t.Errorf("%s: error is %v, want %s", template, err, want)
		}
	}
}

// A pattern that takes others an eternity takes no longer than its path is long.
func TestNoCatastrophicPattern(t *testing.T) {
	t.Parallel()
	matcher, err := (&routefile.Operation{Path: "/:a((x+x+)+y)/:b((z*)*)", Mode: routefile.URLPattern}).Matcher()
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if _, ok := matcher("/" + strings.Repeat("x", 50_000) + "/" + strings.Repeat("z", 50_000) + "!"); ok {
		t.Error("it matches")
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

// FuzzMatcher looks for a path that ends elsewhere than where its parameters say.
func FuzzMatcher(f *testing.F) {
	for _, path := range []string{"/x/1", "/x/a%2Fb/", "/x/../y", "/x/%2e%2e", "/x/1-2.json", "/x/..-1.json", "//", "/%ff", "/x/a;b=c"} {
		f.Add("/x/{id}", path, false)
		f.Add("/x/{a}-{b}.json", path, false)
		f.Add("/x/:id(\\d+)", path, true)
		f.Add("/x/*", path, true)
	}
	f.Fuzz(func(t *testing.T, template, path string, pattern bool) {
		mode := routefile.OpenAPI
		if pattern {
			mode = routefile.URLPattern
		}
		if len(template) > 200 || len(path) > 2000 {
			return
		}
		matcher, err := (&routefile.Operation{Path: template, Mode: mode}).Matcher()
		if err != nil {
			return
		}
		params, ok := matcher(path)
		if !ok {
			return
		}
		decoded, err := url.PathUnescape(path)
		if err != nil {
			t.Fatalf("%q matches %q, which is no path", template, path)
		}
		for name, value := range params {
			if !strings.Contains(decoded, value) {
				t.Errorf("%q of %q is %q, which is not in %q", name, template, value, path)
			}
			if mode == routefile.OpenAPI && value == "" || value == "." || value == ".." {
				t.Errorf("%q of %q is %q in %q", name, template, value, path)
			}
		}
		for segment := range strings.SplitSeq(path, "/") {
			if text, err := url.PathUnescape(segment); err == nil && (text == "." || text == "..") {
				t.Errorf("%q matches %q", template, path)
			}
		}
	})
}
