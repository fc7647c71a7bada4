package routefile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"waybill.dev/services/gateway/internal/jsonschema"
	"waybill.dev/services/gateway/internal/jsontree"
	"waybill.dev/shared/input"
)

// Suffix is the end of a route file's name.
const Suffix = ".oas.json"

// PolicyFile is the name of the file with policies.
const PolicyFile = "policies.json"

// maxFile bounds a file. No person writes longer route files.
const maxFile = 4 << 20

// Load reads `*.oas.json` and `policies.json` of a folder, within a budget: it stops when the budget is spent or ended.
// getenv returns the values that `$env(NAME)` stands for. If there are faults, the Set has everything that could be
// read, so that callers can look for further faults; it must not be served.
func Load(budget *jsonschema.Budget, dir fs.FS, getenv func(string) (string, bool)) (*Set, Faults) {
	l := loader{budget: budget, dir: dir, getenv: getenv, set: &Set{}}
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		return l.set, Faults{{Message: "the folder can't be read: " + cause(err)}}
	}
	for _, entry := range entries { // in the order of their names
		switch name := entry.Name(); {
		case l.budget.Err() != nil:
		case entry.IsDir():
		case name == PolicyFile:
			l.policies()
		case strings.HasSuffix(name, Suffix):
			l.file(name)
		}
	}
	l.checkSet()
	return l.set, l.faults
}

// loader gathers a Set and its faults.
type loader struct {
	budget *jsonschema.Budget
	dir    fs.FS
	getenv func(string) (string, bool)
	set    *Set
	faults Faults

	operations []*routedOperation // of all files
}

// routedOperation is an operation with its position in a file.
type routedOperation struct {
	*Operation
	faultPlace

	pointer  string
	route    *jsontree.Node // x-gateway-route
	template pathTemplate
	others   []string // other methods on its path
}

// faultPlace is the place of a fault: a file and, when known, an operation of it.
type faultPlace struct {
	loader          *loader
	file, operation string
}

func (p faultPlace) fault(pointer, format string, args ...any) {
	p.loader.faults = append(p.loader.faults, Fault{p.file, p.operation, pointer, fmt.Sprintf(format, args...)})
}

// refuse adds the fault for which an operation is not served. The fault names the member that leaves the operation out.
func (s *routedOperation) refuse(pointer, format string, args ...any) {
	s.fault(pointer, "%s; without "+routeMember+" the operation is left out", fmt.Sprintf(format, args...))
}

// tree reads a file whole.
func (p faultPlace) tree() *jsontree.Node {
	raw, err := read(p.loader.dir, p.file)
	if err != nil {
		p.fault("", "can't be read: %s", cause(err))
		return nil
	}
	faults := input.Check(context.Background(), raw, "file")
	for _, fault := range faults {
		p.fault(fault.Pointer, "%s", fault.Detail)
	}
	if len(faults) > 0 {
		return nil
	}
	tree, err := jsontree.Parse(raw)
	if err != nil {
		p.fault("", "can't be read: %s", err)
		return nil
	}
	if tree.Kind() != '{' {
		p.fault("", "must be an object")
		return nil
	}
	return tree
}

func read(dir fs.FS, name string) ([]byte, error) {
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(raw) > maxFile {
		err = fmt.Errorf("it has more than %d bytes", maxFile)
	}
	return raw, err
}

// cause returns the text of a file error without the path, which is shown beside it.
func cause(err error) string {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err
	}
	return err.Error()
}

// form begins to read an object strictly; nil: the value is no object, which is noted.
func (p faultPlace) form(n *jsontree.Node) *input.Form {
	form, err := input.ParseForm(n.Raw)
	if err != nil {
		p.noteFaults(n, err)
		return nil
	}
	return form
}

// noteFaults notes the faults of a form.
func (p faultPlace) noteFaults(n *jsontree.Node, err error) {
	for _, fault := range formFaults(err) {
		p.fault(n.Pointer()+fault.Pointer, "%s", fault.Detail)
	}
}
