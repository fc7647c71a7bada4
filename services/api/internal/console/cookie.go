package console

import (
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"time"
)

const (
	secureCookie = "__Host-waybill"
	plainCookie  = "waybill" // where there is no https, as in dev

	// The other cookies have the name of the session's cookie and one of these endings.
	stateCookie  = "-oidc"
	choiceCookie = "-choice"
	flashCookie  = "-flash"
	themeCookie  = "-theme"

	// cookiePurpose is what the keys of sealed cookies are derived for.
	cookiePurpose = "console cookies"
	// expiryBytes is how many bytes of a sealed cookie say when it ends.
	expiryBytes = 8
)

// cookieName is the name of a cookie; "" is the session's. By https only those count that no other
// host can set.
func (p *Page) cookieName(suffix string) string {
	if p.secure() {
		return secureCookie + suffix
	}
	return plainCookie + suffix
}

// setCookie sets a cookie; lasts 0 removes it. No script reads it, and no other site's form sends it.
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

// keep seals a value and has the browser keep it. kept opens it for the same bound, which is a session, or
// empty. So nobody else can make up what the browser sends, nor make it last longer.
func (p *Page) keep(suffix, value, bound string, lasts time.Duration) {
	plain := binary.BigEndian.AppendUint64(make([]byte, 0, expiryBytes+len(value)), uint64(p.Now().Add(lasts).Unix()))
	sealed := p.console.seal.Seal(append(plain, value...), cookieData(suffix, bound))
	p.setCookie(suffix, base64.RawURLEncoding.EncodeToString(sealed), lasts)
}

// kept returns what keep has sealed, as long as that lasts. A browser may send several cookies of the name, as
// another host may have set some. Exactly one of them must open.
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

// drop has the browser forget a cookie.
func (p *Page) drop(suffix string) { p.setCookie(suffix, "", 0) }

// cookieData binds a sealed value to its cookie, and to the session that it is for, if any.
func cookieData(suffix, bound string) []byte { return []byte("cookie" + suffix + "|" + bound) }
