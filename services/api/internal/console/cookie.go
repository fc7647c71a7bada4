package console

import (
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"time"
)

const (
	secureCookie = "__Host-waybill"
	plainCookie  = "waybill" // without https, as in dev

	// The other cookies have the name of the session's cookie and one of these endings.
	stateCookie  = "-oidc"
	choiceCookie = "-choice"
	flashCookie  = "-flash"
	themeCookie  = "-theme"

	// cookiePurpose is the purpose of the keys that seal cookies.
	cookiePurpose = "console cookies"
	// expiryBytes is the number of bytes for the end time in a sealed cookie.
	expiryBytes = 8
)

// cookieName returns the name of a cookie; "" is the session's. With https, only names that no other host can
// set are used.
func (p *Page) cookieName(suffix string) string {
	if p.secure() {
		return secureCookie + suffix
	}
	return plainCookie + suffix
}

// setCookie sets a cookie; lasts 0 removes it. Scripts can't read it, and forms of other sites don't send it.
func (p *Page) setCookie(suffix, value string, lasts time.Duration) {
	cookie := &http.Cookie{ //nolint:gosec // Secure where there is https; in dev there is none
		Name: p.cookieName(suffix), Value: value, Path: "/", MaxAge: int(lasts / time.Second),
		Secure: p.secure(), HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
	if lasts == 0 {
		cookie.MaxAge = -1
	}
	http.SetCookie(p.Writer, cookie)
}

// keep seals a value and stores it in a cookie. kept opens it only with the same bound, which is a session, or
// empty. So no one else can forge the cookie or make it last longer.
func (p *Page) keep(suffix, value, bound string, lasts time.Duration) {
	plain := binary.BigEndian.AppendUint64(make([]byte, 0, expiryBytes+len(value)), uint64(p.Now().Add(lasts).Unix()))
	sealed := p.console.seal.Seal(append(plain, value...), cookieData(suffix, bound))
	p.setCookie(suffix, base64.RawURLEncoding.EncodeToString(sealed), lasts)
}

// kept returns the value that keep has sealed, until it expires. A browser may send several cookies of the
// name, because another host may have set some. Exactly one of them must open.
func (p *Page) kept(suffix, bound string) (value string, ok bool) {
	for _, cookie := range p.Request.CookiesNamed(p.cookieName(suffix)) {
		sealed, err := base64.RawURLEncoding.DecodeString(cookie.Value)
		if err != nil {
			continue
		}
		plain, err := p.console.seal.Open(sealed, cookieData(suffix, bound))
		if err != nil || len(plain) < expiryBytes || uint64(p.Now().Unix()) >= binary.BigEndian.Uint64(plain) {
			continue
		}
		if ok {
			return "", false
		}
		value, ok = string(plain[expiryBytes:]), true
	}
	return value, ok
}

// drop removes a cookie from the browser.
func (p *Page) drop(suffix string) { p.setCookie(suffix, "", 0) }

// cookieData returns the data that binds a sealed value to its cookie, and to its session, if any.
func cookieData(suffix, bound string) []byte { return []byte("cookie" + suffix + "|" + bound) }
