package routefile

import (
	"errors"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/jsontree"
)

var (
	variable     = regexp.MustCompile(`\$env\(([^)]*\)?)`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// handler reads the handler definition of an operation or of a policy.
func (p faultPlace) handler(n *jsontree.Node) HandlerDef {
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
	p.noteFaults(n, form.Err())
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

// environment returns options with the environment's values in place of `$env(NAME)` in texts. A
// variable that is not set, or is not for route files, is a fault: one for each text and variable.
// Values are never shown: most of them are keys.
func (p faultPlace) environment(options *jsontree.Node) jsontext.Value {
	var b strings.Builder
	at := 0
	for n := range texts(options) {
		text, _ := n.Text()
		if !strings.Contains(text, "$env(") {
			continue
		}
		told := make(map[string]bool)
		text = variable.ReplaceAllStringFunc(text, func(match string) string {
			value, fault := p.variable(match[len("$env("):])
			if fault != "" && !told[fault] {
				told[fault] = true
				p.fault(n.Pointer(), "%s", fault)
			}
			return value
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

// variable returns the value of a variable, or a fault; named is its name and a parenthesis.
func (p faultPlace) variable(named string) (value, fault string) {
	name, closed := strings.CutSuffix(named, ")")
	if !closed || !variableName.MatchString(name) {
		return "", "$env(…) needs the name of a variable"
	}
	value, err := Variable(p.loader.getenv, name)
	switch {
	case errors.Is(err, ErrUnset):
		return "", "the environment has no " + name
	case err != nil:
		return "", "$env(…) " + err.Error()
	}
	return value, ""
}

// Faults of a variable. Their texts continue a sentence that begins with the place that names the
// variable.
var (
	ErrUnset = errors.New("names a variable of the environment that is not set")
	ErrOwn   = errors.New("names a variable that begins with WAYBILL_: those are Waybill's own, and routes can't use them")
)

// ownPrefix begins the names of the process's own variables, the encryption key among them.
const ownPrefix = "WAYBILL_"

// Waybill's own variables that the route files of a deployment may name. Their values are not
// secret.
const (
	VariableAccount     = ownPrefix + "ACCOUNT"
	VariableProject     = ownPrefix + "PROJECT"
	VariableBranch      = ownPrefix + "BRANCH"
	VariableEnvironment = ownPrefix + "ENVIRONMENT_TYPE"
	VariableDeployment  = ownPrefix + "DEPLOYMENT"
	VariableBuild       = ownPrefix + "BUILD_ID"
)

// VariableVersion is the version of the process. Of Waybill's own variables, only this one may stand in the server's own route files.
const VariableVersion = ownPrefix + "VERSION"

// IsOwn reports whether a variable is one of Waybill's own, in any spelling: on some systems the
// case of a name does not matter.
func IsOwn(name string) bool {
	return len(name) >= len(ownPrefix) && strings.EqualFold(name[:len(ownPrefix)], ownPrefix)
}

// Variable returns the value of a variable of the environment. Route files have no other access to
// the environment. They can't read Waybill's own variables, except the six that describe the
// deployment, and the version. getenv may be nil.
func Variable(getenv func(string) (string, bool), name string) (string, error) {
	switch name {
	case VariableAccount, VariableProject, VariableBranch, VariableEnvironment, VariableDeployment, VariableBuild, VariableVersion:
	default:
		if IsOwn(name) {
			return "", ErrOwn
		}
	}
	if getenv != nil {
		if value, ok := getenv(name); ok {
			return value, nil
		}
	}
	if IsOwn(name) {
		return "", ErrOwn
	}
	return "", ErrUnset
}

// texts returns the strings below a value, in their order, without the names of members.
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
