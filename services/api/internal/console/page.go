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

// maxForm bounds a form; the API's own bounds hold for what is made of it.
const maxForm = 1 << 20

// Page is one request of a page, and what is known of who asks.
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
	lease   *body.Lease // what is posted is read within
}

func (c *Console) newPage(w http.ResponseWriter, r *http.Request, b bound) *Page {
	p := &Page{Request: r, Writer: w, console: c, route: b.Route, bound: b, RequestID: w.Header().Get(requestid.Header), lease: c.Memory.Lease()}
	p.API = &API{page: p}
	return p
}

// Context is the request's.
func (p *Page) Context() context.Context { return p.Request.Context() }

// Param returns what stands in the path for a parameter.
func (p *Page) Param(name string) string { return p.Request.PathValue(name) }

// Query returns a parameter of the query; empty: it is not there.
func (p *Page) Query(name string) string { return p.Request.URL.Query().Get(name) }

// Pick returns those parameters of the query that are there, to be handed to the API.
func (p *Page) Pick(names ...string) url.Values {
	given, picked := p.Request.URL.Query(), url.Values{}
	for _, name := range names {
		if value := strings.TrimSpace(given.Get(name)); value != "" {
			picked.Set(name, value)
		}
	}
	return picked
}

// Form returns what was posted, of at most 1 MiB.
func (p *Page) Form() (url.Values, error) { return p.formOf(maxForm) }

// formOf is Form for one of at most limit bytes.
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

// Account is the session's account.
func (p *Page) Account() string { return p.Session.Principal.Account }

// May reports whether the session's key has a scope: to leave out an act that the API would
// refuse. It guards nothing.
func (p *Page) May(scope domain.Scope) bool { return p.Session.Principal.May(scope) }

// Bootstrap reports whether it is the bootstrap key that has signed in.
func (p *Page) Bootstrap() bool { return p.Session.Principal.Type == apikey.TypeBootstrap }

// CLI says how the command line does what the page shows, without the name of the program:
// "deliveries list --status failed". It is shown in the drawer "as API".
func (p *Page) CLI(command string) { p.cli = command }

// Show answers with a page: a template of the module, by the name of its file, with its data.
func (p *Page) Show(name, title string, data any) error {
	return p.show(http.StatusOK, name, title, data)
}

// ShowInvalid is Show for a form that comes back with what is wrong with it, see Form.Failed. It
// has the status of the API's answer.
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

// Done leads to another page and has it say what was done.
func (p *Page) Done(message, path string) error {
	p.keep(flashCookie, message, p.Session.ID, flashTime)
	return p.Redirect(path)
}

// flashTime is how long the browser may take to the page that says what was done.
const flashTime = 30 * time.Second

// flash returns what the page before has done in this session, once.
func (p *Page) flash() string {
	text, ok := p.kept(flashCookie, p.Session.ID)
	if ok {
		p.drop(flashCookie)
	}
	return text
}

// theme is light, dark, or auto, which is as the system has it.
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

// Base is what a link to the API begins with, for commands to be copied.
func (p *Page) Base() string {
	view := edge.Of(p.Request)
	if view.Base != "" {
		return view.Base
	}
	return view.Scheme + "://" + view.Host
}

// Now is the time of the answer.
func (p *Page) Now() time.Time { return time.Now() }

// fail answers with the page that err stands for.
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

// toSignIn leads to the sign-in, and from there back.
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

// Has reports whether a module has registered a page that the session may go to, so that no link leads nowhere.
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
