package docsite

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/spec"
	"waybill.dev/shared/problem"
)

// explained is the explanation of a kind of problem, for people and for programs.
type explained struct {
	page Page
	data spec.Document
}

// problemPage is the data of the page of a kind.
type problemPage struct {
	problem.Explanation

	Body string // body of the example
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

// addProblems adds the pages about problems: a page for each kind, and the list.
func (c *content) addProblems() error {
	var all []problem.Explanation
	for _, code := range problem.Codes() {
		e, _ := problem.Explain(string(code))
		one, err := c.explain(e)
		if err != nil {
			return fmt.Errorf("write page of %s: %w", code, err)
		}
		c.problems[e.Slug] = one
		all = append(all, e)
		c.index.add(entry{
			Path: "/problems/" + e.Slug, Page: "Problem types", Title: e.Title + " (" + string(e.Code) + ")",
			text: e.Meaning + " " + strings.Join(e.Advice, " "),
		})
	}
	return c.add("problems.html", frame{Name: "problems", Title: "Problem types", Data: all})
}

func (c *content) explain(e problem.Explanation) (one explained, err error) {
	example := jsontext.Value(e.Example.JSON(e.At, exampleID))
	data, err := json.Marshal(problemData{problem.TypeBase + e.Slug, e.Title, e.Status, e.Code, e.Meaning, e.Advice, example})
	if err != nil {
		return one, err
	}
	one.data = spec.NewDocument(append(data, '\n'), contentJSON)
	if err := example.Indent(jsontext.WithIndent("  ")); err != nil {
		return one, err
	}
	one.page, err = c.render("problem.html", frame{Name: "problems", Title: e.Title, Data: problemPage{e, string(example)}})
	return one, err
}
