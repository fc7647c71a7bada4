package api_test

import (
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	api "waybill.dev/services/api"
	"waybill.dev/services/api/internal/console"
)

// done is a page that does nothing, and says that it has.
func done(o *api.Options) {
	o.Pages(console.Module{Name: "test", Routes: []console.Route{{
		Method: http.MethodPost, Path: "/console/done", Handle: func(p *console.Page) error { return p.Done("Done, "+p.Account()+".", "/console/settings") },
	}}})
}

// By https no other host can set or read any cookie of the console, and none says anything to who sees it.
func TestConsoleCookiesByHTTPS(t *testing.T) {
	t.Parallel()
	provider := newIdentityProvider(t)
	r := prepareRig(t, sqliteURL(t))
	r.options = func(o *api.Options) {
		o.PublicURL = "https://hooks.example.com"
		o.OIDC = api.OIDC{Issuer: provider.URL, ClientID: clientID, ClientSecret: clientSecret}
		done(o)
	}
	r.start()
	set := func(p shown) *http.Cookie {
		t.Helper()
		cookies := (&http.Response{Header: p.header}).Cookies()
		if len(cookies) != 1 {
			t.Fatalf("%d cookies: %v", len(cookies), p.header)
		}
		return cookies[0]
	}
	session := set(r.browser().post("/console/sign-in", "key", adminKey))
	signed := withCookie(session.Name, session.Value)
	begun := r.browser().get("/console/oidc?next=/console/settings")
	at, err := url.Parse(begun.header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	said := r.browser().do(http.MethodPost, "/console/done", url.Values{}, signed)
	for name, c := range map[string]*http.Cookie{
		"__Host-waybill": session, "__Host-waybill-oidc": set(begun), "__Host-waybill-flash": set(said),
		"__Host-waybill-theme": set(r.browser().post("/console/theme", "theme", "dark")),
	} {
		if c.Name != name || c.Path != "/" || c.Domain != "" || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || len(c.Value) > 4000 {
			t.Errorf("%s is %s", name, c)
		}
		plain, _ := base64.RawURLEncoding.DecodeString(c.Value)
		for _, text := range []string{at.Query().Get("state"), "dark", "Done", "settings"} {
			if strings.Contains(c.Value, text) || strings.Contains(string(plain), text) {
				t.Errorf("%s tells %s", name, text)
			}
		}
	}
	theme := set(r.browser().post("/console/theme", "theme", "dark"))
	r.browser().do(http.MethodGet, signedOut, nil, withCookie(theme.Name, theme.Value)).has(t, `data-theme="dark"`)
	r.browser().do(http.MethodGet, "/console/settings", nil, signed, withCookie(set(said).Name, set(said).Value)).want(t, http.StatusOK, "").has(t, "Done, default.")
	// What another host could set counts for nothing.
	for _, planted := range []string{"waybill", "waybill-theme"} {
		p := r.browser().do(http.MethodGet, "/console/settings", nil, withCookie(planted, map[string]string{"waybill": session.Value, "waybill-theme": theme.Value}[planted]))
		p.want(t, http.StatusSeeOther, signedOut+"?next=%2Fconsole%2Fsettings")
	}
}

// What nobody here has sealed, or has for another session, or too long ago, counts for nothing.
func TestConsoleCookiesAreSealed(t *testing.T) {
	t.Parallel()
	provider := newIdentityProvider(t)
	r := prepareRig(t, sqliteURL(t))
	r.options = func(o *api.Options) {
		o.OIDC = api.OIDC{Issuer: provider.URL, ClientID: clientID, ClientSecret: clientSecret}
		done(o)
	}
	r.start()
	b := r.browser().signIn(adminKey)
	plain := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for _, text := range []string{"Call 555-0100.", strings.Repeat("\x00", 60)} {
		p := b.do(http.MethodGet, "/console/settings", nil, withCookie("waybill-flash", plain(text))).want(t, http.StatusOK, "")
		if strings.Contains(p.body, `class="flash"`) {
			t.Errorf("it says %q", text)
		}
	}
	// Another session's word is not this one's.
	p := r.browser().signIn(adminKey).post("/console/done")
	flash := (&http.Response{Header: p.header}).Cookies()[0]
	if p := b.do(http.MethodGet, "/console/settings", nil, withCookie(flash.Name, flash.Value)); strings.Contains(p.body, "Done, default.") {
		t.Error("it says what another session has done")
	}
	if p := r.browser().do(http.MethodGet, signedOut, nil, withCookie("waybill-theme", "dark")); strings.Contains(p.body, `data-theme="dark"`) {
		t.Error("a theme that nobody has chosen is shown")
	}

	// The way to the provider and back: made up, late, and two at a time.
	const verifier = "0123456789012345678901234567890123456789012"
	journey := func(next string) string {
		return `{"state":"s","nonce":"n","verifier":"` + verifier + `","next":"` + next + `"}`
	}
	sealed := func(text string, ends time.Time) string {
		value := binary.BigEndian.AppendUint64(nil, uint64(ends.Unix()))
		return base64.RawURLEncoding.EncodeToString(r.keys.For("console cookies").Seal(append(value, text...), []byte("cookie-oidc|")))
	}
	soon := time.Now().Add(time.Minute)
	for name, cookies := range map[string][]string{
		"made up": {plain(journey("/console"))}, "late": {sealed(journey("/console"), time.Now().Add(-time.Second))},
		"two": {sealed(journey("/console"), soon), sealed(journey("/console"), soon)},
	} {
		p := r.browser().do(http.MethodGet, "/console/oidc/callback?state=s&code=x", nil, func(request *http.Request) {
			for _, value := range cookies {
				request.AddCookie(&http.Cookie{Name: "waybill-oidc", Value: value})
			}
		})
		if p.status != http.StatusUnauthorized || !strings.Contains(p.body, "not begun here") {
			t.Errorf("%s: %d", name, p.status)
		}
	}
	// Where it leads in the end is looked at again, whoever has sealed it.
	at, _ := r.holder(r.bucket("cookies-bucket"), "managed")
	manager := r.do(http.MethodPost, at+"/managers", `{"email":"ada@example.com","sub":"idp|ada"}`).want(http.StatusCreated).text("id")
	r.acceptAs(provider, manager, map[string]any{"sub": "idp|ada"})
	provider.person(map[string]any{"sub": "idp|ada", "nonce": "n"})
	for _, next := range []string{"https://evil.example/", "//evil.example/console", "/v1/webhooks"} {
		provider.code("x", verifier)
		p := r.browser().do(http.MethodGet, "/console/oidc/callback?state=s&code=x", nil, withCookie("waybill-oidc", sealed(journey(next), soon)))
		if to := p.header.Get("Location"); p.status != http.StatusSeeOther || to != "/console" {
			t.Errorf("%s leads to %d %s", next, p.status, to)
		}
	}
	// However long what was asked for, a browser keeps the cookie.
	begun := r.browser().get("/console/oidc?next=/console/settings?" + strings.Repeat("x", 8<<10)).header
	if c := (&http.Response{Header: begun}).Cookies(); len(c) != 1 || len(c[0].String()) > 4096 {
		t.Errorf("the cookie has %d bytes", len(begun.Get("Set-Cookie")))
	}
}
