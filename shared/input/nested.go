package input

import (
	"fmt"
	"strconv"

	"waybill.dev/shared/jsonscan"
	"waybill.dev/shared/problem"
)

// Object returns a member that is an object, as it was sent.
func (f *Form) Object(name string) (value []byte, ok bool) {
	return f.takeMember(name, '{', "an object")
}

// Inner returns a member that is an object, to be read separately. Its faults are reported with
// those of the form.
func (f *Form) Inner(name string) (inner *Form, ok bool) {
	value, ok := f.takeMember(name, '{', "an object")
	if !ok {
		return nil, false
	}
	element, ok := f.element(value, false, name)
	return element.Form, ok
}

// Element is an element of an array of objects, or of objects and texts.
type Element struct {
	Text string
	Form *Form // nil: the element is a text
}

// Elements returns an array of min to max objects or, if texts is true, also strings. Faults of the
// objects are reported with those of the form to which they belong.
func (f *Form) Elements(name string, minimum, maximum int, texts bool) (list []Element, ok bool) {
	values, ok := f.array(name, minimum, maximum)
	for i, value := range values {
		element, good := f.element(value, texts, name, strconv.Itoa(i))
		list, ok = append(list, element), ok && good
	}
	return list, ok
}

func (f *Form) element(value jsonscan.Value, texts bool, parts ...string) (Element, bool) {
	switch kind := value.Kind(); {
	case kind == '{':
		names, values, ok := members(value, maxMembers)
		if !ok {
			f.Fault(tooMany, parts...)
			return Element{}, false
		}
		at, _ := jsonscan.Below(f.at, parts...) // the parts are known names, and indexes
		form := &Form{at: at, names: names, values: values, asked: make(map[string]bool), notes: f.notes}
		f.elements = append(f.elements, form)
		return Element{Form: form}, true
	case kind == '"' && texts:
		return Element{Text: unquote(value)}, true
	case texts:
		f.Fault("must be a string or an object", parts...)
	default:
		f.Fault("must be an object", parts...)
	}
	return Element{}, false
}

// ParseForms reads body, which must be an array of min to max objects. whole has the faults of all
// of them. It fails with a *problem.Problem when the body is no such array.
func ParseForms(body []byte, minimum, maximum int) (whole *Form, forms []*Form, err error) {
	faults, err := scan(body)
	if err != nil {
		return nil, nil, err
	}
	if jsonscan.Value(body).Kind() != '[' {
		return nil, nil, problem.Invalid(append(faults, problem.Fault{Detail: "must be an array"})...)
	}
	values, ok := elements(body, minimum, maximum)
	if !ok {
		return nil, nil, problem.Invalid(append(faults, problem.Fault{Detail: fmt.Sprintf("must have %d to %d elements", minimum, maximum)})...)
	}
	whole = &Form{notes: &faultList{faults: faults}}
	for i, value := range values {
		if element, ok := whole.element(value, false, strconv.Itoa(i)); ok {
			forms = append(forms, element.Form)
		}
	}
	return whole, forms, nil
}
