package web_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

// bare is call for routes that no document describes.
func bare(handler http.Handler, method, path string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, path, http.NoBody)
	request.Header.Set("X-API-Key", "some-key")
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder
}

// A parameter may have slashes where its route says so. They are sent escaped, and every other
// spelling of the same path leads to the same operation.
func TestSlashes(t *testing.T) {
	t.Parallel()
	answer := func(c *web.Call) error {
		return c.Answer(http.StatusOK, c.Param("thing")+"|"+c.Param("name"))
	}
	route := func(method, path string, slashes bool) web.Route {
		return web.Route{Method: method, Path: path, Operation: method + path, Scope: domain.ScopeAny, Slashes: slashes, Handle: answer}
	}
	handler := newHandler(&rig{routes: []web.Route{
		route(http.MethodGet, "/v1/things/{thing}/parts", true),
		route(http.MethodPost, "/v1/things/{thing}/parts", true),
		route(http.MethodPatch, "/v1/things/{thing}/parts/{name}", true),
		route(http.MethodGet, "/v1/plain/{thing}", false),
	}})
	for _, tc := range []struct {
		method, path string
		status       int
		want, allow  string
	}{
		{"GET", "/v1/things/main/parts", 200, `"main|"`, ""},
		{"GET", "/v1/things/feature%2Fa/parts", 200, `"feature/a|"`, ""},
		{"GET", "/v1/th%69ngs/feature%2fa+b%20c%25/parts", 200, `"feature/a+b c%|"`, ""},
		{"HEAD", "/v1/things/feature%2Fa/parts", 200, "", ""},
		{"POST", "/v1/things/a%2Fb%2Fc/parts", 200, `"a/b/c|"`, ""},
		{"PATCH", "/v1/things/a%2Fb/parts/NAME", 200, `"a/b|NAME"`, ""},
		{"PATCH", "/v1/things/a%2Fb/parts/N%2FM", 200, `"a/b|N/M"`, ""},
		{"GET", "/v1/things/%7Epreview/parts", 200, `"~preview|"`, ""},
		{"GET", "/v1/things/a%2Fparts", 404, "", ""},
		{"GET", "/v1/things//parts%2F", 404, "", ""},
		{"GET", "/v1/things/a/b/parts", 404, "", ""},
		{"GET", "/v1%2Fthings/a/parts", 404, "", ""},
		{"GET", "/v1/plain/a%2Fb", 404, "", ""},
		{"PUT", "/v1/plain/a%2Fb", 404, "", ""},
		{"DELETE", "/v1/things/a%2Fb/parts", 405, "", "GET, HEAD, POST"},
		{"GET", "/v1/things/a%2Fb/parts/NAME", 405, "", "PATCH"},
	} {
		got := bare(handler, tc.method, tc.path)
		if got.Code != tc.status || got.Header().Get("Allow") != tc.allow || tc.want != "" && got.Body.String() != tc.want {
			t.Errorf("%s %s: %d %s, Allow %q; want %d %s, %q", tc.method, tc.path, got.Code, got.Body, got.Header().Get("Allow"), tc.status, tc.want, tc.allow)
		}
	}
}

// Either of a route's two scopes will do.
func TestOr(t *testing.T) {
	t.Parallel()
	for scope, want := range map[domain.Scope]int{
		domain.ScopeBucketsRead: 204, domain.ScopeGatewayRead: 204, domain.ScopeAdmin: 204, domain.ScopeGatewayWrite: 403, domain.ScopeMCP: 403,
	} {
		handler := newHandler(&rig{who: caller{scopes: []domain.Scope{scope}}, routes: []web.Route{{
			Method: http.MethodGet, Path: "/v1/either", Operation: "either", Scope: domain.ScopeBucketsRead, Or: domain.ScopeGatewayRead,
			Handle: func(c *web.Call) error { return c.NoContent() },
		}}})
		if got := bare(handler, http.MethodGet, "/v1/either").Code; got != want {
			t.Errorf("%s: %d, want %d", scope, got, want)
		}
	}
}
