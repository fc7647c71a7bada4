package selfapi

import (
	"context"
	"net/http"
	"strings"

	"waybill.dev/docs"
	"waybill.dev/services/api/internal/docsite"
	"waybill.dev/shared/input"
	"waybill.dev/shared/problem"
)

// The exports of the documentation. The one of a page is ExportPage with the page's name.
const (
	ExportSearch = "searchDocs"
	ExportRead   = "readDoc"
	ExportPage   = "doc-"
)

// Bounds of a search.
const (
	longestSearch = 200 // bytes
	mostPassages  = 30
	fewPassages   = 10 // without a limit
)

// addDocs adds the functions that search and read the documentation, and one for each of its pages.
func addDocs(functions map[string]Function) {
	books := library{docsite.NewLibrary()}
	functions[ExportSearch], functions[ExportRead] = open(books.search), open(books.read)
	for _, name := range docs.Names() {
		functions[ExportPage+name] = open(func(context.Context, *Request) (*Response, error) { return books.page(name) })
	}
}

// library has the documentation for AI clients. It is open to all: what is said there is no secret.
type library struct{ *docsite.Library }

// passage is what a search finds, as it is answered.
type passage struct {
	Path    string `json:"path"`
	Page    string `json:"page"`
	Section string `json:"section"`
	Excerpt string `json:"excerpt"`
}

// search answers with the sections that have all the words.
func (l library) search(_ context.Context, r *Request) (*Response, error) {
	q := input.ParseQuery(r.Query.Encode())
	words, _ := q.Text("query")
	limit := q.Integer("limit", 1, mostPassages, fewPassages)
	if strings.TrimSpace(words) == "" || len(words) > longestSearch {
		q.Fault("query", "must have a word and at most 200 bytes")
	}
	if err := q.Err(); err != nil {
		return nil, err
	}
	found, err := l.Find(words, limit)
	if err != nil {
		return nil, err
	}
	out := struct {
		Results []passage `json:"results"`
	}{make([]passage, 0, len(found))}
	for _, f := range found {
		out.Results = append(out.Results, passage(f))
	}
	return answer(out)
}

// read answers with the page or the section that the query names.
func (l library) read(_ context.Context, r *Request) (*Response, error) {
	q := input.ParseQuery(r.Query.Encode())
	path, _ := q.Text("path")
	if err := q.Err(); err != nil {
		return nil, err
	}
	return l.page(path)
}

// page answers with Markdown. It takes a path as it stands in an address or in a link, too.
func (l library) page(path string) (*Response, error) {
	path = strings.TrimPrefix(strings.TrimPrefix(path, "docs://"), "/docs/")
	name, part, section := strings.Cut(path, "#")
	if path = strings.TrimSuffix(name, ".md"); section {
		path += "#" + part
	}
	text, ok, err := l.Read(path)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, problem.New(problem.NotFound, "There is no such page or section of the documentation. search_docs finds them.")
	}
	header := http.Header{"Content-Type": {"text/markdown; charset=utf-8"}}
	return &Response{Status: http.StatusOK, Header: header, Body: []byte(text)}, nil
}
