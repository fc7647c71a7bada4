package console

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"waybill.dev/shared/apikey"
	"waybill.dev/shared/body"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/edge"
	"waybill.dev/shared/problem"
	"waybill.dev/shared/requestid"
)

// maxForm bounds a form; the API has its own bounds for the data.
const maxForm = 1 << 20

// Page is one request for a page, with the caller's session.
type Page struct {
	Request   *http.Request
	Writer    http.ResponseWriter
	Session   Session
	API       *API
	RequestID string

	console *Console
	route   Route
	bound   bound
	calls   []Call
	cli     string
	form    url.Values
	lease   *body.Lease // memory for reading posted data
}

func (c *Console) newPage(w http.ResponseWriter, r *http.Request, b bound) *Page {
	p := &Page{Request: r, Writer: w, console: c, route: b.Route, bound: b, RequestID: w.Header().Get(requestid.Header), lease: c.Memory.Lease()}
	p.API = &API{page: p}
	return p
}

// Context returns the context of the request.
func (p *Page) Context() context.Context { return p.Request.Context() }

// Param returns the value of a parameter of the path.
func (p *Page) Param(name string) string { return p.Request.PathValue(name) }

// Query returns a parameter of the query; empty: there is none.
func (p *Page) Query(name string) string { return p.Request.URL.Query().Get(name) }

// Pick returns those of the named parameters that the query has, to be passed to the API.
func (p *Page) Pick(names ...string) url.Values {
	given, picked := p.Request.URL.Query(), url.Values{}
	for _, name := range names {
		if value := strings.TrimSpace(given.Get(name)); value != "" {
			picked.Set(name, value)
		}
	}
	return picked
}

// Form returns the posted form, of at most 1 MiB.
func (p *Page) Form() (url.Values, error) { return p.formOf(maxForm) }

// formOf is Form with a limit in bytes.
func (p *Page) formOf(limit int64) (url.Values, error) {
	if p.form != nil {
		return p.form, nil
	}
	form := url.Values{}
	if media, _, _ := mime.ParseMediaType(p.Request.Header.Get("Content-Type")); media != "application/x-www-form-urlencoded" {
		p.form = form
		return form, nil
	}
	text, err := p.lease.Read(p.Writer, p.Request, limit)
	if err != nil {
		return nil, err
	}
	if form, err = url.ParseQuery(string(text)); err != nil {
		return nil, errForm
	}
	p.form = form
	return form, nil
}

var errForm = problem.New(problem.InvalidInput, "The form can't be read.")

// Account returns the session's account.
func (p *Page) Account() string { return p.Session.Principal.Account }

// May reports whether the session's key has a scope. It serves to leave out an action that the API would
// refuse; it protects nothing.
func (p *Page) May(scope domain.Scope) bool { return p.Session.Principal.May(scope) }

// Bootstrap reports whether the session was opened with the bootstrap key.
func (p *Page) Bootstrap() bool { return p.Session.Principal.Type == apikey.TypeBootstrap }

// CLI sets the command that does the same as the page, without the name of the program: "deliveries list
// --status failed". The drawer "as API" shows it.
func (p *Page) CLI(command string) { p.cli = command }

// Show answers with a page. name is the file name of a template of the module.
func (p *Page) Show(name, title string, data any) error {
	return p.show(http.StatusOK, name, title, data)
}

// ShowInvalid is Show for a form that is shown again with its faults, see Form.Failed. It has the status of the
// API's answer.
func (p *Page) ShowInvalid(name, title string, data any, form *Form) error {
	return p.show(form.Problem.Status, name, title, data)
}

// ShowConfirm asks before an act, on a page that needs no script.
func (p *Page) ShowConfirm(c Confirm) error {
	p.bound.pages = p.console.layouts.own
	return p.show(http.StatusOK, "confirm.html", c.Title, c)
}

// Redirect leads to another page of the console, by GET.
func (p *Page) Redirect(path string) error {
	p.Writer.Header().Set("Location", path)
	p.Writer.WriteHeader(http.StatusSeeOther)
	return nil
}

// Done redirects to another page, which shows a message about the action.
func (p *Page) Done(message, path string) error {
	p.keep(flashCookie, message, p.Session.ID, flashTime)
	return p.Redirect(path)
}

// flashTime is how long the message of Done waits for the next page.
const flashTime = 30 * time.Second

// flash returns the message of the last Done in this session, once.
func (p *Page) flash() string {
	text, ok := p.kept(flashCookie, p.Session.ID)
	if ok {
		p.drop(flashCookie)
	}
	return text
}

// theme returns light, dark, or auto, which follows the system.
func (p *Page) theme() string {
	if theme, ok := p.kept(themeCookie, ""); ok {
		return theme
	}
	return "auto"
}

// secure reports whether the browser came by https.
func (p *Page) secure() bool {
	view := edge.Of(p.Request)
	return view.Scheme == "https" || strings.HasPrefix(view.Base, "https://")
}

// Base returns the beginning of a link to the API, for commands to be copied.
func (p *Page) Base() string {
	view := edge.Of(p.Request)
	if view.Base != "" {
		return view.Base
	}
	return view.Scheme + "://" + view.Host
}

// Now returns the time of the answer.
func (p *Page) Now() time.Time { return time.Now() }

// fail answers with the page for err.
func (p *Page) fail(err error) {
	shown, ok := errors.AsType[*Problem](err)
	if !ok {
		shown = p.own(err)
	}
	if shown.Status == http.StatusUnauthorized && p.Session.ID != "" {
		p.drop("")
		p.toSignIn()
		return
	}
	if shown.RetryAfter != "" {
		p.Writer.Header().Set("Retry-After", shown.RetryAfter)
	}
	title := shown.Title
	name := "problem.html"
	switch shown.Status {
	case http.StatusForbidden:
		title, name = "No right to see this", "forbidden.html"
	case http.StatusNotFound:
		title = "Not found"
	case http.StatusGone:
		title = "No longer kept"
	}
	p.bound.pages = p.console.layouts.own
	if err := p.show(shown.Status, name, title, shown); err != nil {
		p.console.Logger.Error("a page of a problem could not be shown", "error", err, "requestId", p.RequestID)
	}
}

// own makes a problem of an error that is not the API's.
func (p *Page) own(err error) *Problem {
	known, ok := errors.AsType[*problem.Problem](err)
	switch {
	case ok:
	case errors.Is(err, domain.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		known = problem.New(problem.Unavailable, "The store can't be reached now. Try again.")
		p.Writer.Header().Set("Retry-After", "2")
	default:
		p.console.Logger.Error("a page could not be made", "error", err, "route", p.route.Path, "requestId", p.RequestID)
		known = problem.New(problem.Internal, "Something went wrong on our side.")
	}
	return &Problem{Status: known.Status(), Title: http.StatusText(known.Status()), Detail: known.Detail, Code: string(known.Code), RequestID: p.RequestID}
}

// toSignIn redirects to the sign-in, which redirects back.
func (p *Page) toSignIn() {
	target := "/console/sign-in"
	if p.Request.Method == http.MethodGet || p.Request.Method == http.MethodHead {
		if next := p.Request.URL.RequestURI(); next != "/console" {
			target += "?next=" + url.QueryEscape(next)
		}
	}
	p.Writer.Header().Set("Location", target)
	p.Writer.WriteHeader(http.StatusSeeOther)
}

// Has reports whether a module has registered a page and the session may see it, so that there are no dead
// links.
func (p *Page) Has(path string) bool {
	for i := range p.console.nav {
		if e := &p.console.nav[i]; strings.HasPrefix(path+"/", e.Path+"/") && !p.sees(e) {
			return false
		}
	}
	for i := range p.console.routes {
		if r := &p.console.routes[i]; r.Method == http.MethodGet && r.Path == path {
			return true
		}
	}
	return false
}
