package console

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/look"
)

//go:embed templates/*.html
var templateFiles embed.FS

// templates are the kernel's templates: the frames and elements, which are parsed together with each page of a module, and the
// kernel's own pages.
type templates struct {
	base func() (*template.Template, error)
	own  pages
}

// pages are the templates of pages by their names. Each is parsed when it is first shown: those of all modules take 10 MB, and most
// processes never show one.
type pages map[string]func() (*template.Template, error)

// kernelParts matches the kernel's templates that are not pages.
const kernelParts = "templates/_*.html"

func newTemplates(a *look.Assets) (*templates, error) {
	t := &templates{base: sync.OnceValues(func() (*template.Template, error) {
		base, err := look.Parse(template.New("").Funcs(functions(a)))
		if err != nil {
			return nil, err
		}
		return base.ParseFS(templateFiles, kernelParts)
	})}
	files, err := fs.Sub(templateFiles, "templates")
	if err != nil {
		return nil, fmt.Errorf("read templates: %w", err)
	}
	t.own, err = t.pages(files)
	return t, err
}

// module returns the templates of a module.
func (t *templates) module(m *Module) (pages, error) {
	if m.Templates == nil {
		return t.own, nil
	}
	files, err := fs.Sub(m.Templates, "templates")
	if err != nil {
		return nil, fmt.Errorf("read templates: %w", err)
	}
	return t.pages(files)
}

func (t *templates) pages(files fs.FS) (pages, error) {
	names, err := fs.Glob(files, "*.html")
	if err != nil {
		return nil, fmt.Errorf("list templates: %w", err)
	}
	list := make(pages)
	for _, name := range names {
		if !strings.HasPrefix(name, "_") {
			list[name] = sync.OnceValues(func() (*template.Template, error) {
				set, err := t.read(files, name)
				if err != nil {
					return nil, fmt.Errorf("read template %s: %w", name, err)
				}
				return set, nil
			})
		}
	}
	return list, nil
}

// read parses a page, with the parts in its folder, as the template main of its own set, which also has the kernel's parts.
func (t *templates) read(files fs.FS, name string) (*template.Template, error) {
	base, err := t.base()
	if err != nil {
		return nil, err
	}
	set, err := base.Clone()
	if err != nil {
		return nil, err
	}
	if found, _ := fs.Glob(files, "_*.html"); len(found) > 0 {
		if _, err := set.ParseFS(files, "_*.html"); err != nil {
			return nil, err
		}
	}
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	if _, err := set.New("main").Parse(string(text)); err != nil {
		return nil, err
	}
	return set, nil
}

// get returns the template of a page.
func (p pages) get(name string) (*template.Template, error) {
	read := p[name]
	if read == nil {
		return nil, fmt.Errorf("there is no template %s", name)
	}
	return read()
}

// frame is the data of the layout.
type frame struct {
	Title     string
	Signed    bool
	Live      bool // the session may follow changes
	Nav       []navGroup
	Account   string
	Who       string
	Theme     string
	Here      string // the page's own path and query
	Flash     string
	RequestID string
	Samples   []sample
	Data      any
}

// navGroup is a group of the navigation under its name.
type navGroup struct {
	Name  string
	Lines []navLine
}

type navLine struct {
	NavEntry

	Current bool
}

// sample shows how a program does the same as the page.
type sample struct{ Name, Text string }

// show answers with a page.
func (p *Page) show(status int, name, title string, data any) error {
	set, err := p.bound.pages.get(name)
	if err != nil {
		return fmt.Errorf("show page: %w", err)
	}
	f := frame{
		Title: title, Theme: p.theme(), Here: p.Request.URL.RequestURI(), RequestID: p.RequestID, Data: data, Signed: p.Session.ID != "",
	}
	if f.Signed {
		f.Flash, f.Account, f.Who = p.flash(), p.Account(), p.Session.who()
		f.Nav, f.Samples = p.nav(), p.samples()
		f.Live = p.May(domain.ScopeEventsRead)
	}
	var page bytes.Buffer
	if err := set.ExecuteTemplate(&page, "layout", &f); err != nil {
		return fmt.Errorf("show page: %w", err)
	}
	p.Writer.Header().Set("Content-Type", "text/html; charset=utf-8")
	var zipped []byte
	if look.AcceptsGzip(p.Request) {
		zipped = p.console.zip.Zip(page.Bytes())
	}
	look.Send(p.Writer, p.Request, status, page.Bytes(), zipped)
	return nil
}

// who returns the name of the key, or of the person, that has signed in.
func (s Session) who() string {
	switch {
	case s.Person != "":
		return s.Person
	case s.Principal.Type == apikey.TypeBootstrap:
		return "admin key"
	}
	return s.Principal.ID
}

// Operates reports whether the session is an admin's of the operator's account.
func (p *Page) Operates() bool {
	return p.May(domain.ScopeAdmin) && p.Account() == domain.DefaultAccount
}

// sees reports whether the session may go to an entry of the navigation.
func (p *Page) sees(e *NavEntry) bool {
	return (!e.Operator || p.Operates()) && !slices.ContainsFunc(e.Scopes, func(s domain.Scope) bool { return !p.May(s) })
}

// nav returns the groups of the navigation, without entries that the session may not see. The current entry is the one with the
// longest path above the page.
func (p *Page) nav() []navGroup {
	current := -1
	for i, entry := range p.console.nav {
		path := p.Request.URL.Path
		if path != entry.Path && (entry.Path == "/console" || !strings.HasPrefix(path, entry.Path+"/")) {
			continue
		}
		if current < 0 || len(entry.Path) > len(p.console.nav[current].Path) {
			current = i
		}
	}
	var groups []navGroup
	for i, entry := range p.console.nav {
		if !p.sees(&entry) {
			continue
		}
		name := groupNames()[entry.Order/groupOf]
		if len(groups) == 0 || groups[len(groups)-1].Name != name {
			groups = append(groups, navGroup{Name: name})
		}
		last := &groups[len(groups)-1]
		last.Lines = append(last.Lines, navLine{entry, i == current})
	}
	return groups
}

// samples shows how curl, the command line and an MCP client do the same as the page. If an operation is called for each row, only
// its first call is shown.
func (p *Page) samples() []sample {
	var list []sample
	shown := map[string]bool{}
	for _, call := range p.calls {
		if call.Operation.ID == "" || shown[call.Operation.ID] {
			continue
		}
		shown[call.Operation.ID] = true
		if len(list) == 0 {
			list = append(list, sample{"cURL", p.curl(call)})
			if p.cli != "" {
				list = append(list, sample{"CLI", "waybill " + p.cli})
			}
			if text := mcpCall(call); text != "" {
				list = append(list, sample{"MCP", text})
			}
			continue
		}
		list = append(list, sample{"also", p.curl(call)})
	}
	return list
}

func (p *Page) curl(call Call) string {
	target := p.Base() + call.Path
	if call.Query != "" {
		target += "?" + call.Query
	}
	text := `curl -H "Authorization: Bearer $WAYBILL_KEY" `
	if call.Method != http.MethodGet {
		text += "-X " + call.Method + " "
	}
	return text + quoted(target)
}

// Shell quotes text for a shell, where that is needed.
func Shell(text string) string {
	if text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=@") == "" {
		return text
	}
	return quoted(text)
}

// quoted quotes text for a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// mcpCall returns a call as the message of an MCP client; empty: no tool makes the call, or it has a body, which may contain
// secrets.
func mcpCall(call Call) string {
	if call.Operation.Tool == "" || len(call.Body) > 0 {
		return ""
	}
	arguments := map[string]any{}
	names, path := strings.Split(call.Operation.Path, "/"), strings.Split(call.Path, "/")
	for i, segment := range names {
		if name, ok := strings.CutPrefix(segment, "{"); ok && i < len(path) {
			value, err := url.PathUnescape(path[i])
			if err != nil {
				return ""
			}
			arguments[strings.TrimSuffix(name, "}")] = value
		}
	}
	query, err := url.ParseQuery(call.Query)
	if err != nil {
		return ""
	}
	for name := range query {
		arguments[name] = plainValue(query.Get(name))
	}
	message := struct {
		Method string `json:"method"`
		Params any    `json:"params"`
	}{"tools/call", struct {
		Name      string         `json:"name"`
		Arguments map[string]any `json:"arguments"`
	}{call.Operation.Tool, arguments}}
	text, err := json.Marshal(message, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return ""
	}
	return string(text)
}

// plainValue returns a value of a query for JSON: as a number or true or false if it is one.
func plainValue(text string) any {
	if n, err := strconv.Atoi(text); err == nil && strconv.Itoa(n) == text {
		return n
	}
	if text == "true" || text == "false" {
		return text == "true"
	}
	return text
}

// Execute executes a template of a module with data, without the frame around it. For tests.
func Execute(m Module, name string, data any) (string, error) {
	a, err := newAssets()
	if err != nil {
		return "", err
	}
	t, err := newTemplates(a)
	if err != nil {
		return "", err
	}
	pages, err := t.module(&m)
	if err != nil {
		return "", err
	}
	set, err := pages.get(name)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	err = set.ExecuteTemplate(&text, "main", data)
	return text.String(), err
}
