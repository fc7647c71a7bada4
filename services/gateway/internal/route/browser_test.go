package route_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/gateway/internal/route"
)

// What a browser would give to another host, or would take for Waybill's, in every spelling that
// browsers read.
func TestCheckUploaded(t *testing.T) {
	t.Parallel()
	refused := []string{
		"a=b; Domain=example.com", "a=b;domain=.example.com", "a=b; Path=/; \tDOMAIN \t= example.com", "a=b; domain", "a=b; Domain=",
		"waybill=x", "waybill-oidc=x", "WAYBILL=x", " waybill =x", "\twaybill-flash=x; Path=/", "__Host-waybill=x; Secure; Path=/",
		"__HOST-Waybill-oidc=x", "__Secure-waybill=x", "__Host-__Secure-waybill=x",
		"=waybill=x", "waybill", "", "; Domain=example.com", " = x", "=", "a b=x", `"waybill"=x`,
	}
	passed := []string{"a=b", "a=", "session=1; Path=/; HttpOnly; SameSite=Lax", "__Host-session=1; Secure; Path=/", "mywaybill=1", "a=waybill; Path=/waybill", "domain=1"}
	for _, text := range refused {
		if route.CheckUploaded("set-cookie", text) == nil {
			t.Errorf("%q is taken", text)
		}
	}
	for _, text := range passed {
		if err := route.CheckUploaded("Set-Cookie", text); err != nil {
			t.Errorf("%q %v", text, err)
		}
	}
	for text, want := range map[string]bool{`"cache"`: true, `"storage", "executionContexts"`: true, `"cookies"`: false, `"cache", "Cookies"`: false, `"*"`: false, "*": false} {
		if got := route.CheckUploaded("Clear-Site-Data", text) == nil; got != want {
			t.Errorf("Clear-Site-Data: %s: %t", text, got)
		}
	}
	if err := route.CheckUploaded("X-Cookie", "waybill=x; Domain=example.com"); err != nil {
		t.Errorf("another header %v", err)
	}

	header := http.Header{"Set-Cookie": append(append([]string{}, refused...), passed...), "Clear-Site-Data": {`"cookies"`}, "Vary": {"Cookie"}}
	route.KeepUploaded(header)
	if diff := cmp.Diff(http.Header{"Set-Cookie": passed, "Vary": {"Cookie"}}, header); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
