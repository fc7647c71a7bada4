package routefile

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"waybill.dev/services/gateway/internal/jsonschema"
	"waybill.dev/services/gateway/internal/jsontree"
)

// Our extensions of OpenAPI documents.
const (
	routeMember    = "x-gateway-route"
	pathMember     = "x-gateway-path"
	internalMember = "x-internal"
)

var (
	supported = regexp.MustCompile(`^3\.[01]\.\d`)
	noSlug    = regexp.MustCompile(`[^A-Za-z0-9]+`)
)

// file reads a route file.
func (l *loader) file(name string) {
	p := faultPlace{loader: l, file: name}
	root := p.tree()
	if root == nil {
		return
	}
	version, _ := root.Member("openapi").Text()
	if !supported.MatchString(version) {
		p.fault("/openapi", "must be a version of OpenAPI: 3.1.x or 3.0.x")
		return
	}
	schemas, err := jsonschema.NewDocument(root, version, l.budget)
	if err != nil {
		p.fault("", "%s", err)
		return
	}
	file := &File{Name: name, Raw: root.Raw, Version: version, Schemas: schemas}
	l.set.Files = append(l.set.Files, file)
	paths := root.Member("paths")
	if paths != nil && paths.Kind() != '{' {
		p.fault("/paths", "must be an object")
		return
	}
	d := document{faultPlace: p, file: file, root: root, ids: make(map[string]string)}
	d.explicitIDs(paths)
	for path, item := range paths.Members() {
		if l.budget.Err() != nil {
			return // the fault is or will be reported elsewhere
		}
		if !strings.HasPrefix(path, "x-") {
			d.path(path, item)
		}
	}
}

// document is a route file that is being read.
type document struct {
	faultPlace

	file *File
	root *jsontree.Node
	ids  map[string]string // operationId → method and path
}

// methods returns the members of a path item that are operations.
func methods() []string {
	return []string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}
}

// item returns a path item, or the target of its reference.
func (d *document) item(n *jsontree.Node) *jsontree.Node {
	target, _ := n.Follow(d.root)
	return target
}

// explicitIDs notes every operationId, of operations with or without a route: generated ids must differ from all of them.
// Two routes must not share one; operations that are only documentation may.
func (d *document) explicitIDs(paths *jsontree.Node) {
	routed := make(map[string]bool)
	for path, item := range paths.Members() {
		for name, operation := range d.item(item).Members() {
			if !slices.Contains(methods(), name) {
				continue
			}
			id, ok := operation.Member("operationId").Text()
			if !ok {
				continue
			}
			label := strings.ToUpper(name) + " " + path
			isRouted := operation.Member(routeMember) != nil
			if other, taken := d.ids[id]; taken && isRouted && routed[id] {
				p := d.faultPlace
				p.operation = id
				p.fault(operation.Pointer()+"/operationId", "%s and %s have the same operationId", other, label)
				continue
			}
			d.ids[id] = label
			routed[id] = routed[id] || isRouted
		}
	}
}

func (d *document) path(path string, n *jsontree.Node) {
	item, nowhere := n.Follow(d.root)
	if item == nil {
		d.fault(n.Pointer(), "%s leads nowhere in this file", nowhere)
		return
	}
	if item.Kind() != '{' {
		d.fault(n.Pointer(), "must be an object")
		return
	}
	var found, routed []string
	for name, operation := range item.Members() {
		if !slices.Contains(methods(), name) {
			continue
		}
		found = append(found, strings.ToUpper(name))
		if operation.Kind() != '{' || operation.Member(routeMember) != nil {
			routed = append(routed, name)
		}
	}
	mode := d.mode(item.Member(pathMember))
	if len(routed) == 0 {
		return // only documentation
	}
	template, err := parseTemplate(mode, path)
	if err == nil {
		err = template.within(d.loader.budget)
	}
	if err != nil {
		d.fault(n.Pointer(), "%s", err)
		return
	}
	for name, operation := range item.Members() {
		if !slices.Contains(methods(), name) {
			continue
		}
		s := &routedOperation{
			Operation:  &Operation{File: d.file, Path: path, Mode: mode, Method: strings.ToUpper(name)},
			faultPlace: d.faultPlace, pointer: operation.Pointer(), template: template,
		}
		for _, other := range found {
			if other != s.Method {
				s.others = append(s.others, other)
			}
		}
		d.operation(s, item, operation)
	}
}

func (d *document) mode(n *jsontree.Node) PathMode {
	if n == nil {
		return OpenAPI
	}
	form := d.form(n)
	if form == nil {
		return OpenAPI
	}
	mode := OpenAPI
	if text, ok := form.Text("pathMode", 0, 64); ok {
		mode = PathMode(text)
	}
	if mode != OpenAPI && mode != URLPattern {
		form.Fault("must be open-api or url-pattern", "pathMode")
		mode = OpenAPI
	}
	d.noteFaults(n, form.Err())
	return mode
}

// generatedID makes an operationId of method and path.
func (d *document) generatedID(o *Operation) string {
	slug := strings.ToLower(o.Method) + "-" + noSlug.ReplaceAllString(o.Path, "-")
	slug = strings.ReplaceAll(slug, "--", "-")
	if len(slug) > 56 {
		slug = slug[:56]
	}
	slug = strings.Trim(slug, "-")
	id := slug
	for i := 2; d.ids[id] != ""; i++ {
		id = slug + "-" + strconv.Itoa(i)
	}
	d.ids[id] = o.Method + " " + o.Path
	return id
}
