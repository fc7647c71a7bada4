package console

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"waybill.dev/services/api/internal/kernel/auth"
	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/edge"
	"waybill.dev/shared/problem"
)

// maxSignIn and maxTheme bound the forms that may be posted without a session, in bytes.
const (
	maxSignIn = 4 << 10
	maxTheme  = 1 << 10
)

// own registers the kernel's own paths: the sign-in, and what every page uses.
func (c *Console) own(mux *http.ServeMux) {
	open := func(pattern string, handle func(*Page) error) {
		_, path, _ := strings.Cut(pattern, " ")
		mux.Handle(pattern, c.shell(Route{Path: path}, handle))
	}
	open("GET /console/sign-in", c.signInForm)
	open("POST /console/sign-in", c.signIn)
	open("POST /console/sign-out", c.signOut)
	open("GET /console/enter", c.enterForm)
	open("POST /console/enter", c.enter)
	open("POST /console/links", c.makeLink)
	open("POST /console/theme", c.setTheme)
	if c.oidc != nil {
		open("GET /console/oidc", c.startOIDC)
		open("GET /console/oidc/callback", c.endOIDC)
		open("GET /console/oidc/choice", c.choices)
		open("POST /console/oidc/choice", c.choose)
		open("POST /console/oidc/choice/accept", c.accept)
		open("POST /console/oidc/choice/decline", c.decline)
	}
	mux.Handle("GET /console/live", c.page(bound{Route{Method: http.MethodGet, Path: "/console/live", Handle: c.live}, c.layouts.own}))
	// Every other path is unknown, whatever the method.
	const others = "/console/"
	mux.Handle(others, c.page(bound{Route{Path: others, Handle: func(p *Page) error {
		if allowed := methodsOf(mux, p.Request, others); len(allowed) > 0 {
			p.Writer.Header().Set("Allow", strings.Join(allowed, ", "))
			return problem.New(problem.MethodNotAllowed, "This page does not know the method; see Allow.")
		}
		return problem.New(problem.NotFound, "There is no such page.")
	}}, c.layouts.own}))
}

// methodsOf returns the methods that the path of a request has a page for. Others is the pattern of
// all paths without a page.
func methodsOf(mux *http.ServeMux, r *http.Request, others string) []string {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		with := *r
		with.Method = method
		if _, pattern := mux.Handler(&with); pattern != others && pattern != "" {
			allowed = append(allowed, method)
		}
	}
	return allowed
}

// SignIn is the data of the sign-in page.
type SignIn struct {
	Next  string
	Wrong string // the fault; empty: none yet
	OIDC  bool
}

func (c *Console) signInForm(p *Page) error {
	next := safeNext(p.Query("next"))
	if _, err := c.session(p.Context(), p.token()); err == nil {
		return p.Redirect(next)
	}
	return p.show(http.StatusOK, "sign-in.html", "Sign in", SignIn{Next: next, OIDC: c.oidc != nil})
}

// signIn checks a key as the API does and opens a session. A wrong one is answered with the form.
func (c *Console) signIn(p *Page) error {
	form, err := p.formOf(maxSignIn)
	if err != nil {
		return err
	}
	view := SignIn{Next: safeNext(form.Get("next")), OIDC: c.oidc != nil}
	session, err := c.holderOf(p.Context(), strings.TrimSpace(form.Get("key")))
	if errors.Is(err, apikey.ErrUnauthenticated) {
		view.Wrong = "This key opens nothing. It may be mistyped, revoked or expired."
		p.Writer.Header().Set("WWW-Authenticate", "Bearer")
		return p.show(http.StatusUnauthorized, "sign-in.html", "Sign in", view)
	}
	if err != nil {
		return err
	}
	if err := p.openFresh(session, nil); err != nil {
		return err
	}
	return p.Redirect(view.Next)
}

func (c *Console) signOut(p *Page) error {
	if hash := p.token(); hash != nil {
		c.sessions.forget(hash)
		if err := c.Sessions.EndSession(p.Context(), hash); err != nil {
			return err
		}
	}
	p.drop("")
	p.Writer.Header().Set("Clear-Site-Data", `"cache", "storage"`)
	return p.Redirect("/console/sign-in")
}

// maxNext bounds where to go after the sign-in: browsers keep cookies of at most 4 KiB.
const maxNext = 2 << 10

// safeNext returns the target after the sign-in: always a page of the console.
func safeNext(next string) string {
	u, err := url.Parse(next)
	if err != nil || len(next) > maxNext || u.Scheme != "" || u.Host != "" || u.Opaque != "" || strings.ContainsAny(next, "\\\r\n\t") ||
		u.Path != "/console" && !strings.HasPrefix(u.Path, "/console/") || strings.Contains(u.Path, "..") || strings.HasPrefix(u.Path, "/console/live") {
		return "/console"
	}
	return u.RequestURI()
}

func (c *Console) enterForm(p *Page) error {
	return p.show(http.StatusOK, "enter.html", "Sign in", SignIn{})
}

// Instead is the data of the page that asks before a one-time link replaces the session of a browser.
type Instead struct {
	Code, Account, Who       string // of the link
	FormerAccount, FormerWho string // of the session that would end
}

// enter exchanges the code of a one-time link for a session. A code works once. If the browser is already
// signed in, enter asks first: the link may come from a person who wants the user to work in another account.
func (c *Console) enter(p *Page) error {
	form, err := p.formOf(maxSignIn)
	if err != nil {
		return err
	}
	text := strings.TrimSpace(form.Get("code"))
	made, err := c.linked(p.Context(), hashOf(text))
	if err == nil && form.Get("instead") == "" {
		former, err := c.session(p.Context(), p.token())
		if err == nil {
			return p.show(http.StatusOK, "instead.html", "Sign in instead?", Instead{text, made.Account, made.who(), former.Account, former.who()})
		}
		if !errors.Is(err, domain.ErrNotFound) {
			return err
		}
	}
	if err == nil {
		err = p.openFresh(access.Session{Account: made.Account, KeyID: made.KeyID, ManagerID: made.ManagerID, Proof: made.Proof, Person: made.Person}, made.Hash)
	}
	if errors.Is(err, domain.ErrNotFound) {
		return p.show(http.StatusUnauthorized, "enter.html", "Sign in", SignIn{Wrong: "This link was used already, or its minute is over. waybill console prints a new one."})
	}
	if err != nil {
		return err
	}
	return p.Redirect("/console")
}

// linked returns the session that a one-time link opens, by the hash of its code. ErrNotFound: the link has
// expired or was used.
func (c *Console) linked(ctx context.Context, hash []byte) (Session, error) {
	code, holder, err := c.Sessions.FindSession(ctx, hash)
	if err != nil {
		return Session{}, err
	}
	principal, ok := c.principal(code, holder, time.Now())
	if !ok || code.Kind != access.KindLink {
		return Session{}, domain.ErrNotFound
	}
	return Session{code, principal}, nil
}

// link makes a one-time link that opens a session like s.
func (c *Console) link(ctx context.Context, s access.Session) (path string, made access.Session, err error) {
	code := random()
	s.Hash, s.Kind = hashOf(code), access.KindLink
	made, err = c.Sessions.OpenSession(ctx, s, linkTime, access.Replaced{})
	return "/console/enter#" + code, made, err
}

// makeLink makes a one-time link for a caller with an API key, which is sent as for the API. Cookies are
// ignored here.
func (c *Console) makeLink(p *Page) error {
	key, ok := apikey.FromHeader(p.Request.Header)
	if !ok {
		return p.plain(problem.KeyRequired())
	}
	session, err := c.holderOf(p.Context(), key)
	if errors.Is(err, apikey.ErrUnauthenticated) {
		return p.plain(problem.KeyRequired())
	}
	if err != nil {
		return err
	}
	path, made, err := c.link(p.Context(), session)
	if err != nil {
		return err
	}
	body, err := json.Marshal(struct {
		URL       string `json:"url"`
		ExpiresAt string `json:"expiresAt"`
	}{p.Base() + path, made.ExpiresOn.Format("2006-01-02T15:04:05.000Z07:00")})
	if err != nil {
		return err
	}
	p.Writer.Header().Set("Content-Type", "application/json; charset=utf-8")
	p.Writer.WriteHeader(http.StatusCreated)
	_, _ = p.Writer.Write(body)
	return nil
}

// plain answers a program with a problem.
func (p *Page) plain(failed *problem.Problem) error {
	failed.Write(p.Writer, p.Request, p.RequestID)
	return nil
}

// Link returns the path of a one-time link for the bootstrap key; empty: there is no such key.
func (c *Console) Link(ctx context.Context) (string, error) {
	principal, proof, ok := c.Keys.Bootstrap()
	if !ok {
		return "", nil
	}
	path, _, err := c.link(ctx, access.Session{Account: principal.Account, Proof: proof})
	return path, err
}

// themeTime is how long a browser keeps the choice of light or dark.
const themeTime = 365 * 24 * time.Hour

// setTheme keeps the choice of light or dark in a cookie of the browser.
func (c *Console) setTheme(p *Page) error {
	form, err := p.formOf(maxTheme)
	if err != nil {
		return err
	}
	switch theme := form.Get("theme"); theme {
	case "light", "dark":
		p.keep(themeCookie, theme, "", themeTime)
	default:
		p.drop(themeCookie)
	}
	return p.Redirect(safeNext(form.Get("next")))
}

// crossOrigin shows a caller from another origin which two origins differ, so that an operator behind a proxy
// sees what to set.
func (c *Console) crossOrigin(p *Page) error {
	origin := cmp.Or(p.Request.Header.Get("Origin"), "not said")
	expected := c.PublicURL
	if expected == "" {
		view := edge.Of(p.Request)
		expected = view.Scheme + "://" + p.Request.Host
	}
	return p.show(http.StatusForbidden, "cross-origin.html", "Refused: it came from another site", struct{ Origin, Expected string }{origin, expected})
}

// live relays the API's stream of changes, for the session's principal. It ends with the session.
func (c *Console) live(p *Page) error {
	request, err := p.API.request(http.MethodGet, "/v1/live", "", content{})
	if err != nil {
		return err
	}
	if c.operation(http.MethodGet, "/v1/live").ID == "" {
		p.Writer.WriteHeader(http.StatusNoContent) // a browser does not reconnect after 204
		return nil
	}
	ctx, cancel := p.whileSignedIn(request.Context())
	defer cancel()
	p.Writer.Header().Set("X-Accel-Buffering", "no")
	c.API.ServeHTTP(p.Writer, request.WithContext(auth.WithSession(ctx, p.Session.ID)))
	return nil
}
