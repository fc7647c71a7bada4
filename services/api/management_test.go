package api_test

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
)

const (
	bucketsPath = "/v1/accounts/default/key-buckets"
	timeForm    = `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`
	keyForm     = `^wbk_[0-9A-Za-z]{32}_[0-9a-f]{8}$`
)

// as calls with that key instead of the bootstrap key.
func as(key string) tweak { return header("Authorization", "Bearer "+key) }

// in returns the rig for a subtest, whose failures are its own.
func (r *rig) in(t *testing.T) *rig {
	t.Helper()
	within := *r
	within.t = t
	return &within
}

func (r *rig) createBucket(body string) answer {
	r.t.Helper()
	return r.insist(http.MethodPost, bucketsPath, body)
}

// bucket makes a bucket of the default account and returns its path.
func (r *rig) bucket(name string, more ...string) string {
	r.t.Helper()
	r.insist(http.MethodPost, bucketsPath, fmt.Sprintf(`{"name":%q%s}`, name, strings.Join(more, ""))).want(http.StatusCreated)
	return bucketsPath + "/" + name
}

// holder makes a consumer with those scopes and a key in a bucket of the default account.
func (r *rig) holder(bucket, name string, scopes ...domain.Scope) (path, key string) {
	r.t.Helper()
	words := make([]string, len(scopes))
	for i, scope := range scopes {
		words[i] = fmt.Sprintf("%q", scope)
	}
	a := r.insist(http.MethodPost, bucket+"/consumers?with-api-key=true",
		fmt.Sprintf(`{"name":%q,"scopes":[%s]}`, name, strings.Join(words, ","))).want(http.StatusCreated)
	return bucket + "/consumers/" + name, a.items("apiKeys")[0]["key"].(string)
}

// secondAccount makes an account and returns the admin key that it comes with.
func (r *rig) secondAccount(name string) string {
	r.t.Helper()
	return r.insist(http.MethodPost, "/v1/accounts", fmt.Sprintf(`{"name":%q}`, name)).want(http.StatusCreated).text("key")
}

// items returns an array of objects of the answer.
func (a answer) items(name string) []map[string]any {
	a.t.Helper()
	list, ok := a.object()[name].([]any)
	if !ok {
		a.t.Fatalf("%s: %s is no array in %s", a.call, name, a.body)
	}
	items := make([]map[string]any, len(list))
	for i, item := range list {
		if items[i], ok = item.(map[string]any); !ok {
			a.t.Fatalf("%s: %s has more than objects in %s", a.call, name, a.body)
		}
	}
	return items
}

// names returns the names of the items of a list.
func (a answer) names() []string {
	a.t.Helper()
	names := []string{}
	for _, item := range a.items("data") {
		names = append(names, item["name"].(string))
	}
	return names
}

// fields fails the test unless the answer has these fields and no others.
func (a answer) fields(want ...string) answer {
	a.t.Helper()
	if diff := cmp.Diff(sorted(want), slices.Sorted(maps.Keys(a.object()))); diff != "" {
		a.t.Errorf("%s: fields (-want +got):\n%s", a.call, diff)
	}
	return a
}

// field fails the test unless a field of the answer has that value.
func (a answer) field(name string, want any) answer {
	a.t.Helper()
	if diff := cmp.Diff(want, a.object()[name]); diff != "" {
		a.t.Errorf("%s: %s (-want +got):\n%s", a.call, name, diff)
	}
	return a
}

// matches fails the test unless a text field of the answer has that form.
func (a answer) matches(name, form string) answer {
	a.t.Helper()
	if text := a.text(name); !regexp.MustCompile(form).MatchString(text) {
		a.t.Errorf("%s: %s is %q, which does not match %s", a.call, name, text, form)
	}
	return a
}

// faults fails the test unless the answer is a 400 that names these places.
func (a answer) faults(want ...string) answer {
	a.t.Helper()
	a.want(http.StatusBadRequest).field("code", "INVALID_INPUT")
	places := []string{}
	for _, fault := range a.items("errors") {
		place, ok := fault["pointer"].(string)
		if !ok {
			place = "?" + fault["parameter"].(string)
		}
		places = append(places, place)
	}
	if diff := cmp.Diff(sorted(want), sorted(places)); diff != "" {
		a.t.Errorf("%s: places (-want +got):\n%s\n%s", a.call, diff, a.body)
	}
	return a
}

// Of many who make the same name at once, one succeeds and the others are told so.
func TestSameBucketAtOnce(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		const callers = 50
		statuses := make([]int, callers)
		var wait sync.WaitGroup
		for i := range callers {
			wait.Go(func() {
				statuses[i] = r.insist(http.MethodPost, bucketsPath, `{"name":"wanted-by-all"}`).status
			})
		}
		wait.Wait()
		count := map[int]int{}
		for _, status := range statuses {
			count[status]++
		}
		if diff := cmp.Diff(map[int]int{http.StatusCreated: 1, http.StatusConflict: callers - 1}, count); diff != "" {
			t.Errorf("statuses (-want +got):\n%s", diff)
		}
		r.do(http.MethodGet, bucketsPath, "").want(http.StatusOK).field("total", 1.0)
	})
}

// Every list pages in the same way.
func TestPaging(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	bucket := r.bucket("paged-bucket")
	consumer := bucket + "/consumers/paged"
	r.do(http.MethodPost, bucket+"/consumers", `{"name":"paged","managers":["a@b.example","c@d.example","e@f.example"],"apiKeys":[{},{},{}]}`).want(http.StatusCreated)
	for i := range 2 {
		r.bucket(fmt.Sprintf("more-%d", i))
		r.do(http.MethodPost, bucket+"/consumers", fmt.Sprintf(`{"name":"more-%d"}`, i)).want(http.StatusCreated)
		r.secondAccount(fmt.Sprintf("more-%d", i))
	}
	second := r.secondAccount("projects")
	for i := range 3 {
		r.do(http.MethodPost, "/v1/projects", fmt.Sprintf(`{"name":"p%d"}`, i), as(second)).want(http.StatusCreated)
	}
	for _, list := range []struct {
		path  string
		total float64
		tweak tweak
	}{
		{bucketsPath, 3, nil},
		{bucket + "/consumers", 3, nil},
		{consumer + "/keys", 3, nil},
		{consumer + "/managers", 3, nil},
		{"/v1/accounts", 4, nil},
		{"/v1/accounts/projects/projects", 3, as(second)},
	} {
		get := func(query string) answer {
			return r.do(http.MethodGet, list.path+query, "", as(adminKey), func(q *http.Request) {
				if list.tweak != nil {
					list.tweak(q)
				}
			})
		}
		all := get("").want(http.StatusOK).fields("data", "limit", "offset", "total").
			field("limit", 1000.0).field("offset", 0.0).field("total", list.total).items("data")
		if len(all) != int(list.total) {
			t.Errorf("%s: %d items", list.path, len(all))
		}
		for i := range all {
			one := get(fmt.Sprintf("?limit=1&offset=%d", i)).want(http.StatusOK).
				field("limit", 1.0).field("offset", float64(i)).field("total", list.total).items("data")
			if diff := cmp.Diff(all[i:i+1], one); diff != "" {
				t.Errorf("%s, page %d (-want +got):\n%s", list.path, i, diff)
			}
		}
		get("?limit=1000").want(http.StatusOK).field("limit", 1000.0)
		for _, offset := range []string{"4", "1000000", "4294967295"} {
			if got := get("?offset="+offset).want(http.StatusOK).field("total", list.total).items("data"); len(got) != 0 {
				t.Errorf("%s past the end: %v", list.path, got)
			}
		}
		for _, limit := range []string{"0", "1001", "-1", "4294967296", "9223372036854775808", "1.0", "1e3", "x", "", "+5", "0x10", "%201"} {
			get("?limit=" + limit).faults("?limit")
		}
		for _, offset := range []string{"-1", "4294967296", "9223372036854775808", "1.0", "x", "", "+5"} {
			get("?offset=" + offset).faults("?offset")
		}
		get("?limit=0&offset=-1&page=2&limit=1").faults("?limit", "?offset", "?page")
	}
}

// Names are what the patterns say, and nothing else.
func TestNames(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	bucket := r.bucket("names-bucket")
	for _, resource := range []struct {
		path     string
		min, max int
	}{
		{bucketsPath, 5, 128},
		{bucket + "/consumers", 1, 128},
		{"/v1/accounts", 1, 64},
		{"/v1/projects", 1, 100},
	} {
		create := func(name string) answer {
			return r.do(http.MethodPost, resource.path, `{"name":`+name+`}`)
		}
		for _, n := range []int{resource.min, resource.max} {
			create(`"`+strings.Repeat("n", n)+`"`).want(http.StatusCreated).field("name", strings.Repeat("n", n))
			create(`"`+strings.Repeat("n", n)+`"`).want(http.StatusConflict).field("code", "CONFLICT")
		}
		create(`"----------"`).want(http.StatusCreated)
		create(`"0123456789-abc"`).want(http.StatusCreated)
		for _, n := range []int{resource.min - 1, resource.max + 1, 100_000} {
			create(`"` + strings.Repeat("n", n) + `"`).faults("/name")
		}
		for _, c := range []string{
			"A", "Z", "_", ".", "/", " ", "%2F", "é", "ß", "\u0430", "١", "🙂", "\\u0000", "\\n", "\\t", "\\\\", "\\\"", "'", ";", "*",
			"$", "@", "[", "`", "{", "\\u007f", "\u2010", "\u00ad",
		} {
			create(`"name-` + c + `-name"`).faults("/name")
			create(`"` + c + `name-name"`).faults("/name")
			create(`"name-name` + c + `"`).faults("/name")
		}
		for _, value := range []string{"null", "5", "12345", "true", "[]", "{}", `["names"]`} {
			create(value).faults("/name")
		}
		r.do(http.MethodPost, resource.path, `{}`).faults("/name")
	}
}

// Bodies are read strictly, all faults at once, and no value comes back.
func TestManagementBodies(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	bucket := r.bucket("bodies-bucket")
	consumer := bucket + "/consumers/bodies"
	r.do(http.MethodPost, bucket+"/consumers", `{"name":"bodies"}`).want(http.StatusCreated)
	key := consumer + "/keys/" + r.do(http.MethodPost, consumer+"/keys", "").want(http.StatusCreated).text("id")
	const post, patch = http.MethodPost, http.MethodPatch
	pairs := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"t%d":"v"`, i)
		}
		return "{" + strings.TrimPrefix(b.String(), ",") + "}"
	}
	long, deep := strings.Repeat("é", 1025), strings.Repeat(`{"a":`, 80)+"1"+strings.Repeat("}", 80)
	for _, tc := range []struct {
		method, path, body string
		want               []string
	}{
		{post, bucketsPath, `{"name":"CANARY","description":7,"tags":[],"isRetrievable":"yes","id":"x","CANARY":1}`,
			[]string{"/CANARY", "/description", "/id", "/isRetrievable", "/name", "/tags"}},
		{post, bucketsPath, `{"name":"good-name","name":"good-name"}`, []string{"/name"}},
		{post, bucketsPath, `{"name":"good-name","tags":{"a":"1","a":"2"}}`, []string{"/tags/a"}},
		{post, bucketsPath, `{"name":"good-name","tags":{"a":1,"b":null,"c":{},"d/e~f":[],"g":true}}`, []string{"/tags/a", "/tags/b", "/tags/c", "/tags/d~1e~0f", "/tags/g"}},
		{post, bucketsPath, `{"name":"good-name","tags":` + pairs(51) + `}`, []string{"/tags"}},
		{post, bucketsPath, `{"name":"good-name","description":"` + long + `"}`, []string{"/description"}},
		{post, bucketsPath, `{"name":"good-name","description":null,"tags":null,"isRetrievable":null}`, []string{"/description", "/isRetrievable", "/tags"}},
		{post, bucketsPath, `{"name":"good-name","token":"x"}`, []string{"/token"}},
		{post, bucketsPath, `{"name":"good-name","createdOn":"2026-01-01T00:00:00Z"}`, []string{"/createdOn"}},
		{post, bucketsPath, ``, []string{""}},
		{post, bucketsPath, `null`, []string{""}},
		{post, bucketsPath, `[]`, []string{""}},
		{post, bucketsPath, `"text"`, []string{""}},
		{post, bucketsPath, `{"name":"good-name"`, []string{""}},
		{post, bucketsPath, `{"name":"good-name"} {}`, []string{""}},
		{post, bucketsPath, "{\"name\":\"good-\xffname\"}", []string{""}},
		{post, bucketsPath, `{"name":"good-name","tags":{"a":"\ud800"}}`, []string{""}},
		{post, bucketsPath, `{"name":"good-name","tags":{"\u0000":"a","b":"\u0000"}}`, []string{"/tags/\x00", "/tags/b"}},
		{post, bucketsPath + "?more=1&tag.a=b", `{"name":"x"}`, []string{"/name", "?more", "?tag.a"}},
		{patch, bucket, `{"name":"bodies-bucket"}`, []string{"/name"}},
		{patch, bucket, `{"isRetrievable":true}`, []string{"/isRetrievable"}},
		{patch, bucket, `{"description":null,"tags":null}`, []string{"/description", "/tags"}},
		{patch, bucket, `{"id":"x","createdOn":"x","updatedOn":"x","CANARY":null}`, []string{"/CANARY", "/createdOn", "/id", "/updatedOn"}},
		{patch, bucket, ``, []string{""}},
		{patch, bucket, `{"tags":` + pairs(51) + `}`, []string{"/tags"}},

		{post, bucket + "/consumers", `{"name":"CANARY","scopes":["CANARY","any","admin","admin"],"metadata":[],"tags":"x","managers":{},"apiKeys":1,"x":1}`,
			[]string{"/apiKeys", "/managers", "/metadata", "/name", "/scopes/0", "/scopes/1", "/scopes/3", "/tags", "/x"}},
		{post, bucket + "/consumers", `{"name":"c","managers":["CANARY",7,{"email":"CANARY","sub":""},{"email":"a@b.example","x":1},{"sub":"s"}]}`,
			[]string{"/managers/0", "/managers/1", "/managers/2/email", "/managers/2/sub", "/managers/3/sub", "/managers/3/x", "/managers/4/email"}},
		{post, bucket + "/consumers", `{"name":"c","apiKeys":[{"key":"CANARY"},{"expiresOn":"CANARY"},"x",{"id":"x"},{"expiresOn":null}]}`,
			[]string{"/apiKeys/0/key", "/apiKeys/1/expiresOn", "/apiKeys/2", "/apiKeys/3/id", "/apiKeys/4/expiresOn"}},
		{post, bucket + "/consumers", `{"name":"c","managers":["a@b.example",{"email":"a@b.example","sub":"s"},"a@b.example",{"email":"a@b.example","sub":"s"}]}`,
			[]string{"/managers/2", "/managers/3"}},
		{post, bucket + "/consumers", `{"name":"c","metadata":{"a":{"b":1,"b":2}}}`, []string{"/metadata/a/b"}},
		{post, bucket + "/consumers", `{"name":"c","metadata":` + deep + `}`, []string{"/metadata" + strings.Repeat("/a", 63)}},
		{post, bucket + "/consumers", `{"name":"c","scopes":null,"metadata":null,"managers":null,"apiKeys":null}`, []string{"/apiKeys", "/managers", "/metadata", "/scopes"}},
		{post, bucket + "/consumers?with-api-key=1", `{"name":"c"}`, []string{"?with-api-key"}},
		{patch, consumer, `{"name":"bodies"}`, []string{"/name"}},
		{patch, consumer, `{"scopes":null,"tags":null,"metadata":null,"description":null}`, []string{"/description", "/metadata", "/scopes", "/tags"}},
		{patch, consumer, `{"apiKeys":[],"managers":[]}`, []string{"/apiKeys", "/managers"}},

		{post, consumer + "/keys", `{"description":1,"expiresOn":1,"key":1,"x":1}`, []string{"/description", "/expiresOn", "/key", "/x"}},
		{post, consumer + "/keys", `{"key":"wbk_CANARY"}`, []string{"/key"}},
		{post, consumer + "/keys", `{"key":"wbk_abcdefghijklmnopqrstuvwxyz012345_00000000"}`, []string{"/key"}},
		{post, consumer + "/keys", `{"key":"zpka_abcdefghijklmnopqrstuvwxyz"}`, []string{"/key"}},
		{post, consumer + "/keys", `{"key":"zpka_abcdefghijklmnopqrstuvwxyz 012345"}`, []string{"/key"}},
		{post, consumer + "/keys", `{"expiresOn":"2026-13-01T00:00:00Z"}`, []string{"/expiresOn"}},
		{post, consumer + "/keys", `[]`, []string{""}},
		{post, consumer + "/keys/$bulk", `{}`, []string{""}},
		{post, consumer + "/keys/$bulk", `[]`, []string{""}},
		{post, consumer + "/keys/$bulk", ``, []string{""}},
		{post, consumer + "/keys/$bulk", `[{},7,{"key":"CANARY","x":1},{"expiresOn":null}]`, []string{"/1", "/2/key", "/2/x", "/3/expiresOn"}},
		{post, consumer + "/keys/$bulk", `[{"a":1,"a":1}]`, []string{"/0/a"}},
		{post, consumer + "/keys/$bulk", "[" + strings.TrimSuffix(strings.Repeat("{},", 1001), ",") + "]", []string{""}},
		{patch, key, `{"expiresOn":null,"description":null,"key":null}`, []string{"/description", "/expiresOn", "/key"}},
		{patch, key, `{"id":"x","createdOn":"x"}`, []string{"/createdOn", "/id"}},
		{patch, key, ``, []string{""}},
		{post, consumer + "/roll-key", `{"expiresOn":null}`, []string{"/expiresOn"}},
		{post, consumer + "/roll-key", `{"expiresOn":"soon","x":1}`, []string{"/expiresOn", "/x"}},
		{post, consumer + "/managers", `{}`, []string{"/email", "/sub"}},
		{post, consumer + "/managers", `{"email":"Somebody <a@b.example>","sub":"s"}`, []string{"/email"}},
		{post, consumer + "/managers", `{"email":"a@b.example","sub":null,"id":"x"}`, []string{"/id", "/sub"}},
		{post, "/v1/accounts", `{"name":"account","x":1}`, []string{"/x"}},
		{post, "/v1/projects", `{"name":"project","accountName":"default"}`, []string{"/accountName"}},
	} {
		a := r.do(tc.method, tc.path, tc.body).faults(tc.want...)
		if strings.Contains(strings.ReplaceAll(string(a.body), `/CANARY"`, ""), "CANARY") {
			t.Errorf("%s: the value is echoed: %s", a.call, a.body)
		}
	}
	for _, path := range []string{bucketsPath, bucket + "/consumers", consumer + "/keys", consumer + "/keys/$bulk", consumer + "/roll-key", consumer + "/managers", "/v1/accounts", "/v1/projects"} {
		r.do(post, path, `{}`, header("Content-Type", "text/plain")).want(http.StatusUnsupportedMediaType)
		r.do(post, path, `{"description":"`+strings.Repeat("x", 1<<20)+`"}`).want(http.StatusRequestEntityTooLarge)
		r.do(post, path, strings.Repeat("[", 100)+strings.Repeat("]", 100)).want(http.StatusBadRequest)
		r.do(http.MethodPut, path, `{}`).want(http.StatusMethodNotAllowed)
	}
	r.do(http.MethodGet, bucketsPath, "").want(http.StatusOK).field("total", 1.0)
	r.do(http.MethodGet, bucket+"/consumers", "").want(http.StatusOK).field("total", 1.0)
	r.do(http.MethodGet, consumer+"/keys", "").want(http.StatusOK).field("total", 1.0)
	r.do(http.MethodGet, consumer+"/managers", "").want(http.StatusOK).field("total", 0.0)
	r.do(post, bucketsPath, `{"name":"fifty-tags","description":"`+strings.Repeat("é", 1024)+`","tags":`+pairs(50)+`}`, without("Content-Type")).want(http.StatusCreated)
}

// now is a time as answers have it.
func apiTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }
