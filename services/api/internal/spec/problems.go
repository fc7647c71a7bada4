package spec

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/shared/problem"
)

//go:embed templates
var templates embed.FS

// explained is what is said of a kind of problem, for people and for programs.
type explained struct{ page, data Document }

// problemPage is what the page of a kind shows.
type problemPage struct {
	problem.Explanation

	Body string // of the example
}

// problemData is the same for programs.
type problemData struct {
	Type    string         `json:"type"`
	Title   string         `json:"title"`
	Status  int            `json:"status"`
	Code    problem.Code   `json:"code"`
	Meaning string         `json:"meaning"`
	Advice  []string       `json:"advice"`
	Sample  jsontext.Value `json:"sample"`
}

// exampleID is the request that the examples answer.
const exampleID = "7d0c3f5e-52f1-4d8a-9b1e-0f6a2c4e8b90"

// explain writes what there is to read about problems: each kind by the end of its type, and
// the page that lists them.
func explain() (kinds map[string]explained, list Document, err error) {
	layouts, err := template.ParseFS(templates, "templates/*.html")
	if err != nil {
		return nil, list, fmt.Errorf("read pages of problems: %w", err)
	}
	kinds = make(map[string]explained)
	var all []problem.Explanation
	for _, code := range problem.Codes() {
		e, _ := problem.Explain(string(code))
		one, err := explainOne(layouts, e)
		if err != nil {
			return nil, list, fmt.Errorf("write page of %s: %w", code, err)
		}
		kinds[e.Slug] = one
		all = append(all, e)
	}
	var page bytes.Buffer
	if err := layouts.ExecuteTemplate(&page, "problems.html", all); err != nil {
		return nil, list, fmt.Errorf("write page of problems: %w", err)
	}
	return kinds, document(page.Bytes(), contentHTML), nil
}

func explainOne(layouts *template.Template, e problem.Explanation) (explained, error) {
	example := jsontext.Value(e.Example.JSON(e.At, exampleID))
	data, err := json.Marshal(problemData{problem.TypeBase + e.Slug, e.Title, e.Status, e.Code, e.Meaning, e.Advice, example})
	if err != nil {
		return explained{}, err
	}
	if err := example.Indent(jsontext.WithIndent("  ")); err != nil {
		return explained{}, err
	}
	var page bytes.Buffer
	if err := layouts.ExecuteTemplate(&page, "problem.html", problemPage{e, string(example)}); err != nil {
		return explained{}, err
	}
	return explained{document(page.Bytes(), contentHTML), document(append(data, '\n'), contentJSON)}, nil
}

// Problem explains a kind of problem by its code or the end of its type: as a page, and as
// JSON. ok is false when there is no such kind.
func (d *Documents) Problem(name string) (page, data Document, ok bool) {
	e, ok := problem.Explain(name)
	if !ok {
		return page, data, false
	}
	one := d.problems[e.Slug]
	return one.page, one.data, true
}
