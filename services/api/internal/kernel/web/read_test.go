package web_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

// things are routes that read all that a request can say, and do nothing.
func things(called *int) []web.Route {
	answer := func(c *web.Call) error {
		if err := c.Check(); err != nil {
			return err
		}
		*called++
		return c.NoContent()
	}
	return []web.Route{
		{
			Method: http.MethodPost, Path: web.AccountPath + "/things", Operation: "makeThing", Scope: domain.ScopeAny,
			Handle: func(c *web.Call) error {
				c.Account()
				c.Query().Integer("n", 1, 9, 1)
				f := c.Form()
				f.Require("name")
				f.Text("name", 1, 9)
				return answer(c)
			},
		},
		{
			Method: http.MethodPatch, Path: "/v1/entries/{id}", Operation: "updateEntry", Scope: domain.ScopeAny,
			Handle: func(c *web.Call) error {
				web.ID(c, domain.ParseWebhookID)
				c.IdempotencyKey()
				c.OptionalForm().Text("name", 1, 9)
				return answer(c)
			},
		},
		{
			Method: http.MethodPost, Path: web.AccountPath + "/things/$bulk", Operation: "makeThings", Scope: domain.ScopeAny,
			Handle: func(c *web.Call) error {
				c.Account()
				for _, f := range c.Forms(1, 2) {
					f.Text("name", 1, 9)
				}
				return answer(c)
			},
		},
	}
}

// What is not there comes before all faults, and keeps the body from being read; what makes
// the body unreadable comes before the faults of the query; these come before those of the
// body, all of them at once.
func TestWhatIsToldFirst(t *testing.T) {
	t.Parallel()
	const own, other = "/v1/accounts/default/things", "/v1/accounts/acme/things"
	const entry = "/v1/entries/0190c0f0-0000-7000-8000-000000000000"
	for name, row := range map[string]struct {
		method, path, body string
		header             map[string]string
		status             int
		places             []string
		detail             string // empty: any
		unread             bool
	}{
		"all is well":             {method: "POST", path: own + "?n=2", body: `{"name":"a"}`, status: 204},
		"both have faults":        {method: "POST", path: own + "?n=0&x=1", body: `{"y":1}`, status: 400, places: []string{"?n", "?x", "/name", "/y"}},
		"the query has":           {method: "POST", path: own + "?n=0", body: `{"name":"a"}`, status: 400, places: []string{"?n"}},
		"the body has":            {method: "POST", path: own, body: `{"name":""}`, status: 400, places: []string{"/name"}},
		"no JSON":                 {method: "POST", path: own + "?x=1", body: `{"name"`, status: 400, places: []string{"?x", ""}},
		"no object":               {method: "POST", path: own, body: `[1]`, status: 400, places: []string{""}},
		"no body":                 {method: "POST", path: own, body: ``, status: 400, places: []string{""}},
		"another type of body":    {method: "POST", path: own + "?x=1", body: `{}`, header: map[string]string{"Content-Type": "text/plain"}, status: 415, unread: true},
		"too large":               {method: "POST", path: own + "?x=1", body: strings.Repeat(" ", web.MaxBody+1), status: 413},
		"another account":         {method: "POST", path: other + "?x=1", body: `{"y":`, status: 404, detail: "There is no such account.", unread: true},
		"another account, type":   {method: "POST", path: other, body: `{}`, header: map[string]string{"Content-Type": "text/plain"}, status: 404, unread: true},
		"no id":                   {method: "PATCH", path: "/v1/entries/x", body: `{"y":1}`, status: 404, detail: "There is no such entry.", unread: true},
		"no id, nor a good key":   {method: "PATCH", path: "/v1/entries/x", body: `{}`, header: map[string]string{"Idempotency-Key": "a b"}, status: 404, unread: true},
		"no good key":             {method: "PATCH", path: entry, body: `{"y":1}`, header: map[string]string{"Idempotency-Key": "a b"}, status: 400, places: []string{"Idempotency-Key:"}, unread: true},
		"nobody asks the query":   {method: "PATCH", path: entry + "?x=1", body: `{"name":"a"}`, status: 400, places: []string{"?x"}},
		"the body is left out":    {method: "PATCH", path: entry, body: ` `, status: 204},
		"a list":                  {method: "POST", path: own + "/$bulk", body: `[{"name":"a"},{}]`, status: 204},
		"a list and faults":       {method: "POST", path: own + "/$bulk?x=1", body: `[{"name":1},{"y":1}]`, status: 400, places: []string{"?x", "/0/name", "/1/y"}},
		"a list that is too long": {method: "POST", path: own + "/$bulk?x=1", body: `[{},{},{}]`, status: 400, places: []string{"?x", ""}},
		"another account's list":  {method: "POST", path: other + "/$bulk", body: `[`, status: 404, unread: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			called := 0
			handler := newHandler(&rig{who: caller{}, routes: things(&called)})
			content := &countedReader{reader: strings.NewReader(row.body)}
			request := httptest.NewRequest(row.method, row.path, content)
			request.ContentLength = int64(len(row.body))
			request.Header.Set("X-Api-Key", "some-key")
			for name, value := range row.header {
				request.Header.Set(name, value)
			}
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, request)
			if recorder.Code != row.status {
				t.Errorf("status %d, want %d: %s", recorder.Code, row.status, recorder.Body)
			}
			if wanted := row.status == http.StatusNoContent; (called == 1) != wanted {
				t.Errorf("it was done %d times", called)
			}
			if row.unread && content.read > 0 {
				t.Errorf("%d bytes of the body were read", content.read)
			}
			detail, places := told(t, recorder)
			if diff := cmp.Diff(row.places, places); diff != "" {
				t.Errorf("places (-want +got):\n%s", diff)
			}
			if row.detail != "" && detail != row.detail {
				t.Errorf("it says %q, want %q", detail, row.detail)
			}
		})
	}
}

// told returns what an answer says, and the places that it names, in its order.
func told(t *testing.T, recorder *httptest.ResponseRecorder) (detail string, places []string) {
	t.Helper()
	if recorder.Body.Len() == 0 {
		return "", nil
	}
	var problem struct {
		Detail string
		Errors []struct {
			Pointer, Parameter, Header *string
		}
	}
	if err := json.Unmarshal(recorder.Body.Bytes(), &problem); err != nil {
		t.Fatalf("%v: %s", err, recorder.Body)
	}
	for _, fault := range problem.Errors {
		switch {
		case fault.Parameter != nil:
			places = append(places, "?"+*fault.Parameter)
		case fault.Header != nil:
			places = append(places, *fault.Header+":")
		default:
			places = append(places, *fault.Pointer)
		}
	}
	return problem.Detail, places
}
