package console

import (
	"context"
	"crypto/rand"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/body"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/edge"
	"waybill.dev/shared/look"
	"waybill.dev/shared/problem"
	"waybill.dev/shared/requestid"
	"waybill.dev/shared/seal"
)

// Sessions keeps sessions; see package access.
type Sessions interface {
	OpenSession(ctx context.Context, s access.Session, lasts time.Duration, replaced access.Replaced) (access.Session, error)
	FindSession(ctx context.Context, hash []byte) (access.Session, domain.KeyHolder, error)
	SeeSession(ctx context.Context, id string) error
	EndSession(ctx context.Context, hash []byte) error
	EndOtherSessions(ctx context.Context, s access.Session) error
	ListSessions(ctx context.Context, s access.Session) ([]access.Session, error)
}

// Managers stores the managers of consumers; see package access.
type Managers interface {
	ManagedAccounts(ctx context.Context, who access.Person, f access.ManagedFilter) ([]access.ManagedAccount, error)
	ManagedConsumers(ctx context.Context, who access.Person, account string, f access.ManagedFilter) ([]access.Managed, error)
	FindManaged(ctx context.Context, who access.Person, managerID string) (access.Managed, error)
	AcceptInvitation(ctx context.Context, who access.Person, managerID string) error
	DeclineInvitation(ctx context.Context, who access.Person, managerID string) error
}

// Keys finds out to whom a key belongs; see package auth.
type Keys interface {
	Authenticate(ctx context.Context, key string) (apikey.Principal, error)
	Bootstrap() (p apikey.Principal, proof string, ok bool)
	Holds(proof string) bool
}

// Operation is an operation of the API. The console uses it to describe the calls of a page.
type Operation struct {
	ID, Method, Path string
	Scope            domain.Scope
	Tool, Toolset    string // of the MCP server; empty: no tool calls the operation
}

// Options of the console. All but PublicURL, OIDC and Memory are required. The keys for the cookies are derived
// from Keyring.
type Options struct {
	API        http.Handler // handler of /v1, called in process
	Operations []Operation
	Sessions   Sessions
	Managers   Managers
	Keys       Keys
	Keyring    *seal.Keyring
	Edge       *edge.Edge
	PublicURL  string
	OIDC       OIDC
	Memory     *body.Memory // for posted forms; nil: there is no bound
	Modules    []Module
	Logger     *slog.Logger
	// Observe is called for every answered page, with the calls that it made; may be nil.
	Observe func(route Route, calls []Call)
}

// Console is the handler of /console.
type Console struct {
	Options

	routes   []bound
	nav      []NavEntry
	layouts  *templates
	assets   *look.Assets
	oidc     *provider // nil: there is no sign-in by OIDC
	guard    *http.CrossOriginProtection
	zip      look.Zipper
	handler  http.Handler
	sessions *memory
	seal     *seal.Keyring // seals cookies
}

// bound is a route with the templates of its module.
type bound struct {
	Route
	pages pages
}

//go:embed assets/*.js
var assetFiles embed.FS

const assetsPath = "/console/assets/"

func newAssets() (*look.Assets, error) {
	files, err := fs.Sub(assetFiles, "assets")
	if err != nil {
		return nil, fmt.Errorf("read assets: %w", err)
	}
	return look.NewAssets(assetsPath, files)
}

// New returns the console with the pages of every module.
func New(o Options) (*Console, error) {
	assets, err := newAssets()
	if err != nil {
		return nil, fmt.Errorf("make console: %w", err)
	}
	c := &Console{Options: o, assets: assets, guard: http.NewCrossOriginProtection(), sessions: newMemory(), seal: o.Keyring.For(cookiePurpose)}
	if o.PublicURL != "" {
		u, err := url.Parse(o.PublicURL)
		if err != nil {
			return nil, fmt.Errorf("make console: read public URL: %w", err)
		}
		if err := c.guard.AddTrustedOrigin(u.Scheme + "://" + u.Host); err != nil {
			return nil, fmt.Errorf("make console: %w", err)
		}
	}
	c.guard.SetDenyHandler(c.shell(Route{Path: "/console"}, c.crossOrigin))
	if c.layouts, err = newTemplates(assets); err != nil {
		return nil, fmt.Errorf("make console: %w", err)
	}
	if c.oidc, err = newProvider(o.OIDC); err != nil {
		return nil, fmt.Errorf("make console: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+assetsPath+"{name}", func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		c.assets.ServeHTTP(w, r)
	})
	c.own(mux)
	for i := range o.Modules {
		if err := c.add(mux, &o.Modules[i]); err != nil {
			return nil, fmt.Errorf("make console: %s: %w", o.Modules[i].Name, err)
		}
	}
	sortNav(c.nav)
	c.handler = c.guard.Handler(mux)
	return c, nil
}

// add registers the pages of a module.
func (c *Console) add(mux *http.ServeMux, m *Module) error {
	pages, err := c.layouts.module(m)
	if err != nil {
		return err
	}
	for _, r := range m.Routes {
		if r.Path != "/console" && !strings.HasPrefix(r.Path, "/console/") {
			return fmt.Errorf("route %s is not below /console", r.Path)
		}
		b := bound{r, pages}
		c.routes = append(c.routes, b)
		mux.Handle(r.Method+" "+r.Path, c.page(b))
	}
	c.nav = append(c.nav, m.Nav...)
	return nil
}

// Routes returns the routes that the modules have registered.
func (c *Console) Routes() []Route {
	list := make([]Route, len(c.routes))
	for i, b := range c.routes {
		list[i] = b.Route
	}
	return list
}

// Paths returns the templates of the paths that the console answers, and / which redirects to the console.
func Paths() []string {
	return []string{"/", "/console", "/console/{page}", "/console/{page}/{id}", "/console/{page}/{id}/{act}", "/console/{page}/{id}/{part}/{name}"}
}

// ServeHTTP answers below /console.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if e := c.Edge; e != nil && !edge.Known(r.Context()) {
		r = r.WithContext(edge.With(r.Context(), e.See(r)))
	}
	w.Header().Set(requestid.Header, requestid.Of(r.Header))
	if strings.HasSuffix(r.URL.Path, "/") && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		// No page has a slash at its end. A link with one is redirected to the page.
		secure(w.Header())
		http.Redirect(w, r, (&url.URL{Path: strings.TrimRight(r.URL.Path, "/"), RawQuery: r.URL.RawQuery}).String(), http.StatusPermanentRedirect)
		return
	}
	c.handler.ServeHTTP(w, r)
}

// policy is the Content-Security-Policy of every page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// secure sets the headers that every page has.
func secure(header http.Header) {
	header.Set("Content-Security-Policy", policy)
	header.Set("Referrer-Policy", "same-origin") // no-referrer would make forms send Origin: null
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	header.Set("Vary", "Cookie, Accept-Encoding")
}

// Time limits of the kernel's own pages, equal to those of the API, and longer if the identity provider is
// involved.
const (
	ownTime    = 1800 * time.Millisecond
	lookUpTime = 1500 * time.Millisecond
)

// shell serves a page without a session, for pages that are open to all.
func (c *Console) shell(route Route, handle func(*Page) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limit := ownTime
		if strings.HasPrefix(route.Path, oidcPath) {
			limit = askTime + ownTime
		}
		ctx, cancel := context.WithTimeout(r.Context(), limit)
		defer cancel()
		r = r.WithContext(ctx)
		p := c.newPage(w, r, bound{Route: route, pages: c.layouts.own})
		p.run(handle)
	})
}

// page serves a page to people who are signed in, and redirects others to the sign-in.
func (c *Console) page(b bound) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := c.newPage(w, r, b)
		p.run(func(p *Page) error {
			if err := c.admit(p); err != nil {
				return err
			}
			return b.Handle(p)
		})
		if c.Observe != nil {
			c.Observe(b.Route, p.calls)
		}
	})
}

// run calls handle, and answers for it when it fails.
func (p *Page) run(handle func(*Page) error) {
	secure(p.Writer.Header())
	defer p.lease.Release()
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		if err, ok := value.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(value)
		}
		// The value may hold a secret.
		p.console.Logger.Error("panic while serving a page", "panic", fmt.Sprintf("%T", value), "route", p.route.Path,
			"requestId", p.RequestID, "stack", string(debug.Stack()))
		p.fail(problem.New(problem.Internal, "Something went wrong on our side."))
	}()
	if err := handle(p); err != nil && !errors.Is(err, errAnswered) {
		p.fail(err)
	}
}

// random returns 32 random bytes for a cookie or a code, in hex.
func random() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // can't fail
	return hex.EncodeToString(b)
}
