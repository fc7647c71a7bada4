package routefile

import (
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/jsontree"
)

var (
	variable     = regexp.MustCompile(`\$env\(([^)]*\)?)`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// handler reads what says who answers: of an operation or of a policy.
func (p place) handler(n *jsontree.Node) HandlerDef {
	def := HandlerDef{Options: jsontext.Value("{}")}
	form := p.form(n)
	if form == nil {
		return def
	}
	form.Require("module", "export")
	if module, ok := form.Text("module", 1, 256); ok {
		if def.Module, ok = moduleName(module); !ok {
			form.Fault("must be $import(@gateway/runtime) or $import(./modules/NAME)", "module")
		}
	}
	def.Export, _ = form.Text("export", 1, 128)
	if _, ok := form.Object("options"); ok {
		def.Options = p.environment(n.Member("options"))
	}
	p.note(n, form.Err())
	return def
}

// moduleName returns Runtime, or the name of a module that the program brings.
func moduleName(module string) (name string, ok bool) {
	inner, ok := strings.CutPrefix(module, "$import(")
	if !ok {
		return "", false
	}
	if inner, ok = strings.CutSuffix(inner, ")"); !ok {
		return "", false
	}
	if inner == Runtime {
		return inner, true
	}
	name, ok = strings.CutPrefix(inner, "./modules/")
	return name, ok && name != "" && !strings.ContainsAny(name, "/\\@ ()")
}

// environment writes options with the environment's values in place of `$env(NAME)` in
// texts. A variable that is not set is a fault. What a value says is never told: most of
// them are keys.
func (p place) environment(options *jsontree.Node) jsontext.Value {
	var b strings.Builder
	at := 0
	for n := range texts(options) {
		text, _ := n.Text()
		if !strings.Contains(text, "$env(") {
			continue
		}
		text = variable.ReplaceAllStringFunc(text, func(match string) string {
			return p.variable(n, match[len("$env("):])
		})
		quoted, err := jsontext.AppendQuote(nil, text)
		if err != nil {
			p.fault(n.Pointer(), "the variable that is named here is no valid text")
			continue
		}
		b.Write(options.Raw[at : n.Start-options.Start])
		b.Write(quoted)
		at = n.Start - options.Start + len(n.Raw)
	}
	b.Write(options.Raw[at:])
	return jsontext.Value(b.String())
}

// variable returns the value of one; named is its name and a parenthesis.
func (p place) variable(n *jsontree.Node, named string) string {
	name, closed := strings.CutSuffix(named, ")")
	if !closed || !variableName.MatchString(name) {
		p.fault(n.Pointer(), "$env(…) needs the name of a variable")
		return ""
	}
	value, ok := p.loader.getenv(name)
	if !ok {
		p.fault(n.Pointer(), "the environment has no %s", name)
	}
	return value
}

// texts returns the strings below a value, in their order; names of members are none.
func texts(n *jsontree.Node) func(yield func(*jsontree.Node) bool) {
	return func(yield func(*jsontree.Node) bool) { visitTexts(n, yield) }
}

func visitTexts(n *jsontree.Node, yield func(*jsontree.Node) bool) bool {
	if n.Kind() == '"' {
		return yield(n)
	}
	for _, member := range n.Members() {
		if !visitTexts(member, yield) {
			return false
		}
	}
	for _, element := range n.Elements() {
		if !visitTexts(element, yield) {
			return false
		}
	}
	return true
}
