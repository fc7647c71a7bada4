package api_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	api "waybill.dev/services/api"
	"waybill.dev/services/api/internal/console"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/pgtest"
)

// browser is a browser that keeps cookies and follows nothing.
type browser struct {
	t    *testing.T
	r    *rig
	http *http.Client
}

func (r *rig) browser() *browser {
	r.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return &browser{t: r.t, r: r, http: &http.Client{
		Jar: jar, Transport: http.DefaultTransport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// shown is an answer of the console.
type shown struct {
	status int
	header http.Header
	body   string
}

func (b *browser) do(method, path string, form url.Values, change ...func(*http.Request)) shown {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), method, b.r.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	request.Header.Set("Accept", "text/html")
	for _, c := range change {
		c(request)
	}
	response, err := b.http.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return shown{response.StatusCode, response.Header, string(body)}
}

func (b *browser) get(path string) shown { b.t.Helper(); return b.do(http.MethodGet, path, nil) }

func (b *browser) post(path string, pairs ...string) shown {
	b.t.Helper()
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return b.do(http.MethodPost, path, form)
}

func (b *browser) signIn(key string) *browser {
	b.t.Helper()
	b.post("/console/sign-in", "key", key).want(b.t, http.StatusSeeOther, "/console")
	return b
}

// want checks the status and, of a redirect, where it leads.
func (p shown) want(t *testing.T, status int, location string) shown {
	t.Helper()
	if p.status != status || p.header.Get("Location") != location {
		t.Fatalf("answered %d to %q, want %d to %q\n%.600s", p.status, p.header.Get("Location"), status, location, p.body)
	}
	return p
}

func (p shown) has(t *testing.T, texts ...string) shown {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(p.body, text) {
			t.Errorf("the page has no %q:\n%.3000s", text, p.body)
		}
	}
	return p
}

// cookie returns the session's cookie.
func (b *browser) cookie() string {
	u, err := url.Parse(b.r.url)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, c := range b.http.Jar.Cookies(u) {
		if c.Name == "waybill" {
			return c.Value
		}
	}
	return ""
}

const signedOut = "/console/sign-in"

func TestConsoleSignIn(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		b := r.browser()
		b.get("/console").want(t, http.StatusSeeOther, signedOut)
		b.get("/console/settings?x=1").want(t, http.StatusSeeOther, signedOut+"?next=%2Fconsole%2Fsettings%3Fx%3D1")
		for _, wrong := range []string{"", "x", adminKey + "x", "wbk_0123456789abcdefghijklmnopqrstuv_782bbe53", strings.Repeat("k", 300)} {
			p := b.post("/console/sign-in", "key", wrong).want(t, http.StatusUnauthorized, "").has(t, `name="key"`, "opens nothing")
			if strings.Contains(p.body, adminKey) || p.header.Get("Set-Cookie") != "" {
				t.Error("the form says the key again, or a cookie is set")
			}
		}
		b.signIn(adminKey)
		first := b.cookie()
		if len(first) != 64 {
			t.Fatalf("the cookie is %q", first)
		}
		b.get("/console").want(t, http.StatusOK, "").has(t, "Home", "admin key")
		// Who is signed in already is led on; a new sign-in gets a new id, and the old one ends.
		b.get("/console/sign-in?next=/console/settings").want(t, http.StatusSeeOther, "/console/settings")
		b.signIn(adminKey)
		if b.cookie() == first {
			t.Error("the session kept its id")
		}
		r.browser().do(http.MethodGet, "/console", nil, withCookie("waybill", first)).want(t, http.StatusSeeOther, signedOut)

		out := b.post("/console/sign-out").want(t, http.StatusSeeOther, signedOut)
		if out.header.Get("Clear-Site-Data") == "" {
			t.Error("the browser is not told to forget")
		}
		b.get("/console").want(t, http.StatusSeeOther, signedOut)
		for _, next := range []string{"https://evil.example", "//evil.example/console", "/v1/webhooks", `/\evil`, "/console/../v1", "javascript:alert(1)"} {
			r.browser().post("/console/sign-in", "key", adminKey, "next", next).want(t, http.StatusSeeOther, "/console")
		}
		r.browser().post("/console/sign-in", "key", adminKey, "next", "/console/settings?a=b").want(t, http.StatusSeeOther, "/console/settings?a=b")
	})
}

func withCookie(name, value string) func(*http.Request) {
	return func(request *http.Request) { request.AddCookie(&http.Cookie{Name: name, Value: value}) }
}

// A session nobody has opened stays closed, whatever id a browser brings along.
func TestConsoleFixation(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	planted := strings.Repeat("ab", 32)
	b := r.browser()
	p := b.do(http.MethodPost, "/console/sign-in", url.Values{"key": {adminKey}}, withCookie("waybill", planted)).want(t, http.StatusSeeOther, "/console")
	if strings.Contains(p.header.Get("Set-Cookie"), planted) {
		t.Error("the sign-in took over an id from outside")
	}
	r.browser().do(http.MethodGet, "/console", nil, withCookie("waybill", planted)).want(t, http.StatusSeeOther, signedOut)
	// Two cookies of the name: nobody can tell which is ours.
	own := b.cookie()
	r.browser().do(http.MethodGet, "/console", nil, withCookie("waybill", planted), withCookie("waybill", own)).want(t, http.StatusSeeOther, signedOut)
}

// Revoked, expired, replaced: the session of a key ends with it, and its rights are those of now.
func TestConsoleSessionFollowsItsKey(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		at, key := r.holder(r.bucket("console-bucket"), "operator", domain.ScopeEventsRead)
		b := r.browser().signIn(key)
		b.get("/console/settings").want(t, http.StatusOK, "").has(t, "console-bucket/operator")

		r.do(http.MethodPatch, at, `{"scopes":["mcp:use"]}`).want(http.StatusOK)
		if p := b.get("/console/settings"); strings.Count(p.body, `badge good">yes`) != 1 {
			t.Errorf("the session has not the scopes of now:\n%s", p.body)
		}
		id := r.do(http.MethodGet, at+"/keys", "").want(http.StatusOK).items("data")[0]["id"].(string)
		r.do(http.MethodPatch, at+"/keys/"+id, `{"expiresOn":"2020-01-01T00:00:00Z"}`).want(http.StatusOK)
		b.get("/console").want(t, http.StatusSeeOther, signedOut)
		r.do(http.MethodPatch, at+"/keys/"+id, `{"expiresOn":"2099-01-01T00:00:00Z"}`).want(http.StatusOK)
		b.signIn(key).get("/console").want(t, http.StatusOK, "")
		r.do(http.MethodDelete, at+"/keys/"+id, "").want(http.StatusNoContent)
		b.get("/console").want(t, http.StatusSeeOther, signedOut)
		b.post("/console/sign-in", "key", key).want(t, http.StatusUnauthorized, "")
	})
}

// Sessions end after 12 hours without use and after seven days in all.
func TestConsoleSessionEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	raw, _ := r.store.Handles()
	for _, column := range []string{"seen_at", "expires_at"} {
		b := r.browser().signIn(adminKey)
		set := func(at time.Time) {
			t.Helper()
			if _, err := raw.ExecContext(t.Context(), "UPDATE console_sessions SET "+column+" = $1", at.UnixMicro()); err != nil {
				t.Fatal(err)
			}
		}
		now := time.Now()
		alive, dead := now.Add(-12*time.Hour+time.Minute), now.Add(-12*time.Hour-time.Second)
		if column == "expires_at" {
			alive, dead = now.Add(time.Minute), now.Add(-time.Second)
		}
		set(alive)
		b.get("/console").want(t, http.StatusOK, "")
		set(dead)
		b.get("/console").want(t, http.StatusSeeOther, signedOut)
	}
}

var csp = regexp.MustCompile(`^default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'$`)

func TestConsoleHeaders(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	b := r.browser().signIn(adminKey)
	for _, path := range []string{"/console", "/console/settings", "/console/nothing", "/console/enter", "/console/sign-out"} {
		p := b.get(path)
		if !csp.MatchString(p.header.Get("Content-Security-Policy")) || p.header.Get("Referrer-Policy") != "same-origin" ||
			p.header.Get("Cache-Control") != "no-store" || p.header.Get("X-Frame-Options") != "DENY" || p.header.Get("X-Content-Type-Options") != "nosniff" ||
			p.header.Get("X-Request-Id") == "" {
			t.Errorf("%s: %v", path, p.header)
		}
		if len(p.body) > 60<<10 {
			t.Errorf("%s has %d bytes", path, len(p.body))
		}
		if strings.Contains(p.body, "<style") || strings.Contains(p.body, "style=") || regexp.MustCompile(`<script(>|[^>]*>[^<])`).MatchString(p.body) {
			t.Errorf("%s has an inline script or style", path)
		}
	}
	for _, name := range regexp.MustCompile(`/console/assets/[^"]+`).FindAllString(b.get("/console").body, -1) {
		a := r.browser().get(name).want(t, http.StatusOK, "")
		if !strings.Contains(a.header.Get("Cache-Control"), "immutable") || a.body == "" {
			t.Errorf("%s: %v", name, a.header)
		}
	}
	r.browser().get("/console/assets/none.css").want(t, http.StatusNotFound, "")
}

// Cookies count for the console alone, and keys for the rest.
func TestConsoleCookieOpensNothingElse(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	b := r.browser().signIn(adminKey)
	for _, path := range []string{"/v1/webhooks", "/v1/who-am-i", "/v1/accounts"} {
		b.get(path).want(t, http.StatusUnauthorized, "")
	}
	b.do(http.MethodPost, "/console/links", url.Values{}).want(t, http.StatusUnauthorized, "")
	r.browser().do(http.MethodGet, "/console", nil, func(request *http.Request) { request.Header.Set("Authorization", "Bearer "+adminKey) }).
		want(t, http.StatusSeeOther, signedOut)
	if got := r.browser().get("/"); got.status != http.StatusSeeOther || got.header.Get("Location") != "/console" {
		t.Errorf("/ leads a browser to %d %s", got.status, got.header.Get("Location"))
	}
	index := r.browser().do(http.MethodGet, "/", nil, func(request *http.Request) { request.Header.Set("Accept", "*/*") }).want(t, http.StatusOK, "")
	if index.header.Get("Content-Type") != "application/json; charset=utf-8" || !strings.Contains(index.body, `"openapi":"/openapi"`) {
		t.Errorf("/ answers %s", index.body)
	}
	for path, allow := range map[string]string{"/": "GET, HEAD", "/console/webhooks": "GET, HEAD", "/console/sign-out": "POST"} {
		refused := b.do(http.MethodDelete, path, nil).want(t, http.StatusMethodNotAllowed, "")
		if refused.header.Get("Allow") != allow || refused.header.Get("X-Request-Id") == "" {
			t.Errorf("DELETE %s allows %q, header %v", path, refused.header.Get("Allow"), refused.header)
		}
	}
	b.do(http.MethodDelete, "/console/nobodys", nil).want(t, http.StatusNotFound, "")
	if index.header.Get("X-Request-Id") == "" {
		t.Error("/ has no request id")
	}
}

// What another site sends changes nothing, and an operator sees why.
func TestConsoleCrossOrigin(t *testing.T) {
	t.Parallel()
	r := prepareRig(t, sqliteURL(t))
	r.options = func(o *api.Options) { o.PublicURL = "https://hooks.example.com" }
	r.start()
	from := func(origin, site string) shown {
		return r.browser().do(http.MethodPost, "/console/sign-in", url.Values{"key": {adminKey}}, func(request *http.Request) {
			request.Header.Set("Origin", origin)
			request.Header.Del("Sec-Fetch-Site")
			if site != "" {
				request.Header.Set("Sec-Fetch-Site", site)
			}
		})
	}
	for _, site := range []string{"", "cross-site", "same-site"} {
		from("https://evil.example", site).want(t, http.StatusForbidden, "").has(t, "https://evil.example", "https://hooks.example.com")
	}
	from("https://hooks.example.com", "").want(t, http.StatusSeeOther, "/console")
	p := from("https://hooks.example.com", "same-origin").want(t, http.StatusSeeOther, "/console")
	if got := p.header.Get("Set-Cookie"); !strings.HasPrefix(got, "__Host-waybill=") || !strings.Contains(got, "; Secure") ||
		!strings.Contains(got, "; HttpOnly") || !strings.Contains(got, "; SameSite=Lax") || !strings.Contains(got, "Path=/;") || strings.Contains(got, "Domain") {
		t.Errorf("the cookie is %s", got)
	}
}

// A one-time link signs in once, by POST, within its minute, and as the key that asked for it.
func TestConsoleLink(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		path, key := r.holder(r.bucket("link-bucket"), "linked", domain.ScopeEventsRead)
		for name, asker := range map[string]string{"admin key": adminKey, "link-bucket/linked": key} {
			made := r.send(http.MethodPost, "/console/links", "", as(asker)).want(http.StatusCreated)
			link, code, ok := strings.Cut(made.text("url"), "#")
			if !ok || !strings.HasSuffix(link, "/console/enter") || len(code) != 64 {
				t.Fatalf("the link is %s", made.text("url"))
			}
			if ends, err := time.Parse(time.RFC3339, made.text("expiresAt")); err != nil || time.Until(ends) > time.Minute || time.Until(ends) < 30*time.Second {
				t.Errorf("it ends at %s", made.text("expiresAt"))
			}
			b := r.browser()
			b.get("/console/enter?code="+code).want(t, http.StatusOK, "") // scanners follow links
			// A code is no session.
			r.browser().do(http.MethodGet, "/console", nil, withCookie("waybill", code)).want(t, http.StatusSeeOther, signedOut)
			b.post("/console/enter", "code", code).want(t, http.StatusSeeOther, "/console")
			b.get("/console").want(t, http.StatusOK, "").has(t, name)
			r.browser().post("/console/enter", "code", code).want(t, http.StatusUnauthorized, "").has(t, "used already")
			if b.cookie() == code {
				t.Error("the code became the session's id")
			}
		}
		// A browser that is signed in is asked, and its session ends.
		b := r.browser().signIn(key)
		former := b.cookie()
		_, code, _ := strings.Cut(r.send(http.MethodPost, "/console/links", "", as(adminKey)).want(http.StatusCreated).text("url"), "#")
		b.post("/console/enter", "code", code).want(t, http.StatusOK, "").has(t, "link-bucket/linked", "admin key", `name="instead"`)
		b.get("/console").want(t, http.StatusOK, "").has(t, "link-bucket/linked")
		b.post("/console/enter", "code", code, "instead", "yes").want(t, http.StatusSeeOther, "/console")
		b.get("/console").want(t, http.StatusOK, "").has(t, "admin key")
		r.browser().do(http.MethodGet, "/console", nil, withCookie("waybill", former)).want(t, http.StatusSeeOther, signedOut)
		b.post("/console/enter", "code", code, "instead", "yes").want(t, http.StatusUnauthorized, "").has(t, "used already")
		b.get("/console").want(t, http.StatusOK, "").has(t, "admin key")

		late := r.send(http.MethodPost, "/console/links", "", as(key)).want(http.StatusCreated).text("url")
		_, code, _ = strings.Cut(late, "#")
		r.do(http.MethodDelete, path, "").want(http.StatusNoContent)
		r.browser().post("/console/enter", "code", code).want(t, http.StatusUnauthorized, "")
		r.browser().post("/console/enter", "code", "none").want(t, http.StatusUnauthorized, "")
		r.send(http.MethodPost, "/console/links", "", as("wbk_0123456789abcdefghijklmnopqrstuv_782bbe53")).want(http.StatusUnauthorized)

		first, err := r.service.ConsoleLink(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, code, _ = strings.Cut(first, "#")
		raw, _ := r.store.Handles()
		if _, err := raw.ExecContext(t.Context(), "DELETE FROM console_sessions WHERE expires_at < $1", r.store.Moment(time.Now().Add(-time.Second))); err != nil {
			t.Fatal(err)
		}
		if _, err := raw.ExecContext(t.Context(), "UPDATE console_sessions SET expires_at = $1", r.store.Moment(time.Now().Add(-time.Millisecond))); err != nil {
			t.Fatal(err)
		}
		r.browser().post("/console/enter", "code", code).want(t, http.StatusUnauthorized, "")
	})
}

// The audit log names the session and the key by which something was changed, or refused.
func TestConsoleAudit(t *testing.T) {
	t.Parallel()
	r := prepareRig(t, sqliteURL(t))
	r.options = func(o *api.Options) {
		o.Pages(console.Module{Name: "test", Routes: []console.Route{{
			Method: http.MethodPost, Path: "/console/bucket", Handle: func(p *console.Page) error {
				path := console.Path("v1", "accounts", p.Account(), "key-buckets")
				if err := p.API.Send(http.MethodPost, path, map[string]string{"name": "made-by-console"}, nil); err != nil {
					return err
				}
				return p.Done("Made.", "/console/settings")
			},
		}}})
	}
	r.start()
	bucket := r.bucket("audited-bucket")
	_, writer := r.holder(bucket, "writer", domain.ScopeBucketsWrite)
	_, reader := r.holder(bucket, "reader", domain.ScopeBucketsRead)
	for key, done := range map[string]bool{writer: true, reader: false} {
		b := r.browser().signIn(key)
		session := regexp.MustCompile(`csess_[0-9A-Za-z]{24}`).FindString(b.get("/console/settings").body)
		if p := b.post("/console/bucket"); done {
			p.want(t, http.StatusSeeOther, "/console/settings")
			b.get("/console/settings").has(t, "Made.")
			if again := b.get("/console/settings"); strings.Contains(again.body, "Made.") {
				t.Error("it is said twice")
			}
		} else {
			p.want(t, http.StatusForbidden, "").has(t, "No right to see this", "buckets:write")
		}
		eventually(t, "the audit log has the entry", func() bool {
			for _, entry := range r.do(http.MethodGet, "/v1/accounts/default/audit-logs?action=create-bucket", "").want(http.StatusOK).items("data") {
				actor := entry["actor"].(map[string]any)
				facts, _ := actor["metadata"].(map[string]any)
				if facts["session"] == session && session != "" && strings.HasPrefix(fmt.Sprint(facts["keyId"]), "key_") && entry["success"] == done {
					return true
				}
			}
			return false
		})
	}
}

// A page says what is wrong as the API does, and hostile text stays text.
func TestConsoleStates(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	_, key := r.holder(r.bucket("little-bucket"), "little", domain.ScopeMCP)
	b := r.browser().signIn(key)
	b.get("/console").want(t, http.StatusOK, "").has(t, "Needs the scope <code>events:read</code>")
	b.post("/console/sample").want(t, http.StatusForbidden, "").has(t, "No right to see this", "events:write")
	b.get("/console/nothing").want(t, http.StatusNotFound, "").has(t, "There is no such page.")
	for path, leads := range map[string]string{"/console/": "/console", "/console/events/?type=a%2Fb": "/console/events?type=a%2Fb", "/console//": "/console"} {
		if p := b.do(http.MethodGet, path, nil); p.status != http.StatusPermanentRedirect || p.header.Get("Location") != leads {
			t.Errorf("%s: %d to %q, want %q", path, p.status, p.header.Get("Location"), leads)
		}
	}
	hostile := b.get("/console/find?q=" + url.QueryEscape("<script>alert(1)</script>\u202e"))
	if strings.Contains(hostile.body, "<script>alert") || !strings.Contains(hostile.body, "&lt;/script&gt;\uFFFD</code>") {
		t.Error("hostile text got into the page")
	}
	b.post("/console/theme", "theme", "dark", "next", "/console/settings").want(t, http.StatusSeeOther, "/console/settings")
	b.get("/console").has(t, `data-theme="dark"`)
}

// While the database is away, who was there a minute ago is told what is wrong, within two
// seconds; nobody else gets in, and nobody is signed out.
func TestConsoleDatabaseIsDown(t *testing.T) {
	t.Parallel()
	cluster, err := pgtest.Start(t.Context(), "", "fsync=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	r := newRig(t, cluster.URL("postgres"))
	b, stranger := r.browser().signIn(adminKey), r.browser()
	b.get("/console").want(t, http.StatusOK, "")
	if err := cluster.Kill(); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	b.get("/console").want(t, http.StatusOK, "").has(t, "admin key", "can&#39;t be reached")
	p := stranger.do(http.MethodGet, "/console", nil, withCookie("waybill", strings.Repeat("ab", 32))).want(t, http.StatusServiceUnavailable, "")
	if p.header.Get("Retry-After") == "" {
		t.Error("it is not said when to come again")
	}
	stranger.post("/console/sign-in", "key", adminKey).want(t, http.StatusServiceUnavailable, "")
	if took := time.Since(started); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
	if err := cluster.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the console is back", func() bool { return stranger.post("/console/sign-in", "key", adminKey).status == http.StatusSeeOther })
	b.get("/console/settings").want(t, http.StatusOK, "")
}
