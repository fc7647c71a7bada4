package console_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/edge"
	"waybill.dev/shared/jsonscan/attack"
	"waybill.dev/shared/seal"
)

// none has no session.
type none struct{ console.Sessions }

func (none) FindSession(context.Context, []byte) (access.Session, domain.KeyHolder, error) {
	return access.Session{}, domain.KeyHolder{}, domain.ErrNotFound
}

// Whatever cookies come, a page is shown, and what the console itself has sealed counts in the cookie alone that it was sealed for.
func FuzzCookies(f *testing.F) {
	keys, err := seal.Parse(strings.Repeat("A", 43) + "=")
	if err != nil {
		f.Fatal(err)
	}
	c, err := console.New(console.Options{
		Sessions: none{}, Keyring: keys, Edge: &edge.Edge{}, Logger: slog.New(slog.DiscardHandler),
		OIDC: console.OIDC{Issuer: "https://idp.example", ClientID: "waybill"},
	})
	if err != nil {
		f.Fatal(err)
	}
	ask := func(method, path, cookies, form string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(form))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if cookies != "" {
			r.Header.Set("Cookie", cookies)
		}
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		return w
	}
	chosen := ask(http.MethodPost, "/console/theme", "", url.Values{"theme": {"dark"}}.Encode()).Result().Cookies()
	if len(chosen) != 1 {
		f.Fatal("no theme is kept")
	}
	dark := chosen[0].Value
	for _, cookies := range []string{
		"waybill-theme=" + dark, "waybill-theme=" + dark + "; waybill-theme=" + dark, "waybill-theme=x; waybill-theme=" + dark, "waybill-theme=" + dark[:20],
		"waybill-oidc=" + dark, "waybill-choice=" + dark, "waybill-flash=" + dark, "waybill=" + dark, "__Host-waybill-theme=" + dark,
		`waybill-theme="; a=b;;=`, "waybill-oidc=\x00\xff",
	} {
		f.Add(cookies)
	}
	f.Fuzz(func(t *testing.T, cookies string) {
		attack.Hold(t, len(cookies), attack.Allowance{Times: 24, Bytes: 2 << 20}, func() {
			w := ask(http.MethodGet, "/console/sign-in", cookies, "")
			named := (&http.Request{Header: http.Header{"Cookie": {cookies}}}).CookiesNamed(chosen[0].Name)
			switch page := w.Body.String(); {
			case w.Code != http.StatusOK:
				t.Errorf("%q: %d", cookies, w.Code)
			case strings.Contains(page, `data-theme="auto"`), len(named) > 0 && strings.Contains(page, `data-theme="dark"`):
			default:
				t.Errorf("%q chooses the theme", cookies)
			}
			for _, path := range []string{"/console/oidc/callback?code=1&state=", "/console/oidc/choice"} {
				if w := ask(http.MethodGet, path, cookies, ""); w.Code != http.StatusUnauthorized {
					t.Errorf("%q at %s: %d", cookies, path, w.Code)
				}
			}
		})
	})
}
