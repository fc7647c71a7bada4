package verb

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

const variablesPath = projectsPath + "/{projectName}/branches/{branchName}/variables"

func variables() Noun {
	view := View{None: "The branch has no variables of its own.", Columns: append([]Column{
		{Title: "NAME", Member: "name"}, {Title: "VALUE", Member: "value", Shrinks: true}, {Title: "SECRET", Member: "isSecret", Form: YesNo},
		{Title: "BRANCH", Member: "branch", Wide: true},
	}, made()...)}
	branch := []Arg{projectArg("PROJECT"), {Word: "BRANCH", To: "branchName"}}
	one := slices.Concat(branch, []Arg{{Word: "NAME", To: "variableName", List: variablesPath, ID: "name"}})
	values := []Flag{
		{Name: "value", Usage: "the value; other users of this machine may see it", In: InVerb},
		{Name: "value-file", Usage: "`file` with the value; -: standard input", In: InVerb},
	}
	return Noun{
		Name: "variables", Short: "List, make, change and delete the variables of branches",
		Long: "Route files name a variable as $env(NAME). What changes holds from the branch's\nnext build on: deploy it again. The branch ~preview has what all previews take\n" +
			"that have no variable of that name.",
		Verbs: []Verb{
			{
				Name: "list", Short: "List the variables of a branch", Example: "  waybill variables list parcels main\n  waybill variables list parcels \"~preview\"",
				Long:   "Lists the branch's own variables. Secret ones come without their values.",
				Method: http.MethodGet, Path: variablesPath, Args: branch, Flags: paging(), Show: view,
			},
			{
				Name: "create", Short: "Make a variable of a branch",
				Long:    "Makes a variable. A name has 1 to 64 characters of A-Z 0-9 _ and does not begin\nwith WAYBILL_. A value has at most 5,120 bytes. The project must exist, the\nbranch need not.",
				Example: "  waybill variables create parcels main CARRIER_URL --value https://example.com\n  waybill variables create parcels main TOKEN --secret --value-file token",
				Method:  http.MethodPost, Path: variablesPath, Args: append(branch[:2:2], newName("NAME")), Body: AnObject,
				Flags:  append(values[:2:2], Flag{Name: "secret", Usage: "never show the value again", Kind: Bool, In: InVerb}),
				Adjust: newVariable, Show: view,
			},
			{
				Name: "update", Short: "Change the value of a variable", Example: "  waybill variables update parcels main TOKEN --value-file token",
				Method: http.MethodPatch, Path: variablesPath + "/{variableName}", Args: one, Body: AnObject, Flags: values,
				Adjust: func(r *Request, in *Input) error { return withValue(r, in, map[string]any{}) }, Show: view,
			},
			{
				Name: "delete", Short: "Delete a variable", Example: "  waybill variables delete parcels main TOKEN",
				Method: http.MethodDelete, Path: variablesPath + "/{variableName}", Args: one,
				Done:    "Variable {variableName} of {branchName} is deleted. It is gone from the next build on.",
				Confirm: "Delete variable {variableName} of {branchName}?",
			},
		},
	}
}

func newVariable(r *Request, in *Input) error {
	return withValue(r, in, map[string]any{"name": in.Args[2], "isSecret": in.Text("secret") == "true"})
}

// withValue puts the value from a flag or a file into the body. The file is sent unchanged, except
// that one line end at its end is removed.
func withValue(r *Request, in *Input, body map[string]any) error {
	value, given := in.Given("value")
	file, fromFile := in.Given("value-file")
	if given == fromFile {
		return misusef("give either --value or --value-file")
	}
	if fromFile {
		text, err := in.Read(file)
		if err != nil {
			return err
		}
		value = strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	}
	body["value"] = value
	var err error
	if r.Body, err = json.Marshal(body); err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	return nil
}
