package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The table of a bucket's fields, a row a test.
func TestBucketFields(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		path := r.bucket("fields-bucket")
		t.Run("id", func(t *testing.T) {
			r := r.in(t)
			r.do(http.MethodGet, path, "").matches("id", `^bckt_[0-9A-Za-z]{32}$`)
			r.createBucket(`{"name":"own-id-bucket","id":"bckt_x"}`).faults("/id")
			r.do(http.MethodPatch, path, `{"id":"bckt_x"}`).faults("/id")
		})
		t.Run("name", func(t *testing.T) {
			r := r.in(t)
			r.do(http.MethodGet, path, "").field("name", "fields-bucket")
			r.createBucket(`{}`).faults("/name")
			r.createBucket(`{"name":"four"}`).faults("/name")
			r.createBucket(`{"name":"` + strings.Repeat("n", 129) + `"}`).faults("/name")
			r.createBucket(`{"name":"fives"}`).want(http.StatusCreated)
			r.createBucket(`{"name":"` + strings.Repeat("n", 128) + `"}`).want(http.StatusCreated)
			r.createBucket(`{"name":"fives"}`).want(http.StatusConflict)
		})
		t.Run("createdOn", func(t *testing.T) {
			r := r.in(t)
			before := apiTime(time.Now().Add(-time.Millisecond))
			made := r.createBucket(`{"name":"created-bucket"}`).want(http.StatusCreated).matches("createdOn", timeForm)
			if at := made.text("createdOn"); at < before || at > apiTime(time.Now()) {
				t.Errorf("createdOn is %s", at)
			}
			r.do(http.MethodPatch, bucketsPath+"/created-bucket", `{"description":"x"}`).want(http.StatusOK).field("createdOn", made.text("createdOn"))
			r.createBucket(`{"name":"created-before","createdOn":"2026-01-01T00:00:00Z"}`).faults("/createdOn")
		})
		t.Run("updatedOn", func(t *testing.T) {
			r := r.in(t)
			made := r.createBucket(`{"name":"updated-bucket"}`).matches("updatedOn", timeForm)
			made.field("updatedOn", made.text("createdOn"))
			eventually(t, "a change moves updatedOn", func() bool {
				return r.do(http.MethodPatch, bucketsPath+"/updated-bucket", `{"description":"x"}`).text("updatedOn") > made.text("updatedOn")
			})
			r.do(http.MethodPatch, bucketsPath+"/updated-bucket", `{"updatedOn":"2026-01-01T00:00:00Z"}`).faults("/updatedOn")
		})
		t.Run("isRetrievable", func(t *testing.T) {
			r := r.in(t)
			r.do(http.MethodGet, path, "").field("isRetrievable", true)
			for _, value := range []bool{true, false} {
				name := fmt.Sprintf("retrievable-%t", value)
				r.createBucket(fmt.Sprintf(`{"name":%q,"isRetrievable":%t}`, name, value)).want(http.StatusCreated).field("isRetrievable", value)
				r.do(http.MethodPatch, bucketsPath+"/"+name, `{"isRetrievable":true}`).faults("/isRetrievable")
				r.do(http.MethodPatch, bucketsPath+"/"+name, `{"description":"x"}`).want(http.StatusOK).field("isRetrievable", value)
				r.do(http.MethodGet, bucketsPath+"/"+name, "").field("isRetrievable", value)
			}
			r.createBucket(`{"name":"retrievable-x","isRetrievable":"true"}`).faults("/isRetrievable")
		})
		t.Run("description", func(t *testing.T) {
			r := r.in(t)
			r.do(http.MethodGet, path, "").field("description", "")
			text := strings.Repeat("ü", 1022) + "\n\u2028"
			r.createBucket(`{"name":"described","description":"`+strings.ReplaceAll(text, "\n", `\n`)+`"}`).want(http.StatusCreated).field("description", text)
			r.do(http.MethodGet, bucketsPath+"/described", "").field("description", text)
			r.createBucket(`{"name":"described-2","description":"` + strings.Repeat("x", 1025) + `"}`).faults("/description")
			r.do(http.MethodPatch, bucketsPath+"/described", `{"description":""}`).want(http.StatusOK).field("description", "")
		})
		t.Run("tags", func(t *testing.T) {
			r := r.in(t)
			r.do(http.MethodGet, path, "").field("tags", map[string]any{})
			want := map[string]any{
				"": "empty name", "empty value": "", "a/b~c": "d", `"\`: `"\`, "línea\n": "\t", "🙂": "🙂", "%25": "%_", "__proto__": "x", "a,b": "[]", " ": " ",
				"tag.x": "=&", strings.Repeat("k", 5000): strings.Repeat("v", 5000),
			}
			body := fmt.Sprintf(`{"name":"tagged-bucket","tags":{"":"empty name","empty value":"","a/b~c":"d","\"\\":"\"\\","línea\n":"\t","🙂":"🙂","%%25":"%%_","__proto__":"x","a,b":"[]"," ":" ","tag.x":"=&","%s":"%s"}}`,
				strings.Repeat("k", 5000), strings.Repeat("v", 5000))
			r.createBucket(body).want(http.StatusCreated).field("tags", want)
			r.do(http.MethodGet, bucketsPath+"/tagged-bucket", "").field("tags", want)
		})
	})
}

// The table of the bucket operations, a row a test.
func TestBucketOperations(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		all := []string{"id", "name", "createdOn", "updatedOn", "isRetrievable", "description", "tags"}
		t.Run("List buckets", func(t *testing.T) {
			r := r.in(t)
			none := r.do(http.MethodGet, bucketsPath, "").want(http.StatusOK).fields("data", "limit", "offset", "total")
			none.field("data", []any{}).field("limit", 1000.0).field("offset", 0.0).field("total", 0.0)
			names := []string{"zebra", "apple", "mango"}
			for i, name := range names {
				r.bucket(name, fmt.Sprintf(`,"tags":{"n":"%d","all":"yes"}`, i))
			}
			list := r.do(http.MethodGet, bucketsPath, "").want(http.StatusOK).field("total", 3.0)
			if diff := cmp.Diff(names, list.names()); diff != "" {
				t.Errorf("the oldest first (-want +got):\n%s", diff)
			}
			for query, want := range map[string][]string{
				"?tag.all=yes": names, "?tag.n=1": {"apple"}, "?tag.n=1&tag.all=yes": {"apple"}, "?tag.n=1&tag.all=no": {},
				"?tag.n=": {}, "?tag.all=yes&limit=1&offset=2": {"mango"}, "?tag.none=x": {}, "?tag.n=_": {}, "?tag.n=%25": {},
			} {
				if diff := cmp.Diff(want, r.do(http.MethodGet, bucketsPath+query, "").want(http.StatusOK).names()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", query, diff)
				}
			}
			r.do(http.MethodGet, bucketsPath+"?tag=all&tag.n=1&tag.n=2", "").faults("?tag", "?tag.n")
		})
		t.Run("Create bucket", func(t *testing.T) {
			r := r.in(t)
			made := r.do(http.MethodPost, bucketsPath, `{"name":"made-bucket","description":"d","tags":{"a":"b"}}`).want(http.StatusCreated).fields(all...)
			made.field("name", "made-bucket").field("description", "d").field("tags", map[string]any{"a": "b"}).field("isRetrievable", true)
			if got, want := made.header.Get("Location"), bucketsPath+"/made-bucket"; got != want {
				t.Errorf("Location is %q, want %q", got, want)
			}
			if got := made.header.Get("Content-Type"); !strings.HasPrefix(got, "application/json") {
				t.Errorf("Content-Type is %q", got)
			}
			if diff := cmp.Diff(made.object(), r.do(http.MethodGet, made.header.Get("Location"), "").want(http.StatusOK).object()); diff != "" {
				t.Errorf("what was made is not what is there (-made +got):\n%s", diff)
			}
			r.do(http.MethodPost, bucketsPath, `{"name":"made-bucket"}`).want(http.StatusConflict).field("code", "CONFLICT")
		})
		t.Run("Get bucket", func(t *testing.T) {
			r := r.in(t)
			r.bucket("got-bucket", `,"tags":{"a":"b","c":"d"}`)
			path := bucketsPath + "/got-bucket"
			r.do(http.MethodGet, path, "").want(http.StatusOK).fields(all...)
			r.do(http.MethodGet, path+"?tag.a=b&tag.c=d", "").want(http.StatusOK)
			for _, query := range []string{"?tag.a=c", "?tag.a=", "?tag.A=b", "?tag.x=b", "?tag.a=b&tag.c=x", "?tag.=b"} {
				r.do(http.MethodGet, path+query, "").want(http.StatusNotFound).field("code", "NOT_FOUND")
			}
			r.do(http.MethodGet, path+"?limit=1", "").faults("?limit")
			for _, name := range []string{"none-such", "GOT-BUCKET", "got-bucket%20", "got-bucket%00", "%ff", "%F0%9F%99%82", strings.Repeat("x", 5000)} {
				r.do(http.MethodGet, bucketsPath+"/"+name, "").want(http.StatusNotFound)
			}
		})
		t.Run("Delete bucket", func(t *testing.T) {
			r := r.in(t)
			path := r.bucket("gone-bucket", `,"tags":{"a":"b"}`)
			consumer, key := r.holder(path, "holder", "webhooks:read")
			r.do(http.MethodGet, "/v1/webhooks", "", as(key)).want(http.StatusOK)
			r.do(http.MethodDelete, path+"?tag.a=c", "").want(http.StatusNotFound)
			r.do(http.MethodDelete, path+"?force=true", "").faults("?force")
			gone := r.do(http.MethodDelete, path+"?tag.a=b", "").want(http.StatusNoContent)
			if len(gone.body) != 0 {
				t.Errorf("a body: %s", gone.body)
			}
			r.do(http.MethodGet, "/v1/webhooks", "", as(key)).want(http.StatusUnauthorized)
			for _, p := range []string{path, path + "/consumers", consumer, consumer + "/keys", consumer + "/managers"} {
				r.do(http.MethodGet, p, "").want(http.StatusNotFound)
			}
			r.do(http.MethodDelete, path, "").want(http.StatusNotFound)
			r.bucket("gone-bucket")
			r.do(http.MethodGet, consumer, "").want(http.StatusNotFound)
		})
		t.Run("Update bucket", func(t *testing.T) {
			r := r.in(t)
			path := r.bucket("new-bucket", `,"description":"old","tags":{"a":"1","b":"2"}`)
			patch := func(body string) answer {
				return r.do(http.MethodPatch, path, body).want(http.StatusOK).fields(all...)
			}
			tags := func(pairs ...string) map[string]any {
				m := map[string]any{}
				for i := 0; i < len(pairs); i += 2 {
					m[pairs[i]] = pairs[i+1]
				}
				return m
			}
			patch(`{}`).field("description", "old").field("tags", tags("a", "1", "b", "2"))
			patch(`{"description":"new"}`).field("description", "new").field("tags", tags("a", "1", "b", "2"))
			patch(`{"tags":{"c":"3"}}`).field("description", "new").field("tags", tags("c", "3"))
			patch(`{"tags":{}}`).field("tags", tags())
			patch(`{"tags":{"z":"9"},"description":""}`).field("tags", tags("z", "9")).field("description", "")
			r.do(http.MethodPatch, path, `{"name":"new-bucket"}`).faults("/name")
			r.do(http.MethodPatch, path, `{"tags":null,"description":"lost"}`).faults("/tags")
			r.do(http.MethodPatch, path+"?tag.z=8", `{"description":"lost"}`).want(http.StatusNotFound)
			r.do(http.MethodGet, path, "").field("tags", tags("z", "9")).field("description", "")
			r.do(http.MethodPatch, path+"?tag.z=9", `{"description":"kept"}`).want(http.StatusOK).field("description", "kept")
			r.do(http.MethodPatch, bucketsPath+"/none-such", `{"description":"x"}`).want(http.StatusNotFound)
		})
	})
}
