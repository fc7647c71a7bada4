package selfapi

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"waybill.dev/docs"
	"waybill.dev/services/api/internal/docsite"
	"waybill.dev/shared/problem"
)

// GuidesModule is the name by which route files import the guides. Its functions need no key: they read the folder
// docs, and have no data of any account.
const GuidesModule = "docs"

// The exports of the module. Each guide is an export too, under the name of its file.
const (
	ExportSearchDocs = "searchDocs"
	ExportReadDoc    = "readDoc"
)

// Bounds of a search, and of a read, in characters, results and bytes.
const (
	maxQuestion = 200
	maxPath     = 200
	fewHits     = 8
	maxHits     = 20
	maxReading  = 32 << 10
)

// Guides returns the functions of the module by their export.
func Guides() (map[string]Function, error) {
	library := docsite.NewLibrary()
	files, err := fs.Glob(docs.Files(), "*.md")
	if err != nil {
		return nil, fmt.Errorf("list guides: %w", err)
	}
	functions := map[string]Function{
		ExportSearchDocs: open(func(_ context.Context, r *Request) (*Response, error) { return searchDocs(library, r) }),
		ExportReadDoc:    open(func(_ context.Context, r *Request) (*Response, error) { return readDoc(library, r) }),
	}
	for _, file := range files {
		functions[file] = open(func(context.Context, *Request) (*Response, error) { return page(library, file, 0) })
	}
	return functions, nil
}

// hit is a result of a search.
type hit struct {
	Path    string `json:"path"`
	Page    string `json:"page"`
	Section string `json:"section"`
	Excerpt string `json:"excerpt"`
}

// searchDocs answers with the sections that match the query best.
func searchDocs(library *docsite.Library, r *Request) (*Response, error) {
	asked, _ := url.ParseQuery(r.Query) // unreadable parts count as missing
	query, limit := asked.Get("query"), fewHits
	var faults []problem.Fault
	if strings.TrimSpace(query) == "" || utf8.RuneCountInString(query) > maxQuestion || !utf8.ValidString(query) {
		faults = append(faults, problem.Fault{Parameter: "query", Detail: "must have 1 to " + strconv.Itoa(maxQuestion) + " characters"})
	}
	if given := asked.Get("limit"); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil || n < 1 || n > maxHits {
			faults = append(faults, problem.Fault{Parameter: "limit", Detail: "must be a number from 1 to " + strconv.Itoa(maxHits)})
		}
		limit = n
	}
	if len(faults) > 0 {
		return nil, problem.Invalid(faults...)
	}
	found, err := library.Search(query, limit)
	if err != nil {
		return nil, err
	}
	answered := struct {
		Results []hit `json:"results"`
	}{[]hit{}}
	for _, h := range found {
		answered.Results = append(answered.Results, hit{Path: h.Path, Page: h.Title, Section: h.Section, Excerpt: h.Excerpt})
	}
	return answer(answered)
}

// readDoc answers with a guide or a section of one.
func readDoc(library *docsite.Library, r *Request) (*Response, error) {
	asked, _ := url.ParseQuery(r.Query) // unreadable parts count as missing
	path := asked.Get("path")
	if path == "" || len(path) > maxPath {
		return nil, problem.Invalid(problem.Fault{Parameter: "path", Detail: "must have 1 to " + strconv.Itoa(maxPath) + " bytes"})
	}
	return page(library, path, maxReading)
}

// page answers with at most size bytes of Markdown. If it has to cut the text, it lists the sections that are left
// out.
func page(library *docsite.Library, path string, size int) (*Response, error) {
	read, ok, err := library.Read(path, size)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, problem.New(problem.NotFound, "There is no such page or section. search_docs finds those that there are.")
	}
	body := []byte(read.Markdown)
	if len(read.Rest) > 0 {
		body = append(body, "\n---\nThe rest is left out, because it is too long. It is in these sections, which read_doc reads:\n\n"...)
		for _, path := range read.Rest {
			body = append(append(append(body, "- "...), path...), '\n')
		}
	}
	header := http.Header{"Content-Type": {"text/markdown; charset=utf-8"}}
	return &Response{Status: http.StatusOK, Header: header, Body: body}, nil
}
